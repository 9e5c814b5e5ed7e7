package main

import (
	"context"
	"slices"

	"anvil/pipeline/digest"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/stages/derive"
	"anvil/stages/record"
)

// A rederiver is what provenance verify asks of what a run published: of a final
// record the same function that the kind validate runs, of the rest the rules of
// its kind. It remembers what it has looked at.
type rederiver struct {
	asked   bool // for a record
	seen    map[digest.Digest]bool
	reports map[digest.Digest]record.Validation // by record
}

func (r *rederiver) options() prov.VerifyOptions {
	return prov.VerifyOptions{Rederive: r.again, Check: r.check}
}

func (r *rederiver) again(ctx context.Context, rec stage.Artifact, closure stage.Closure, beside []stage.Artifact) (int, []prov.Problem, error) {
	r.asked = true
	report, err := derive.Validate(ctx, rec, closure, beside...)
	if err != nil {
		return 0, nil, err
	}
	if r.seen == nil {
		r.seen, r.reports = map[digest.Digest]bool{}, map[digest.Digest]record.Validation{}
	}
	r.reports[rec.SHA256] = report
	for a := range closure.All() {
		r.seen[a.SHA256] = true
	}
	for _, a := range beside {
		r.seen[a.SHA256] = true
	}
	return report.Level, problemsOf(rec, report.Problems), nil
}

func (r *rederiver) check(ctx context.Context, a stage.Artifact, closure func() (stage.Closure, error)) (int, []prov.Problem, error) {
	if r.seen[a.SHA256] {
		return record.LevelRederived, nil, nil
	}
	level, problems := record.LevelRederived, derive.CheckAlone(ctx, a)
	if a.Schema == record.ValidationSchema && len(problems) == 0 {
		c, err := closure()
		if err == nil {
			problems, err = derive.Revalidate(ctx, a, c, r.reports)
		}
		if err != nil {
			return 0, nil, err
		}
	}
	for _, p := range problems {
		level = min(level, p.Level-1)
	}
	return level, problemsOf(a, problems), ctx.Err()
}

func problemsOf(a stage.Artifact, found []record.ValidationProblem) []prov.Problem {
	out := make([]prov.Problem, len(found))
	for i, p := range found {
		code := prov.NotRederived
		if slices.Contains(derive.Unlooked(), p.Rule) {
			code = prov.NotRederivable
		}
		out[i] = prov.Problem{
			Code: code, Stage: a.Stage, Name: p.Artifact + p.Pointer,
			Expected: oneLine(p.Computed), Found: oneLine(p.Stored), Text: p.Rule + ": " + p.Text,
		}
	}
	return out
}

// levelText says what a level means for the run that was verified.
func (r *rederiver) levelText(level int) string {
	if level == record.LevelRederived && !r.asked {
		return "intact and consistent; the run made no record, so there was nothing to derive again"
	}
	return levelText(level)
}
