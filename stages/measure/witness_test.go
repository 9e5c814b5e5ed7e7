package measure

import (
	"strings"
	"testing"
	"time"

	"anvil/stages/derive"
	"anvil/stages/internal/load"
)

// llm-d-benchmark 261, perf_analyzer 312: what the client knows of its own
// lateness is never silent.
func TestClientVerdict(t *testing.T) {
	share := func(v float64) load.Evidence { return load.Evidence{CPU: load.CPU{Cores: 2, Share: &v}} }
	late := load.LagsOf([]int64{1, int64(10 * time.Millisecond)}, derive.LagBudget)
	for name, tc := range map[string]struct {
		w          witness
		lags       load.Lags
		want, says string
	}{
		"nothing wrong":     {witness{phase: phase{evidence: share(0.1)}}, load.Lags{}, "ok", ""},
		"full ring":         {witness{phase: phase{waits: 3}}, load.Lags{}, "marginal", "3 times a worker waited for the capture"},
		"late":              {witness{}, late, "marginal", "send lag p99 10.0 ms, budget 5.0 ms"},
		"read together":     {witness{firstOutputs: 100, firstCoalesced: 2}, load.Lags{}, "marginal", "2 of 100 answers"},
		"busy":              {witness{phase: phase{evidence: share(0.75)}}, load.Lags{}, "marginal", ""},
		"cores used up":     {witness{phase: phase{evidence: share(0.95)}}, load.Lags{}, "bound", "95% of its 2 cores"},
		"waited for a core": {witness{phase: phase{evidence: load.Evidence{Scheduler: load.Latency{P99US: new(25_000.0)}}}}, load.Lags{}, "bound", "25.0 ms for a core"},
		"throttled":         {witness{phase: phase{wall: time.Second, evidence: load.Evidence{CPU: load.CPU{ThrottledS: new(0.1)}}}}, load.Lags{}, "bound", "throttled"},
		"killed":            {witness{phase: phase{killed: true}}, load.Lags{}, "marginal", ""},
	} {
		if got := tc.w.clientVerdict(tc.lags); got != tc.want {
			t.Errorf("%s: verdict %s, want %s", name, got, tc.want)
		}
		if why := tc.w.bound() + tc.w.lag(tc.lags); !strings.Contains(why, tc.says) || tc.says == "" && why != "" {
			t.Errorf("%s: says %q, want %q", name, why, tc.says)
		}
	}
}
