package derive_test

import (
	"slices"
	"strings"
	"testing"

	"anvil/pipeline/stage"
	"anvil/stages/derive"
	"anvil/stages/record"
)

func limitationsOf(f record.Final, code string) []stage.Limitation {
	return slices.DeleteFunc(f.Limitations, func(l stage.Limitation) bool { return l.Code != code })
}

// A request prefilled five times as fast as is typical of its cell had its
// prompt in the cache, and the record names it.
func TestWarmRowsAreNamed(t *testing.T) {
	warm := func(fast int, limits ...stage.Limitation) []stage.Limitation {
		l := newLab(t)
		rows, _ := goldenRows()
		for i := range rows {
			if a := &rows[i]; a.Index == 1 || a.Index == fast {
				*a.Usage.Input *= 5
			}
		}
		_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {l.attempts("measure", header(8), rows, limits...)}})
		return limitationsOf(f, "cache.warm-rows")
	}
	got := warm(5)
	if len(got) != 1 || got[0].Origin != "summarize" || !strings.HasPrefix(got[0].Text, "Requests 1, 5 of measure were prefilled") {
		t.Fatalf("limitations %+v", got)
	}
	for _, row := range derive.Metrics() {
		want := slices.Contains([]string{"ttft", "time_to_first_output", "effective_prefill"}, row.Figure)
		if slices.Contains(got[0].AppliesTo, row.ID) != want {
			t.Errorf("applies to %s: %v, want %v", row.ID, !want, want)
		}
	}
	said := stage.Limit("cache.warm-rows", "requests", "1, 5")
	said.Origin = "measure"
	if got := warm(5, said); len(got) != 1 || got[0].Origin != "measure" {
		t.Errorf("said twice: %+v", got)
	}
	if _, _, f := golden(t); len(limitationsOf(f, "cache.warm-rows")) > 0 {
		t.Error("rows that are all alike are warm")
	}
}

// Requests that did not wait for a slot are fast, not warm: the server counted no
// cached token in them.
func TestRowsThatTheServerCountsAsUncachedAreNotWarm(t *testing.T) {
	l := newLab(t)
	rows, _ := goldenRows()
	for i := range rows {
		if a := &rows[i]; a.Index == 1 || a.Index == 5 {
			*a.Usage.Input *= 5
			a.Usage.Cached = new(int64(0))
			if a.Index == 5 {
				a.Usage.Cached = nil // unknown
			}
		}
	}
	_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {l.attempts("measure", header(8), rows)}})
	got := limitationsOf(f, "cache.warm-rows")
	if len(got) != 1 || !strings.HasPrefix(got[0].Text, "Requests 5 of measure were prefilled") {
		t.Errorf("limitations %+v", got)
	}
}

// A limitation names at most 32 requests: half of a long phase may be warm.
func TestManyWarmRowsAreCounted(t *testing.T) {
	l := newLab(t)
	var rows []record.Attempt
	for i := range 80 {
		a := answered(i, "", "x", int64(i)*1000*ms, 5)
		if i < 40 {
			*a.Usage.Input *= 9
		}
		rows = append(rows, a)
	}
	_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {l.attempts("measure", header(80), rows)}})
	got := limitationsOf(f, "cache.warm-rows")
	if len(got) != 1 || !strings.Contains(got[0].Text, " 30, 31 and 8 more of measure were") {
		t.Errorf("limitations %+v", got)
	}
}

func TestRetriesAreInTheRecord(t *testing.T) {
	l := newLab(t)
	a, b := answered(0, "a", "x", 0, 3), answered(1, "b", "x", 0, 3)
	a.Tries = []record.Try{{Outcome: record.OutcomeRefusedLoad}, {T: a.T, Outcome: a.Outcome}}
	b.Tries = []record.Try{{T: b.T, Outcome: b.Outcome}}
	_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {l.attempts("measure", header(2), []record.Attempt{a, b})}})
	if got := limitationsOf(f, "requests.retried"); len(got) != 1 || !strings.HasPrefix(got[0].Text, "1 of 2 requests") {
		t.Errorf("limitations %+v", got)
	}
}

// Every stage writes a count of failures alike, so that one text is one limitation.
func TestFailuresAreWrittenAsMeasureWritesThem(t *testing.T) {
	_, _, f := golden(t)
	got := limitationsOf(f, "requests.failed")
	if len(got) != 1 || !strings.Contains(got[0].Text, record.Failures(map[record.Outcome]int{record.OutcomeRefusedLoad: 1})) {
		t.Errorf("limitations %+v", got)
	}
}

// Of several cells a limitation says whose samples are too few; cells alike
// share one.
func TestFewSamplesNameTheirCells(t *testing.T) {
	l := newLab(t)
	var files []stage.Artifact
	for id, n := range map[string]int{"measure[n=1]": 6, "measure[n=2]": 6, "measure[n=4]": 7} {
		var rows []record.Attempt
		for i := range n {
			rows = append(rows, answered(i, "", "x", int64(i)*1000*ms, 5))
		}
		h := header(n)
		h.Cell = map[string]any{"n": id[len(id)-2 : len(id)-1]}
		files = append(files, l.attempts(id, h, rows))
	}
	slices.SortFunc(files, func(a, b stage.Artifact) int { return strings.Compare(a.Stage, b.Stage) })
	_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": files})
	got := limitationsOf(f, "samples.few")
	want := []string{"6 samples are too few for p90, p95, p99 of ", "7 samples are too few for p90, p95, p99 of "}
	cells := []string{" in measure[n=1], measure[n=2]; the values are withheld.", " in measure[n=4]; the values are withheld."}
	if len(got) != len(want) {
		t.Fatalf("limitations %+v, want %d", got, len(want))
	}
	for i := range got {
		if !strings.HasPrefix(got[i].Text, want[i]) || !strings.HasSuffix(got[i].Text, cells[i]) {
			t.Errorf("%q, want %q … %q", got[i].Text, want[i], cells[i])
		}
	}
	if one := limitationsOf(func() record.Final { _, _, f := golden(t); return f }(), "samples.few"); len(one) == 0 || strings.Contains(one[0].Text, "measure") {
		t.Errorf("of one cell: %+v", one)
	}
}
