package measure

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/stages/internal/engine"
)

// A key that would be dropped in silence makes the request another one than the
// plan says.
func TestSamplingThatTheAPILacksIsAProblem(t *testing.T) {
	everything := map[string]any{
		"temperature": 0.5, "top_p": 0.9, "seed": 1, "stop": "x", "min_tokens": 2, "ignore_eos": true, "reasoning_effort": "low", "thinking": "enabled",
	}
	for _, a := range engine.All() {
		sends := func(key string) bool {
			b := newBench(t, map[string]any{"api": a.API()}, map[string]any{"load": closed(1, 1), "sampling": map[string]any{key: everything[key]}})
			_, problems := b.Resolve()
			if len(problems) > 1 || len(problems) == 1 && problems[0].Pointer != "/sampling/"+key {
				t.Errorf("%s: %s: problems %v", a.API(), key, problems)
			}
			return len(problems) == 0
		}
		for key := range everything {
			if got, want := sends(key), !slices.Contains(unsentOf(t, a, everything), key); got != want {
				t.Errorf("%s: %s taken %v, want %v", a.API(), key, got, want)
			}
		}
	}
}

func unsentOf(t *testing.T, a engine.Adapter, s map[string]any) []string {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var sampling engine.Sampling
	if err := json.Unmarshal(raw, &sampling); err != nil {
		t.Fatal(err)
	}
	return a.Unsent(sampling)
}

// A plan that leaves the temperature out fits every API; what is recorded is what
// is sent.
func TestATemperatureThatIsLeftOutIsSentWhereThereIsAFieldForIt(t *testing.T) {
	for api, want := range map[string]string{"openai-chat": "0", "ollama": "0", "generate-sse": "null"} {
		raw, problems := newBench(t, map[string]any{"api": api}, map[string]any{"load": closed(1, 1)}).Resolve()
		if len(problems) > 0 {
			t.Errorf("%s: %v", api, problems)
		}
		var with struct {
			Sampling map[string]json.RawMessage `json:"sampling"`
		}
		if err := json.Unmarshal(raw, &with); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{want, "null"}, []string{string(with.Sampling["temperature"]), string(with.Sampling["temperature_requested"])}); diff != "" {
			t.Errorf("%s: %s", api, diff)
		}
	}
	raw, problems := newBench(t, map[string]any{"api": "generate-sse"}, map[string]any{"load": closed(1, 1), "sampling": map[string]any{"temperature": 0}}).Resolve()
	if len(problems) > 0 || !strings.Contains(string(raw), `"temperature":null,"temperature_requested":null`) {
		t.Errorf("a 0 that could be left out: %v, %s", problems, raw)
	}
	for _, asked := range []any{nil, 0, 0.7} {
		raw, _ := newBench(t, nil, map[string]any{"load": closed(1, 1), "sampling": map[string]any{"temperature": asked}}).Resolve()
		var with struct {
			Sampling struct {
				Temperature          any `json:"temperature"`
				TemperatureRequested any `json:"temperature_requested"`
			} `json:"sampling"`
		}
		if err := json.Unmarshal(raw, &with); err != nil {
			t.Fatal(err)
		}
		if s := with.Sampling; fmt.Sprint(s.Temperature) != fmt.Sprint(asked) || fmt.Sprint(s.TemperatureRequested) != fmt.Sprint(asked) {
			t.Errorf("asked %v: sent %v, requested %v", asked, s.Temperature, s.TemperatureRequested)
		}
	}
}

// What goes out is what the records say, also where extra_body says it.
func TestSamplingOfExtraBodyIsTheOneThatIsRecorded(t *testing.T) {
	for name, tc := range map[string]struct {
		extra           map[string]any
		temperature     string
		topP            string
		temperatureSent string
	}{
		"none":       {nil, `{"requested": 0.7, "effective_request": 0.7, "sent": true}`, `{"requested": null, "effective_request": null, "sent": false}`, "0.7"},
		"overridden": {map[string]any{"temperature": 0.1, "top_p": 0.3}, `{"requested": 0.1, "effective_request": 0.1, "sent": true}`, `{"requested": 0.3, "effective_request": 0.3, "sent": true}`, "0.1"},
		"taken away": {map[string]any{"temperature": nil}, `{"requested": null, "effective_request": null, "sent": false}`, `{"requested": null, "effective_request": null, "sent": false}`, "<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			h := serveRaw(t, func(c net.Conn, _ int) {
				_, _ = io.WriteString(c, sse+chunks(delta("a"), finish("stop"), done)+last)
			})
			endpoint := map[string]any{"base_url": h.url, "sim": nil, "metrics": "off"}
			if tc.extra != nil {
				endpoint["extra_body"] = tc.extra
			}
			b := newBench(t, endpoint, map[string]any{"load": closed(1, 2), "max_tokens": 8, "sampling": map[string]any{"temperature": 0.7}})
			p, err := b.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var doc struct {
				Sampling map[string]any `json:"sampling"`
			}
			if err := json.Unmarshal(p.Streams["benchmark.json"], &doc); err != nil {
				t.Fatal(err)
			}
			for key, want := range map[string]string{"temperature": tc.temperature, "top_p": tc.topP} {
				var w any
				if err := json.Unmarshal([]byte(want), &w); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(w, doc.Sampling[key]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", key, diff)
				}
			}
			request := p.header.Request
			if got := fmt.Sprint(request.Sampling.(map[string]any)["temperature"]); got != tc.temperatureSent {
				t.Errorf("the attempts say temperature %s, want %s", got, tc.temperatureSent)
			}
			if (request.ExtraBody != nil) != (tc.extra != nil) {
				t.Errorf("extra_body %v in the attempts", request.ExtraBody)
			}
		})
	}
}
