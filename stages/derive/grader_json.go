package derive

import (
	"fmt"
	"strings"

	"anvil/schemas"
	"anvil/stages/record"
)

// json: the whole answer, a code fence around it left aside, is one JSON value
// that fits the schema, and what the pointers name in it is as given. The score
// is the share of pointers that hold.
var jsonGrader = graderType{
	name: "json",
	keys: map[string]any{"schema": nil, "pointers": nil}, build: buildJSON,
}

type jsonValue struct {
	pointers map[string]any
	schema   *schemas.Foreign
}

func buildJSON(s GraderSpec, b *builder) (grader, error) {
	g := &jsonValue{pointers: map[string]any{}}
	if src, ok := b.file("schema"); ok {
		if _, err := decodeAnswer(string(src)); err != nil {
			return nil, &keyError{"schema", fmt.Sprintf("the file is no JSON: %v", err), ""}
		}
		schema, err := schemas.ParseForeign(src)
		if err != nil {
			return nil, &keyError{"schema", oneLine(err), "draft 2020-12, standing alone; patterns are RE2, which has no look-around"}
		}
		g.schema = schema
	}
	for pointer, raw := range s.Pointers {
		if !validPointer(pointer) {
			return nil, &keyError{"pointers", fmt.Sprintf("%q is no JSON pointer", pointer), "/name/0"}
		}
		v, err := decodeNumbers(raw)
		if err != nil {
			return nil, err
		}
		g.pointers[pointer] = v
	}
	return g, nil
}

// oneLine is the text of an error of the library, which goes over several.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func (g *jsonValue) judge(a *answer) judgement {
	from, to := unfencedBounds(a.text)
	v, err := decodeAnswer(a.text[from:to])
	if err != nil {
		return fail("the answer is no JSON: %v", err)
	}
	var wrong []string
	for _, pointer := range sortedKeys(g.pointers) {
		got, ok := lookup(v, pointer)
		switch {
		case !ok:
			wrong = append(wrong, pointer+" is missing")
		case !sameJSON(g.pointers[pointer], got):
			wrong = append(wrong, fmt.Sprintf("%s is %s, want %s", pointer, shown(got), shown(g.pointers[pointer])))
		}
	}
	score := 1.0
	if len(g.pointers) > 0 {
		score = float64(len(g.pointers)-len(wrong)) / float64(len(g.pointers))
	}
	if g.schema != nil {
		for _, fault := range g.schema.Validate(v) {
			wrong, score = append(wrong, fault.Error()), 0
		}
	}
	j := pass("JSON as wanted")
	if len(wrong) > 0 {
		j = judgement{verdict: record.Fail, score: score, reason: strings.Join(wrong, "; ")}
	}
	return j.from(a, from, to)
}
