package measure

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/stages/record"
)

// vllm 46938, sglang 37359: the hit rate belongs to the result. A server with
// prefix-cache counters: both readings stand in the measurement, and what each
// answer says of its cached tokens in the attempt and in the record.
func TestVLLM46938HitsOfThePrefixCacheAreInTheResult(t *testing.T) {
	reads := 0
	metrics := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "# TYPE vllm:prefix_cache_queries_total counter\nvllm:prefix_cache_queries_total %d\n"+
			"# TYPE vllm:prefix_cache_hits_total counter\nvllm:prefix_cache_hits_total %d\n", 1000+reads*600, 100+reads*300)
		reads++
	}
	ended := `data: {"model":"anvil-sim","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":400,"completion_tokens":2,` +
		`"prompt_tokens_details":{"cached_tokens":100}}}` + "\n\n"
	for name, tc := range map[string]struct {
		paths  map[string]http.HandlerFunc
		before any
		after  any
		hits   any // prefix_cache_hit_avg of the record
	}{
		"both": {
			map[string]http.HandlerFunc{"/metrics": metrics, "/v1/chat/completions": answering(delta("a"), ended)},
			map[string]any{"vllm:prefix_cache_queries_total": 1000.0, "vllm:prefix_cache_hits_total": 100.0},
			map[string]any{"vllm:prefix_cache_queries_total": 1600.0, "vllm:prefix_cache_hits_total": 400.0},
			0.25,
		},
		"neither": {map[string]http.HandlerFunc{"/v1/chat/completions": answering(delta("a"), finish("stop"))}, nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := serverWith(t, tc.paths)
			p, err := newBench(t, map[string]any{"base_url": s.URL + "/v1", "sim": nil}, map[string]any{"load": closed(1, 3), "max_tokens": 8}).run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]any{tc.before, tc.after}, []any{p.measurement.Counters.Before, p.measurement.Counters.After}); diff != "" {
				t.Errorf("counters (-want +got):\n%s", diff)
			}
			for _, a := range p.attempts {
				if (a.Usage.Cached != nil) != (tc.hits != nil) {
					t.Errorf("attempt %d: cached tokens %v", a.Index, a.Usage.Cached)
				}
			}
			if got := metricsOf(t, p)["prefix_cache_hit_avg"]; got != tc.hits {
				t.Errorf("prefix_cache_hit_avg %v, want %v", got, tc.hits)
			}
		})
	}
}

// vllm 54227, pegainfer 697: under one seed the second cell finds its prompts
// cached and looks 49 times faster, in whichever order the cells run. The engine's
// own count shows it, and the cell that was second says by which one.
func TestVLLM54227TheOrderOfCellsIsNoSecret(t *testing.T) {
	warm := engineWith(map[string]any{"prefix_cache": true})
	cell := func(n int, seed int) map[string]any {
		return map[string]any{"load": closed(n, 4), "max_tokens": 4, "workload": map[string]any{"source": "synthetic", "context_tokens": 400, "seed": seed}}
	}
	cached := func(p published) (n int64) {
		for _, a := range p.attempts {
			if a.Usage.Cached != nil {
				n += *a.Usage.Cached
			}
		}
		return n
	}
	for _, order := range [][2]int{{1, 2}, {2, 1}} {
		first := newBench(t, warm, cell(order[0], 5))
		first.Env.Stage = fmt.Sprintf("measure[concurrency=%d]", order[0])
		p, err := first.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if text, said := p.Limits["cache.warm-prompts"]; said || cached(p) > 0 {
			t.Errorf("order %v: the first cell had %d tokens cached and says %q", order, cached(p), text)
		}
		for seed, same := range map[int]bool{5: true, 6: false} {
			second := newBench(t, warm, cell(order[1], seed))
			second.Env.Resources = first.Env.Resources
			p, err := second.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			text := p.Limits["cache.warm-prompts"]
			if (cached(p) > 0) != same {
				t.Errorf("order %v, seed %d: %d tokens were cached", order, seed, cached(p))
			}
			if named := strings.Contains(text, "requests 0-3, by "+first.Env.Stage); named != same || !same && text != "" {
				t.Errorf("order %v, seed %d: the second cell says %q", order, seed, text)
			}
			if n := p.measurement.Accounting.Outcomes; n[record.OutcomeOK]+n[record.OutcomeTruncated] != 4 {
				t.Errorf("order %v, seed %d: outcomes %v", order, seed, n)
			}
		}
	}
}

// metricsOf are the metrics of benchmark.json.
func metricsOf(t *testing.T, p published) map[string]any {
	t.Helper()
	var doc struct {
		Metrics map[string]any `json:"metrics"`
	}
	if err := json.Unmarshal(p.Streams[benchmarkName], &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Metrics
}
