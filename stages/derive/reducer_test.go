package derive_test

import (
	"strings"
	"testing"

	"anvil/pipeline/stage"
	"anvil/stages/grade"
	"anvil/stages/record"
)

// gradeItems grades one right answer to each of the items, in their order.
func gradeItems(t *testing.T, config map[string]any, items ...string) (published, error) {
	t.Helper()
	l := newLab(t)
	var rows []record.Attempt
	var data strings.Builder
	seen := map[string]bool{}
	for i, item := range items {
		rows = append(rows, answered(i, item, "x", int64(i)*ms, 5))
		if item != "" && !seen[item] {
			data.WriteString(`{"id":"` + item + `","prompt":"p","expected":"x"}` + "\n")
		}
		seen[item] = true
	}
	config["dataset"], config["graders"] = "d.jsonl", []any{map[string]any{"id": "g", "type": "equals"}}
	return l.run(run{
		kind: grade.Kind, id: "grade", config: config,
		ports: map[string][]stage.Artifact{"attempts": {l.attempts("measure", header(len(rows)), rows)}},
		files: map[string]stage.Artifact{"/dataset": l.artifact("", "d.jsonl", "anvil.dataset/v1", []byte(data.String()), stage.LimitationSet{})},
	})
}

func footerOf(t *testing.T, p published) record.GradesFooter {
	t.Helper()
	r, err := record.NewGradesReader(strings.NewReader(string(p.raw["grades.jsonl"])))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
	}
	return *r.Footer()
}

func TestPassAtKOfTooFewAttemptsIsUnknown(t *testing.T) {
	p, err := gradeItems(t, map[string]any{"reducer": "pass_at_k", "k": 3}, "a", "a", "a", "b", "b")
	if err != nil {
		t.Fatal(err)
	}
	got := footerOf(t, p).Reduced
	if got == nil || got.Value != nil || got.Items != 2 || got.Reason != "1 of 2 items have fewer than 3 attempts, down to 2" {
		t.Errorf("%+v, want no value, with its reason", got)
	}
	p, err = gradeItems(t, map[string]any{"reducer": "pass_at_k", "k": 2}, "a", "a", "a", "b", "b")
	if err != nil {
		t.Fatal(err)
	}
	if got := footerOf(t, p).Reduced; got == nil || got.Value == nil || *got.Value != 1 || got.Reason != "" {
		t.Errorf("%+v, want 1", got)
	}
	if _, err := gradeItems(t, map[string]any{"reducer": "pass_at_k"}, "a"); err == nil {
		t.Error("pass_at_k without k is graded")
	}
}

// inspect#796: what a default would make of items that repeat decides a result.
func TestItemsThatRepeatNeedAReducer(t *testing.T) {
	_, err := gradeItems(t, map[string]any{}, "a", "b", "a")
	if err == nil || !strings.Contains(err.Error(), "requests 0 and 2 both ask item") || !strings.Contains(err.Error(), "set `reducer` of the grade stage") {
		t.Errorf("error %v, want one that names the requests and the remedy", err)
	}
	p, err := gradeItems(t, map[string]any{}, "a", "b", "", "")
	if err != nil {
		t.Fatal(err)
	}
	if got := gradesHeader(t, p).Reducer; got != "none" {
		t.Errorf("reducer %q where no item repeats, want none", got)
	}
	if _, err := gradeItems(t, map[string]any{"reducer": "none"}, "a", "b", "a"); err != nil {
		t.Errorf("none was asked for: %v", err)
	}
}
