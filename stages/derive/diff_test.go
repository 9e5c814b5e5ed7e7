package derive

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/pipeline/stage"
	"anvil/stages/record"
)

func TestDiffNamesWhatTwoRecordsSayDifferently(t *testing.T) {
	one, two := 1.0, 2.0
	pass, fail := record.Verdict("pass"), record.Verdict("fail")
	item := "case-01"
	stated := stage.Limitation{Code: "plan.stated", Severity: stage.Caveat, Origin: "plan", AppliesTo: []string{"*"}, Text: "a"}
	before := &record.Final{
		Limitations: stage.NewLimitationSet(stated),
		Cells: []record.Cell{{
			ID: "measure", Metrics: []record.Metric{{ID: "ttft_p50_ms", Unit: "ms", Value: &one}, {ID: "e2e_p50_ms", Value: &one}},
			Cases: []record.Case{{Item: &item, Index: 0, Outcome: "ok", Verdict: &pass}, {Index: 1, Outcome: "ok", Verdict: &pass}},
		}},
	}
	after := &record.Final{
		Cells: []record.Cell{{
			ID: "measure", Metrics: []record.Metric{{ID: "ttft_p50_ms", Unit: "ms", Value: &two}, {ID: "e2e_p50_ms", Value: &one}},
			Cases: []record.Case{{Item: &item, Index: 0, Outcome: "ok", Verdict: &fail}, {Index: 1, Outcome: "ok", Verdict: &pass}, {Index: 2, Outcome: "cut"}},
		}},
	}
	p, f, cut := "pass", "fail", "cut"
	want := RecordDiff{
		Metrics: []MetricDiff{{Cell: "measure", ID: "ttft_p50_ms", Unit: "ms", Before: &one, After: &two}},
		Verdicts: []VerdictDiff{
			{Cell: "measure", Item: &item, Index: 0, Before: &p, After: &f, Reason: "judged differently"},
			{Cell: "measure", Index: 2, After: &cut, Reason: "only in the second run"},
		},
		Limitations: LimitationsDiff{Added: stage.LimitationSet{}, Removed: stage.LimitationSet{stated}},
	}
	if d := cmp.Diff(want, Diff(before, after)); d != "" {
		t.Errorf("difference (-want +got):\n%s", d)
	}
	same := Diff(before, before)
	if len(same.Metrics)+len(same.Verdicts)+len(same.Limitations.Added)+len(same.Limitations.Removed) != 0 {
		t.Errorf("a record differs from itself: %+v", same)
	}
}
