package derive_test

import (
	"testing"

	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// vllm 44708, tt-inference-server 190: 128 tokens were planned and the server
// counted 138. Both are kept, and what is reported is what was decoded: as the
// prompt's size, in its total and in the rate of its prefill.
func TestVLLM44708TheServersPromptIsWhatIsReported(t *testing.T) {
	var rows []record.Attempt
	for i := range 5 { // a median needs five
		a := answered(i, string(rune('a'+i)), "x", int64(i)*1000*ms, 5)
		a.PlannedInputTokens, a.Usage.Input, a.Usage.Cached = new(128), new(int64(138)), nil
		rows = append(rows, a)
	}
	l := newLab(t)
	_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {l.attempts("measure", header(len(rows)), rows, userStamps)}})
	for id, want := range map[string]float64{
		"prompt_tokens_mean": 138, "prompt_tokens_p50": 138, "prompt_tokens_total": 5 * 138,
		"effective_prefill_mean_tokens_per_s": record.Prefill(138, 199), // the first output is 199 ms after the start
	} {
		if m := find(t, f.Cells[0].Metrics, id); m.Value == nil || *m.Value != want {
			t.Errorf("%s: %+v, want %v", id, m, want)
		}
	}
	var following record.Following
	for i := range rows {
		following.Add(&rows[i], true)
	}
	if row := following.Rows[0]; row.PlannedContextTokens != 128 || row.PromptTokens == nil || *row.PromptTokens != 138 {
		t.Errorf("the row keeps %d planned and %v counted, want 128 and 138", row.PlannedContextTokens, row.PromptTokens)
	}
}

// vllm 27485: with speculation an event holds 1 to 5 tokens. The time per token
// is of the server's count, the gap of the events: two figures under two names.
func TestVLLM27485TPOTIsOfTokensAndTheGapIsOfEvents(t *testing.T) {
	var rows []record.Attempt
	for i := range 5 {
		a := answered(i, string(rune('a'+i)), "x", int64(i)*1000*ms, 10) // 10 events, 20 ms apart
		a.Usage.Output = new(int64(1 + 2 + 3 + 4 + 5 + 1 + 2 + 3 + 4 + 5))
		rows = append(rows, a)
	}
	l := newLab(t)
	_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {l.attempts("measure", header(len(rows)), rows, userStamps)}})
	for id, want := range map[string]float64{
		"chunk_gap_p50_ms": 20, "chunk_gap_min_ms": 20, "chunk_gap_max_ms": 20,
		"tpot_p50_ms": (9*20.0 + 1) / 29, // from the first output to the end, 1 ms behind the last
	} {
		if m := find(t, f.Cells[0].Metrics, id); m.Value == nil || *m.Value != want {
			t.Errorf("%s: %+v, want %v", id, m, want)
		}
	}
	gap, tpot := find(t, f.Cells[0].Metrics, "chunk_gap_p50_ms"), find(t, f.Cells[0].Metrics, "tpot_p50_ms")
	if gap.Label == tpot.Label || gap.Definition == tpot.Definition {
		t.Errorf("two figures under one name: %q, %q", gap.Label, tpot.Label)
	}
}

// vllm 46938, sglang 37359: the share of cached input is the server's. Where it
// says nothing of any request it is unknown, with a reason; where it says it of
// some, the share is of those.
func TestVLLM46938TheCachedShareIsUnknownWithoutACount(t *testing.T) {
	for name, c := range map[string]struct {
		cached  []*int64 // of 100 prompt tokens each
		want    *float64
		samples int
	}{
		"of none": {[]*int64{nil, nil, nil}, nil, 0},
		"of one":  {[]*int64{nil, new(int64(50)), nil}, new(0.5), 1},
		"of all":  {[]*int64{new(int64(0)), new(int64(50)), new(int64(100))}, new(0.5), 3},
		"all new": {[]*int64{new(int64(0)), new(int64(0)), new(int64(0))}, new(0.0), 3},
	} {
		var rows []record.Attempt
		for i, n := range c.cached {
			a := answered(i, string(rune('a'+i)), "x", int64(i)*1000*ms, 5)
			a.Usage.Cached = n
			rows = append(rows, a)
		}
		l := newLab(t)
		_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {l.attempts("measure", header(len(rows)), rows, userStamps)}})
		m := find(t, f.Cells[0].Metrics, "cached_input_share")
		if (m.Value == nil) != (c.want == nil) || m.Value != nil && *m.Value != *c.want || (m.Reason != nil) != (c.want == nil) || m.Samples != c.samples {
			t.Errorf("%s: %+v, want %v of %d", name, m, c.want, c.samples)
		}
	}
}
