package measure

import (
	"io"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"anvil/stages/record"
)

func engineWith(sim map[string]any) map[string]any {
	s := map[string]any{"decode_tok_s": 2000.0, "prefill_tok_s": 1e6, "seed": 1}
	maps.Copy(s, sim)
	return map[string]any{"sim": s}
}

var small = map[string]any{"source": "synthetic", "context_tokens": 8}

// vllm 21104: 183.5 requests/s for 200 asked. What the client does not reach, it
// says; what it does, it does not. perf_analyzer 312: the lag of those that were
// sent late stands beside its budget.
func TestARateThatIsNotReachedIsSaid(t *testing.T) {
	h := serveRaw(t, func(c net.Conn, _ int) {
		time.Sleep(10 * time.Millisecond) // the server's own
		_, _ = io.WriteString(c, sse+chunks(delta("a"), finish("stop"), done)+last)
	})
	for slots, missed := range map[any]bool{1: true, nil: false} {
		b := newBench(t, map[string]any{"base_url": h.url, "sim": nil}, map[string]any{
			"load":     map[string]any{"mode": "open", "arrival": "constant", "rate": 200, "requests": 40, "max_in_flight": slots},
			"workload": small,
		})
		p, err := b.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text, said := p.Limits["load.rate-not-reached"]
		if missed && (!said || !strings.Contains(text, "200")) {
			t.Errorf("one slot: limitation %q", text)
		}
		if reached := rateOf(p); said != (reached < 200*(1-rateTolerance)) {
			t.Errorf("slots %v: %v requests/s were reached, limitation %q", slots, reached, text)
		}
		lag, _ := p.measurement.Client.SendLag.(map[string]any)
		if lag["samples"] != 40.0 || lag["budget_us"] != 5000.0 || lag["p99_us"] == nil {
			t.Errorf("send lag %v", lag)
		}
		if _, late := p.Limits["client.lag"]; missed && !late {
			t.Errorf("requests that waited for the one slot are not said to be late: %v", lag)
		}
	}
}

func rateOf(p published) float64 {
	first, last := int64(1)<<62, int64(0)
	for _, a := range p.attempts {
		first, last = min(first, *a.T.Start), max(last, *a.T.Start)
	}
	return float64(len(p.attempts)-1) / (float64(last-first) / 1e9)
}

// ai-on-gke 766: a load generator at 90 % of its processor with 200 users. Own
// processor time, pauses and throttling stand in the measurement, whatever they are.
func TestTheClientSaysWhatItCost(t *testing.T) {
	b := newBench(t, engineWith(map[string]any{"slots": 200}), map[string]any{"load": closed(200, 200), "max_tokens": 8, "workload": small})
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cpu, _ := p.measurement.Client.CPU.(map[string]any)
	gc, _ := p.measurement.Client.GC.(map[string]any)
	sched, _ := p.measurement.Client.Scheduler.(map[string]any)
	if own, _ := cpu["own_s"].(float64); own <= 0 || cpu["includes_engine"] != true || cpu["cores"] == nil {
		t.Errorf("cpu %v", cpu)
	}
	for name, m := range map[string]map[string]any{"throttled_s": cpu, "share": cpu, "pauses": gc, "pause_p99_us": gc, "p99_us": sched} {
		if _, ok := m[name]; !ok {
			t.Errorf("%s is missing of %v", name, m)
		}
	}
	if limits, _ := p.measurement.Client.Limits.(map[string]any); limits["cpu_share_bound"] == nil || limits["scheduler_p99_us"] == nil {
		t.Errorf("limits %v", limits)
	}
}

// marin 4357: the harness itself had one slot. The overlap that was reached is
// reported; a server with one slot is no fault of ours, a ramp that outlasts the
// load is.
func TestOverlapIsReported(t *testing.T) {
	slow := closed(8, 8)
	slow["ramp"] = "8s"
	for name, tc := range map[string]struct {
		slots int
		load  map[string]any
		under bool
	}{
		"server with 8 slots": {8, closed(8, 16), false},
		"server with 1 slot":  {1, closed(8, 16), false},
		"our own doing":       {8, slow, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, engineWith(map[string]any{"slots": tc.slots, "decode_tok_s": 200.0}), map[string]any{"load": tc.load, "max_tokens": 8, "workload": small})
			p, err := b.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			limits, _ := p.measurement.Client.Limits.(map[string]any)
			overlap, _ := limits["overlap"].(float64)
			text, said := p.Limits["load.concurrency-not-reached"]
			if said != tc.under || !tc.under && overlap != 8 || tc.under && overlap >= 8 {
				t.Errorf("overlap %v, limitation %q", overlap, text)
			}
		})
	}
}

// evalscope 1641, 1627: the burst at the start inflates the tail.
func TestTheStartIsNamedUnlessItIsRamped(t *testing.T) {
	for _, ramp := range []string{"0s", "1s"} {
		with := closed(256, 512)
		with["ramp"] = ramp
		b := newBench(t, engineWith(map[string]any{"slots": 256, "decode_tok_s": 20000.0}), map[string]any{"load": with, "max_tokens": 4, "workload": small})
		p, err := b.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, said := p.Limits["load.ramp-included"]; said != (ramp == "0s") {
			t.Errorf("ramp %s: limitations %v", ramp, p.Limits)
		}
		var first, last int64
		for i, at := range p.schedule.Workers {
			if i == 0 {
				first = at
			}
			last = max(last, at)
		}
		if spread := last > first; len(p.schedule.Workers) != 256 || spread != (ramp != "0s") {
			t.Errorf("ramp %s: the first begin between %d and %d", ramp, first, last)
		}
		if ok := p.measurement.Accounting.Outcomes[record.OutcomeTruncated] + p.measurement.Accounting.Outcomes[record.OutcomeOK]; ok != 512 {
			t.Errorf("ramp %s: outcomes %v", ramp, p.measurement.Accounting.Outcomes)
		}
	}
}
