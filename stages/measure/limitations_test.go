package measure

import (
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"anvil/pipeline/stage"
	"anvil/stages/internal/engine"
	"anvil/stages/internal/load"
	"anvil/stages/record"
)

// limitsOf are the limitations that stand in measurement.json itself, code to text.
func limitsOf(t *testing.T, p published) map[string]string {
	t.Helper()
	var doc struct {
		Limitations []stage.Limitation `json:"limitations"`
	}
	if err := json.Unmarshal(p.Documents[measurementName], &doc); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, l := range doc.Limitations {
		out[l.Code] = l.Text
	}
	return out
}

// stopped is an event that names the model and ends an answer without usage.
func stopped(model, reason string) string {
	return `data: {"model":"` + model + `","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}` + "\n\n"
}

// What is wrong with answers stands in the measurement, in numbers, and does not
// stand there when nothing is.
func TestWhatAnswersLackStandsInTheMeasurement(t *testing.T) {
	ten := strings.Repeat(delta(" ten"), 10)
	thought := strings.Repeat(`data: {"model":"anvil-sim","choices":[{"index":0,"delta":{"reasoning_content":"hm "}}]}`+"\n\n", 4)
	for name, tc := range map[string]struct {
		answers [2]string // of the first and the second request
		want    map[string]string
		check   func(*testing.T, record.Attempt) // of the first request
	}{
		"nothing": {[2]string{ten + finish("stop"), ten + finish("stop")}, nil, func(*testing.T, record.Attempt) {}},
		"sglang 24266: 10 of 256 tokens and no usage": {
			[2]string{ten + stopped("anvil-sim", "stop"), ten + finish("stop")},
			map[string]string{"usage.missing": "1 of 2 answers"},
			func(t *testing.T, a record.Attempt) {
				t.Helper()
				if a.Usage.Output != nil || a.Usage.Reason == nil || a.Outcome != record.OutcomeOK {
					t.Errorf("outcome %s, usage %+v, want unknown with its reason", a.Outcome, a.Usage)
				}
			},
		},
		"inspect 5467: reasoning ate the budget": {
			[2]string{thought + usage(256, 256) + "", ten + finish("stop")},
			map[string]string{"outputs.truncated": "1 of 2 outputs"},
			func(t *testing.T, a record.Attempt) {
				t.Helper()
				if a.Outcome != record.OutcomeTruncated || a.T.FirstContent != nil || a.T.FirstOutput == nil || a.Usage.Reasoning == nil || *a.Usage.Reasoning != 256 {
					t.Errorf("outcome %s, stamps %+v, usage %+v", a.Outcome, a.T, a.Usage)
				}
			},
		},
		"another model answers": {
			[2]string{strings.ReplaceAll(ten+finish("stop"), "anvil-sim", "some-other"), ten + finish("stop")},
			map[string]string{"model.name-differs": `"some-other"; "anvil-sim" was asked for`},
			func(t *testing.T, a record.Attempt) {
				t.Helper()
				if a.Model == nil || *a.Model != "some-other" || a.Outcome != record.OutcomeOK {
					t.Errorf("outcome %s, model %v", a.Outcome, a.Model)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := serveRaw(t, func(c net.Conn, n int) {
				body := strings.Replace(tc.answers[n], `"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":256`, `"finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":256`, 1)
				_, _ = io.WriteString(c, sse+chunks(body, done)+last)
			})
			p, err := newBench(t, map[string]any{"base_url": h.url, "sim": nil}, map[string]any{"load": closed(1, 2), "max_tokens": 256}).run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := limitsOf(t, p)
			for _, code := range []string{"usage.missing", "outputs.truncated", "model.name-differs"} {
				text, said := got[code]
				if want, wanted := tc.want[code]; said != wanted || !strings.Contains(text, want) {
					t.Errorf("%s says %q, want %q", code, text, want)
				}
			}
			i := slices.IndexFunc(p.attempts, func(a record.Attempt) bool { return a.Index == 0 })
			tc.check(t, p.attempts[i])
		})
	}
}

// Issue 6: an adapter that rests on published documentation alone says so, in
// whatever it measures; those with captured streams do not.
func TestAdaptersWithoutACaptureSaySo(t *testing.T) {
	documented := []string{"tgi", "sglang", "triton", "generate-sse"}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String() + "/v1"
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, a := range engine.All() {
		p, err := newBench(t, map[string]any{"base_url": url, "sim": nil, "api": a.API(), "metrics": "off"}, map[string]any{"load": closed(1, 1), "max_tokens": 8}).run(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", a.API(), err)
		}
		text, said := limitsOf(t, p)["api.unproven"]
		if said != slices.Contains(documented, a.API()) || said && !strings.Contains(text, a.API()) {
			t.Errorf("%s: api.unproven says %q", a.API(), text)
		}
	}
}

// spin keeps every core busy, several times over, until the test ends: who wants
// one waits for the slices of 10 ms of those before him.
func spin(t *testing.T) {
	t.Helper()
	var over atomic.Bool
	var all sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for !over.Load() {
			}
		})
	}
	t.Cleanup(func() { over.Store(true); all.Wait() })
}

// llm-d-benchmark 261: a client that gets no processor inflates what it measures,
// and says so.
func TestAClientWithoutAProcessorIsBound(t *testing.T) {
	s := serverWith(t, map[string]http.HandlerFunc{})
	b := newBench(t, map[string]any{"base_url": s.URL + "/v1", "sim": nil, "metrics": "off"}, map[string]any{"load": closed(1, 3), "max_tokens": 8, "workload": small})
	spin(t)
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := limitsOf(t, p)
	if text, said := got["client.bound"]; !said || p.measurement.Client.Verdict != "bound" {
		t.Errorf("verdict %s, client.bound says %q of %v", p.measurement.Client.Verdict, text, slices.Sorted(maps.Keys(got)))
	}
}

// What bounds a client is named in its limitation, one that is not bound has none.
func TestWhatBoundsTheClientIsNamed(t *testing.T) {
	for why, e := range map[string]load.Evidence{
		"":                          {CPU: load.CPU{Cores: 2, Share: new(0.2)}},
		"97% of its 2 cores":        {CPU: load.CPU{Cores: 2, Share: new(0.97)}},
		"30.0 ms for a core at p99": {Scheduler: load.Latency{P99US: new(30_000.0)}},
	} {
		out := stage.NewOutputs(Kind.Spec(), nil)
		w := witness{phase: phase{evidence: e}}
		w.limitClient(out)
		raised := out.Collect().Limitations
		if why == "" {
			if len(raised) > 0 {
				t.Errorf("nothing bounds it, and yet %+v", raised)
			}
			continue
		}
		if len(raised) != 1 || raised[0].Code != "client.bound" || !strings.Contains(raised[0].Text, why) {
			t.Errorf("%s: raised %+v", why, raised)
		}
	}
}
