package derive

import (
	"strings"
	"testing"

	"anvil/pipeline/digest"
	"anvil/stages/record"
)

func attemptOf(text string) record.Attempt {
	return record.Attempt{Outcome: record.OutcomeOK, Text: &text, TextSHA256: digest.FromBytes([]byte(text))}
}

// A stream is written as its output events: a letter for the kind, a gap in ms
// before it, and a star where it shares its arrival.
//
//	stream("r200 c1000 c20", 41)
func stream(events string, outputTokens int64) record.Attempt {
	a := record.Attempt{Outcome: record.OutcomeOK, Usage: record.Usage{Source: "final"}}
	if outputTokens >= 0 {
		a.Usage.Output = &outputTokens
	}
	at := int64(0)
	a.T.Start, a.T.Due = new(int64(0)), new(int64(0))
	for e := range strings.FieldsSeq(events) {
		sharing := strings.HasSuffix(e, "*")
		gap := int64(0)
		for _, d := range strings.TrimSuffix(e[1:], "*") {
			gap = gap*10 + int64(d-'0')
		}
		at += gap * 1e6
		a.Arrivals = append(a.Arrivals, gap*1e6)
		a.ArrivalKinds += e[:1]
		a.Coalesced += map[bool]string{true: "1", false: "0"}[sharing]
		if a.T.FirstOutput == nil {
			a.T.FirstOutput = new(at)
		}
		if e[0] == 'c' && a.T.FirstContent == nil {
			a.T.FirstContent = new(at)
		}
		a.T.LastOutput = new(at)
	}
	a.T.End = new(at + 1e6)
	return a
}

const unknown = -1.0

// Rows of failures.md, named by their source: what a tool got wrong, and the
// figure that is right.
func TestFiguresThatOtherToolsGotWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		a    record.Attempt
		want map[string]float64
	}{
		"guidellm#737: reasoning is output and is no visible content": {
			stream("r1000 r20 c1000", 40), map[string]float64{"time_to_first_output": 1000, "ttft": 2020, "e2e": 2021},
		},
		"inference-perf#559: reasoning alone has no ttft": {
			stream("r1000 r20", 40), map[string]float64{"time_to_first_output": 1000, "ttft": unknown, "visible_generation": unknown, "e2e": 1021},
		},
		"vllm#5895: an empty answer has no first token": {
			stream("", 0), map[string]float64{"time_to_first_output": unknown, "ttft": unknown, "tpot": unknown, "decode": unknown, "generation": unknown},
		},
		"sglang#24266: without usage no tokens are credited": {
			stream("c200 c20 c20", -1), map[string]float64{"output_tokens": unknown, "tpot": unknown, "decode": unknown, "ttft": 200},
		},
		"inference-perf#410: a chunk is no token": {
			stream("c100 c20 c20 c20 c20 c20 c20 c20 c20 c19", 40), map[string]float64{"tpot": (9*20.0 - 1 + 1) / 39, "output_tokens": 40},
		},
		"aiperf#804: tool calls alone have tokens and no ttft": {
			stream("t100 t20", 40), map[string]float64{"time_to_first_output": 100, "ttft": unknown, "output_tokens": 40, "tpot": 21.0 / 39},
		},
		"genai-bench#100: all events in one arrival tell nothing of decoding": {
			stream("c100* c0* c0*", 200), map[string]float64{"tpot": unknown, "decode": unknown, "ttft": unknown, "time_to_first_output": unknown, "e2e": 101},
		},
		"one token has no time per token":           {stream("c100", 1), map[string]float64{"tpot": unknown, "decode": unknown, "generation": 1}},
		"FastDeploy#8113: bursts":                   {stream("c200 c200 c200", 30), map[string]float64{"tpot": 401.0 / 29, "decode": 29 * 1000 / 401.0}},
		"first visible content with other output":   {stream("r100 r50* c0* c20", 9), map[string]float64{"time_to_first_output": 100, "ttft": unknown}},
		"first output with other output":            {stream("r100* c0* c20", 9), map[string]float64{"time_to_first_output": unknown, "ttft": unknown, "tpot": 21.0 / 8}},
		"vllm#54101: waiting in the client's queue": {waited(stream("c100 c20", 2), 300), map[string]float64{"e2e": 121, "response_latency": 421, "send_lag": 300}},
	} {
		for figure, want := range tt.want {
			got, ok := figureOf(t, figure).inUnit(&tt.a)
			if !ok {
				got = unknown
			}
			if d := got - want; d > 1e-9 || d < -1e-9 {
				t.Errorf("%s: %s = %v, want %v", name, figure, got, want)
			}
		}
	}
}

