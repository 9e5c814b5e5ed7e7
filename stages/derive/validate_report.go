package derive

import (
	"context"
	"iter"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// Revalidate makes a published validation.json again and returns what differs. The
// closure is that of the report itself: the record, what it stands on, and what
// stood beside it on the ports of validate. A report that another contract of
// validate made says nothing that this build could compare. Known are validations
// that were just made, by the digest of their record: a report that one of them
// equals costs no other.
func Revalidate(ctx context.Context, report stage.Artifact, closure stage.Closure, known map[digest.Digest]record.Validation) ([]record.ValidationProblem, error) {
	v := &validation{ctx: ctx, rec: report, closure: closure}
	made, ok := closure.Made(report.SHA256)
	if !ok || made.Kind != "validate" || len(made.Inputs["record"]) != 1 {
		v.problem(record.LevelRederived, report, "", "not-rederived", nil, nil, "nothing here says of which record this report is")
		return v.out.Problems, nil
	}
	if !v.sameContract(report, made, ValidateContract) {
		return v.out.Problems, nil
	}
	rec := made.Inputs["record"][0]
	if again, ok := known[rec.SHA256]; ok {
		first := &validation{ctx: ctx, rec: report, closure: closure}
		if err := first.compareReport(report, again); err == nil && len(first.out.Problems) == 0 {
			return nil, nil
		}
	}
	below := below{closure, map[digest.Digest]bool{rec.SHA256: true}}
	var beside []stage.Artifact
	for _, port := range sortedKeys(made.Inputs) {
		for _, a := range made.Inputs[port] {
			if port != "record" {
				beside = append(beside, a)
				below.without[a.SHA256] = true
			}
		}
	}
	again, err := Validate(ctx, rec, below, beside...)
	if err != nil {
		return nil, err
	}
	err = v.compareReport(report, again)
	return v.out.Problems, err
}

func (v *validation) compareReport(report stage.Artifact, again record.Validation) error {
	stored, err := v.object(report)
	if err != nil {
		return err
	}
	computed, err := plain(again)
	if err != nil {
		return err
	}
	delete(stored, "limitations") // of its set, which every document is held against
	compareTrees("", stored, computed, func(pointer string, s, c any, text string) {
		v.problem(record.LevelRederived, report, pointer, "rederive", s, c, "%s", text)
	})
	return nil
}

// below is a closure without what only the report stands on: a record does not
// witness itself.
type below struct {
	stage.Closure
	without map[digest.Digest]bool
}

func (b below) All() iter.Seq[stage.Artifact] {
	return func(yield func(stage.Artifact) bool) {
		for a := range b.Closure.All() {
			if !b.without[a.SHA256] && !yield(a) {
				return
			}
		}
	}
}

func (b below) Get(d digest.Digest) (stage.Artifact, bool) {
	if b.without[d] {
		return stage.Artifact{}, false
	}
	return b.Closure.Get(d)
}
