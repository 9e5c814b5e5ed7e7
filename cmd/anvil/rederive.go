package main

import (
	"context"

	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/stages/derive"
)

// rederive is what provenance verify asks of a final record: the same function
// that the kind validate runs.
func rederive(ctx context.Context, rec stage.Artifact, closure stage.Closure) (int, []prov.Problem, error) {
	report, err := derive.Validate(ctx, rec, closure)
	if err != nil {
		return 0, nil, err
	}
	problems := make([]prov.Problem, len(report.Problems))
	for i, p := range report.Problems {
		problems[i] = prov.Problem{
			Code: prov.NotRederived, Stage: rec.Stage, Name: p.Artifact + p.Pointer,
			Expected: oneLine(p.Computed), Found: oneLine(p.Stored), Text: p.Rule + ": " + p.Text,
		}
	}
	return report.Level, problems, nil
}

// A rederiver remembers whether there was a record to derive again.
type rederiver struct{ asked bool }

func (r *rederiver) again(ctx context.Context, rec stage.Artifact, closure stage.Closure) (int, []prov.Problem, error) {
	r.asked = true
	return rederive(ctx, rec, closure)
}

// levelText says what a level means for the run that was verified.
func (r *rederiver) levelText(level int) string {
	if level == 3 && !r.asked {
		return "intact and consistent; the run made no record, so there was nothing to derive again"
	}
	return levelText(level)
}
