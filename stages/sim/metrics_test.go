package sim

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrape reads /metrics with Prometheus' own parser: values by name, and by
// name with one further label.
func (c *client) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	_, _, body := c.get(t, "/metrics")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%v in\n%s", err, body)
	}
	out := map[string]float64{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				if l.GetName() != "engine" && l.GetName() != "model_name" {
					key += " " + l.GetName() + "=" + l.GetValue()
				}
			}
			switch {
			case m.Counter != nil:
				out[key] = m.Counter.GetValue()
			case m.Gauge != nil:
				out[key] = m.Gauge.GetValue()
			case m.Histogram != nil:
				out[key+" sum"], out[key+" count"] = m.Histogram.GetSampleSum(), float64(m.Histogram.GetSampleCount())
			}
		}
	}
	return out
}

func TestMetricsCountWhatWasServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.ReasoningTokens = 4
		c := pipeClient(t, cfg)
		a := c.mustChat(t, "first question", nil)
		b := c.mustChat(t, "second question", map[string]any{"max_tokens": 10, "stream": false})
		c.mustPost(t, "/v1/chat/completions", `{"messages": 1}`)
		m := c.scrape(t)
		for key, want := range map[string]float64{
			"vllm:prompt_tokens_total":                                                float64(a.usage.Prompt + b.usage.Prompt),
			"vllm:generation_tokens_total":                                            float64(a.usage.Completion + b.usage.Completion),
			"vllm:request_success_total finished_reason=stop":                         1,
			"vllm:request_success_total finished_reason=length":                       1,
			"vllm:request_success_total finished_reason=abort":                        0,
			"vllm:num_requests_running":                                               0,
			"vllm:num_requests_waiting":                                               0,
			"vllm:e2e_request_latency_seconds count":                                  2,
			"vllm:time_to_first_token_seconds count":                                  2,
			"vllm:e2e_request_latency_seconds sum":                                    (a.ended.Sub(a.began) + b.ended.Sub(b.began)).Seconds(),
			"http_requests_total handler=/v1/chat/completions method=POST status=2xx": 2,
			"http_requests_total handler=/v1/chat/completions method=POST status=4xx": 1,
			"anvil_sim_info version=dev":                                              1,
		} {
			if got, ok := m[key]; !ok || got-want > 1e-9 || want-got > 1e-9 {
				t.Errorf("%s = %v (there: %v), want %v", key, got, ok, want)
			}
		}
	})
}

func TestPathsOfNoMeaningShareOneCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeClient(t, DefaultConfig())
		for _, path := range []string{"/a", "/b", "/v1//models", "/../x"} {
			c.get(t, path)
		}
		for key := range c.scrape(t) {
			if strings.Contains(key, "handler=") && !strings.Contains(key, "handler=none") && !strings.Contains(key, "handler=/v1/models") {
				t.Errorf("unexpected series %s", key)
			}
		}
	})
}