// waited is the request as if it had been due so many ms before it began.
func waited(a record.Attempt, ms int64) record.Attempt {
	a.T.Due = new(-ms * 1e6)
	return a
}

func figureOf(t *testing.T, name string) figure {
	t.Helper()
	for _, f := range figures {
		if f.name == name {
			return f
		}
	}
	t.Fatalf("no figure %s", name)
	return figure{}
}

func TestGapsLeaveSharedArrivalsOut(t *testing.T) {
	for events, want := range map[string][]int64{
		"c100 c20 c30":            {20, 30},
		"c100 c20* c0* c30 c40":   {40},
		"c100":                    nil,
		"c100* c0*":               nil,
		"c100 r20 t30":            {20, 30}, // vllm#27485: successive output of any kind
		"c100 c20 c20* c0* c20 c": {20, 0},
	} {
		a := stream(events, 9)
		got := appendGaps(nil, &a)
		if len(got) != len(want) {
			t.Errorf("%s: gaps %v, want %v", events, got, want)
			continue
		}
		for i := range want {
			if got[i] != want[i]*1e6 {
				t.Errorf("%s: gap %d is %d ns, want %d ms", events, i, got[i], want[i])
			}
		}
	}
}

// Every row of the table has its computation, every computation its row, and an
// id is what its parts say.
func TestTableOfMetrics(t *testing.T) {
	used := map[string]bool{}
	seen := map[string]bool{}
	for _, row := range Metrics() {
		if seen[row.ID] {
			t.Errorf("%s stands twice", row.ID)
		}
		seen[row.ID] = true
		if row.Label == "" || row.Unit == "" || row.Definition == "" || row.Method == "" {
			t.Errorf("%s lacks a label, unit, definition or method", row.ID)
		}
		if row.Figure == "" {
			if totals[row.ID] == nil {
				t.Errorf("nothing computes %s", row.ID)
			}
			used[row.ID] = true
			continue
		}
		if row.Figure != chunkGap {
			figureOf(t, row.Figure)
		}
		used[row.Figure] = true
		want := row.Figure + "_" + row.Statistic
		if unit := strings.ReplaceAll(row.Unit, "/s", "_per_s"); unit != "tokens" {
			want += "_" + unit
		}
		if row.ID != want {
			t.Errorf("%s should be named %s", row.ID, want)
		}
		if _, quantile := percentOf(row.Statistic); quantile != (row.Method == NearestRank) {
			t.Errorf("%s: statistic %s with method %s", row.ID, row.Statistic, row.Method)
		}
	}
	for _, f := range figures {
		if !used[f.name] {
			t.Errorf("figure %s has no row", f.name)
		}
	}
	for id := range totals {
		if !used[id] {
			t.Errorf("total %s has no row", id)
		}
	}
}

func TestEveryConditionOfTheTableIsWritten(t *testing.T) {
	c := &cell{tally: newTally(Objectives{})}
	got := ownConditions(facts{}, []*cell{c})
	if len(got) != len(ConditionLabels()) {
		t.Errorf("%d conditions, the table has %d", len(got), len(ConditionLabels()))
	}
	for _, condition := range got {
		if condition.Value == "" {
			t.Errorf("condition %q has no value", condition.Label)
		}
	}
}
