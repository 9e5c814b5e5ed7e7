package derive_test

import (
	"math"
	"strings"
	"testing"

	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// goodputOf is each goodput of a cell that took two seconds, per second; NaN
// where it is withheld.
func goodputOf(t *testing.T, rows []record.Attempt, objectives map[string]any) (map[string]float64, []record.Metric) {
	t.Helper()
	l := newLab(t)
	attempts := l.attempts("measure", header(len(rows)), rows, userStamps)
	doc := l.document("measure", "measurement.json", record.MeasurementSchema, measurement(2000, rows), attempts.LimitationSet()...)
	_, f := l.summarize(map[string]any{"objectives": objectives}, map[string][]stage.Artifact{"attempts": {attempts}, "measurement": {doc}})
	got := map[string]float64{}
	for _, id := range []string{"goodput_per_s", "goodput_ttft_per_s", "goodput_tpot_per_s", "goodput_e2e_per_s"} {
		m := find(t, f.Cells[0].Metrics, id)
		if got[id] = math.NaN(); m.Value != nil {
			got[id] = *m.Value
		}
	}
	return got, f.Cells[0].Metrics
}

// slower is an answer whose tokens come 40 ms apart, and which ends later for it.
func slower(index int, item string, start int64, tokens int64) record.Attempt {
	a := answered(index, item, "x", start, tokens)
	first := *a.T.FirstOutput
	for i := 1; i < len(a.Arrivals); i++ {
		a.Arrivals[i] = 40 * ms
	}
	a.T.LastOutput, a.T.End = new(first+(tokens-1)*40*ms), new(first+(tokens-1)*40*ms+ms)
	return a
}

// guidellm 1085, inference-perf 169: goodput under each objective and under all of
// them. Requests: 0 meets everything; 1 has a slow TPOT; 2 is long; 3 shows no
// content; 4 tells no usage, so that its TPOT is unknown; 5 was refused.
func TestGoodputHoldsEachRequestToEachObjective(t *testing.T) {
	rows := []record.Attempt{
		answered(0, "a", "x", 0, 5), slower(1, "b", 0, 5), answered(2, "c", "x", 0, 30), answered(3, "d", "x", 0, 5), answered(4, "e", "x", 0, 5),
		failed(5, "f", 0, record.OutcomeRefusedLoad),
	}
	rows[3].T.FirstContent, rows[3].ArrivalKinds = nil, strings.Repeat("r", 5)
	rows[4].Usage = record.Usage{Source: "none", Reason: new("the answer carries no usage")}
	none := math.NaN()
	for name, c := range map[string]struct {
		objectives         map[string]any
		all, ttft, tpot, e float64 // requests that met it
	}{
		"none":             {map[string]any{"ttft_ms": nil, "tpot_ms": nil, "e2e_ms": nil}, none, none, none, none},
		"ttft":             {map[string]any{"ttft_ms": 250, "tpot_ms": nil, "e2e_ms": nil}, 4, 4, none, none},
		"a ttft too short": {map[string]any{"ttft_ms": 150, "tpot_ms": nil, "e2e_ms": nil}, 0, 0, none, none},
		"tpot":             {map[string]any{"ttft_ms": nil, "tpot_ms": 30, "e2e_ms": nil}, 3, none, 3, none},
		"e2e":              {map[string]any{"ttft_ms": nil, "tpot_ms": nil, "e2e_ms": 500}, 4, none, none, 4},
		"all":              {map[string]any{"ttft_ms": 250, "tpot_ms": 30, "e2e_ms": 500}, 1, 4, 3, 4},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := goodputOf(t, rows, c.objectives)
			for id, met := range map[string]float64{"goodput_per_s": c.all, "goodput_ttft_per_s": c.ttft, "goodput_tpot_per_s": c.tpot, "goodput_e2e_per_s": c.e} {
				if want := met / 2; got[id] != want && (!math.IsNaN(got[id]) || !math.IsNaN(want)) {
					t.Errorf("%s = %v, want %v: %v requests in 2 s", id, got[id], want, met)
				}
			}
		})
	}
}

// InferenceX 357: a server that refuses half of its load looks faster. Its goodput
// falls with what it refused, and no throughput is stated.
func TestInferenceX357RefusedLoadLowersGoodput(t *testing.T) {
	var whole, refused []record.Attempt
	for i := range 8 {
		item := string(rune('a' + i))
		whole = append(whole, answered(i, item, "x", int64(i)*100*ms, 5))
		refused = append(refused, answered(i, item, "x", int64(i)*100*ms, 5))
		if i%2 == 1 {
			refused[i] = failed(i, item, int64(i)*100*ms, record.OutcomeRefusedLoad)
		}
	}
	objectives := map[string]any{"ttft_ms": 250, "tpot_ms": 30, "e2e_ms": 500}
	all, _ := goodputOf(t, whole, objectives)
	half, metrics := goodputOf(t, refused, objectives)
	for id, per := range all {
		if per != 4 || half[id] != 2 {
			t.Errorf("%s: %v of eight answers and %v of four in 2 s, want 4 and 2", id, per, half[id])
		}
	}
	for _, id := range []string{"requests_per_s", "output_tokens_per_s"} {
		if m := find(t, metrics, id); m.Value != nil || m.Reason == nil || !strings.Contains(*m.Reason, "4 of 8") {
			t.Errorf("%s = %v is stated of a cell that refused half", id, m.Value)
		}
	}
}
