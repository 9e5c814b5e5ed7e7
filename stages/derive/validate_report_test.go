package derive_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/derive"
	"anvil/stages/record"
	"anvil/stages/validate"
)

// reported is the report of the kind validate on a record, and its closure.
func (l *lab) reported(rec stage.Artifact) stage.Artifact {
	l.t.Helper()
	p, err := l.run(run{
		kind: validate.Kind, id: "validate", config: map[string]any{},
		ports: map[string][]stage.Artifact{"record": {rec}}, closures: map[string]stage.Closure{"record": l.closure(rec)},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return p.artifacts["validation.json"]
}

func (l *lab) revalidated(report stage.Artifact) []record.ValidationProblem {
	l.t.Helper()
	problems, err := derive.Revalidate(l.t.Context(), report, l.closure(report), nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return problems
}

// A validation that was just made spares another; one of something else does not
// make a fault of it.
func TestAKnownValidationSparesAnother(t *testing.T) {
	l, p, _ := golden(t)
	rec := p.artifacts["record.json"]
	report := l.reported(rec)
	var doc record.Validation
	if err := json.Unmarshal(l.objects[report.SHA256], &doc); err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	known := map[digest.Digest]record.Validation{rec.SHA256: doc}
	if problems, err := derive.Revalidate(canceled, report, l.closure(report), known); err != nil || len(problems) > 0 {
		t.Errorf("validated again: %+v, %v", problems, err)
	}
	doc.Level = 1
	known[rec.SHA256] = doc
	if problems, err := derive.Revalidate(t.Context(), report, l.closure(report), known); err != nil || len(problems) > 0 {
		t.Errorf("another validation is taken for this one: %+v, %v", problems, err)
	}
}

func TestEveryScalarOfAReportIsMadeAgain(t *testing.T) {
	l, p, _ := golden(t)
	report := l.reported(p.artifacts["record.json"])
	if problems := l.revalidated(report); len(problems) > 0 {
		t.Fatalf("a report as it was made: %+v", problems)
	}
	doc := l.objects[report.SHA256]
	changed := 0
	for _, m := range mutations(t, doc) {
		if strings.HasPrefix(m.pointer, "/limitations") {
			continue // of the set, which is held against the closure
		}
		changed++
		forged := l.artifact(report.Stage, report.Name, report.Schema, slices.Concat(doc[:m.from], []byte(m.text), doc[m.to:]), report.LimitationSet())
		l.made[forged.SHA256] = l.made[report.SHA256]
		problems := l.revalidated(forged)
		if len(problems) != 1 || problems[0].Pointer != m.pointer || problems[0].Stored == nil && problems[0].Computed == nil {
			t.Errorf("%s to %s: %+v", m.pointer, m.text, problems)
		}
	}
	if changed < 10 {
		t.Errorf("only %d scalars were changed", changed)
	}
}

// A bad record's report is bad for the same reasons, and one that hides a problem
// is not what validate says.
func TestAReportHidesNoProblem(t *testing.T) {
	l, p, f := golden(t)
	rec := p.artifacts["record.json"]
	made := l.made[rec.SHA256]
	forged := strings.Replace(string(l.objects[rec.SHA256]), `"planned": 8`, `"planned": 9`, 1)
	if forged == string(l.objects[rec.SHA256]) {
		t.Fatalf("the golden record has %d planned", f.Cells[0].Accounting.Planned)
	}
	bad := l.artifact(rec.Stage, rec.Name, rec.Schema, []byte(forged), rec.LimitationSet())
	l.made[bad.SHA256] = made
	report := l.reported(bad)
	if problems := l.revalidated(report); len(problems) > 0 {
		t.Errorf("a report of what is wrong: %+v", problems)
	}
	good := l.reported(rec)
	l.made[good.SHA256] = l.made[report.SHA256] // as if it were of the bad one
	if problems := l.revalidated(good); !slices.ContainsFunc(problems, func(p record.ValidationProblem) bool {
		return p.Pointer == "/ok" && p.Stored == true && p.Computed == false
	}) {
		t.Errorf("a report of another record: %+v", problems)
	}
}

func TestAReportOfNobodyIsNotMadeAgain(t *testing.T) {
	l, p, _ := golden(t)
	report := l.reported(p.artifacts["record.json"])
	made := l.made[report.SHA256]
	for rule, change := range map[string]func(*stage.Production){
		"contract":      func(p *stage.Production) { p.Contract-- },
		"not-rederived": func(p *stage.Production) { p.Kind = "import" },
	} {
		other := made
		change(&other)
		l.made[report.SHA256] = other
		if problems := l.revalidated(report); len(problems) != 1 || problems[0].Rule != rule || !slices.Contains(derive.Unlooked(), rule) {
			t.Errorf("%+v, want %s", problems, rule)
		}
	}
}
