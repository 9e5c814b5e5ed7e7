package derive

import (
	"bytes"
	"slices"

	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// siblings are those of the artifacts that the stage of the record made.
func siblings(rec stage.Artifact, all []stage.Artifact) []stage.Artifact {
	return slices.DeleteFunc(slices.Clone(all), func(a stage.Artifact) bool { return a.Stage != rec.Stage })
}

// rederiveBeside makes the documents beside the record again and compares them
// byte for byte.
func (v *validation) rederiveBeside(again *Summary, set stage.LimitationSet) {
	for _, a := range v.beside {
		i := slices.IndexFunc(again.Formats(), func(f Format) bool { return f.Name == a.Name })
		if i < 0 {
			v.problem(record.LevelRederived, a, "", "unasked", nil, nil, "the configuration and the evidence of the record give no such document")
			continue
		}
		doc, err := again.Formats()[i].Build(again, set)
		if err != nil {
			v.problem(record.LevelRederived, a, "", "rederive", nil, nil, "%v", err)
			continue
		}
		stored, err := a.Bytes(v.ctx)
		if err != nil {
			continue // the reading has said so
		}
		if !bytes.Equal(stored, doc) {
			v.compareBeside(a, stored, doc)
		}
		v.out.Rederived = append(v.out.Rederived, a.Stage+"/"+a.Name)
	}
}

// compareBeside names where a document differs. Its run id is of its bytes: it
// is compared by the rules of the kind.
func (v *validation) compareBeside(a stage.Artifact, stored, again []byte) {
	s, errS := decodeNumbers(stored)
	c, errC := decodeNumbers(again)
	if errS != nil || errC != nil {
		v.problem(record.LevelRederived, a, "", "rederive", nil, nil, "is not what is derived")
		return
	}
	for _, doc := range []any{s, c} {
		if m, ok := doc.(map[string]any); ok {
			delete(m, "run_id")
		}
	}
	compareTrees("", s, c, func(pointer string, stored, computed any, text string) {
		v.problem(record.LevelRederived, a, pointer, "rederive", stored, computed, "%s", text)
	})
}
