package target

import (
	"bytes"
	"context"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"anvil/stages/internal/engine"
)

// Counters are a server's own counters at one moment, each summed over its
// labels.
type Counters map[string]float64

// Bounds of one reading: a server that does not answer must not hold a phase up.
const (
	counterLimit = 2 * time.Second
	maxCounters  = 500
)

// Counters reads the endpoint's counters; nil where it offers none.
func (t *Target) Counters(ctx context.Context) Counters {
	url, err := t.Protocol.Endpoint.MetricsURL()
	if err != nil || url == "" {
		return nil
	}
	status, answer, err := t.ask(ctx, engine.Question{Method: http.MethodGet, URL: url, Accept: "text/plain", Limit: counterLimit})
	if err != nil || status != http.StatusOK {
		return nil
	}
	return parseCounters(bytes.NewReader(answer))
}

func parseCounters(r io.Reader) Counters {
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(r)
	if err != nil {
		return nil // the family in which it failed would count as 0
	}
	out := Counters{}
	for _, name := range slices.Sorted(maps.Keys(families)) { // cut at the same name before and after
		if len(out) == maxCounters {
			break
		}
		if sum, ok := total(name, families[name]); ok {
			out[name] = sum
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// total adds a family's counters up. What is no counter has none, and neither
// has one that is not finite: no document can hold it.
func total(name string, f *dto.MetricFamily) (sum float64, ok bool) {
	for _, m := range f.GetMetric() {
		switch {
		case f.GetType() == dto.MetricType_COUNTER:
			sum, ok = sum+m.GetCounter().GetValue(), true
		case f.GetType() == dto.MetricType_UNTYPED && strings.HasSuffix(name, "_total"):
			sum, ok = sum+m.GetUntyped().GetValue(), true
		}
	}
	return sum, ok && !math.IsNaN(sum) && !math.IsInf(sum, 0)
}

// requestCounters are the counters by which engines count requests: SGLang when
// they come, vLLM and TGI when they end.
var requestCounters = [...]string{"vllm:request_success_total", "vllm:request_success", "sglang:num_requests_total", "tgi_request_count"}

// absurdCount is more requests than any server answers during a phase.
const absurdCount = 1 << 40

// Foreign is how many requests more the server counted between two readings
// than the sent ones; 0 where it counts none.
func Foreign(before, after Counters, sent int) int {
	for _, name := range requestCounters {
		a, ok := before[name]
		b, ok2 := after[name]
		if ok && ok2 && b >= a && b-a < absurdCount {
			return max(int(b-a)-sent, 0)
		}
	}
	return 0
}
