package measure

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"anvil/stages/record"
	"anvil/stages/sim"
)

// A simulator that was started apart stands behind a base_url like any engine;
// what it says of itself, not the address, decides.
func TestASimulatorBehindAnAddressIsSimulated(t *testing.T) {
	cfg := sim.DefaultConfig()
	cfg.Version = "9.9.9"
	engine, err := sim.Listen(cfg, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	at, err := url.Parse(strings.TrimSuffix(engine.BaseURL(), "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	gateway := httputil.NewSingleHostReverseProxy(at)
	gateway.FlushInterval = -1
	gateway.ModifyResponse = func(r *http.Response) error {
		r.Header.Del("X-Anvil-Simulated")
		r.Header.Del("Server")
		return nil
	}
	mute := httptest.NewServer(gateway)
	t.Cleanup(mute.Close)
	for name, c := range map[string]struct{ base, engine string }{
		"direct":                        {engine.BaseURL(), "anvil-sim 9.9.9"},
		"behind what drops its headers": {mute.URL + "/v1", "anvil-sim of unknown version"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, map[string]any{"base_url": c.base, "model": "anvil-sim"}, map[string]any{
				"load": closed(1, 2), "max_tokens": 4, "workload": map[string]any{"source": "synthetic", "context_tokens": 16},
			})
			p, err := b.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := p.Limits["engine.simulated"]; !ok || !p.measurement.Simulated {
				t.Errorf("simulated %v, limitations %v", p.measurement.Simulated, p.Limits)
			}
			if doc := string(p.Streams["benchmark.json"]); !strings.Contains(doc, c.engine) || !strings.Contains(doc, record.SimulatedGPU) {
				t.Errorf("benchmark.json does not say what answered: %.400s", doc)
			}
		})
	}
}

func TestAnyOtherServerIsNotSimulated(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(answerOK))
	t.Cleanup(s.Close)
	b := newBench(t, map[string]any{"base_url": s.URL + "/v1", "model": "m"}, map[string]any{
		"load": closed(1, 1), "max_tokens": 4, "workload": map[string]any{"source": "synthetic", "context_tokens": 16},
	})
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := p.Limits["engine.simulated"]; ok || p.measurement.Simulated {
		t.Errorf("simulated %v, limitations %v", p.measurement.Simulated, p.Limits)
	}
}
