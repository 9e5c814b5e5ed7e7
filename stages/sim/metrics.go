package sim

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Metrics are the counters that vLLM shows, under its names.
type metrics struct {
	cacheQueries int
	cacheHits    int
	promptTokens int
	rejected     int
	finished     map[string]int // by finish reason
	served       map[served]int
	ttft         histogram
	latency      histogram
	queued       histogram
}

type served struct{ handler, method, status string }

func newMetrics() *metrics {
	return &metrics{
		finished: map[string]int{"stop": 0, "length": 0, "abort": 0, "error": 0},
		served:   map[served]int{},
		ttft:     newHistogram(), latency: newHistogram(), queued: newHistogram(),
	}
}

// finish counts a request whose answer ended for that reason.
func (m *metrics) finish(t *turn, reason string) {
	m.finished[reason]++
	if reason != "stop" && reason != "length" {
		return
	}
	m.queued.observe((t.job.begin - t.arrived).Seconds())
	m.latency.observe((t.job.begin + t.job.pace.end - t.arrived).Seconds())
	if len(t.job.pace.events) > 0 {
		m.ttft.observe((t.job.begin + t.job.pace.events[0] - t.arrived).Seconds())
	}
}

// A histogram counts seconds in vLLM's kind of buckets.
type histogram struct {
	bounds []float64
	counts []int // not cumulative; the last is beyond every bound
	sum    float64
}

func newHistogram() histogram {
	bounds := []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	return histogram{bounds: bounds, counts: make([]int, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v)
	h.counts[i]++
	h.sum += v
}

// serveMetrics writes the Prometheus text format.
func (e *Engine) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(e.scrape())
}

func (e *Engine) scrape() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sched.advance(e.passed(e.now()))
	e.rearm()
	m := e.metrics
	x := exposition{model: e.cfg.Model}
	x.one("anvil_sim_info", "gauge", "The engine is simulated; its version.", 1, "version", e.cfg.Version)
	x.one("vllm:num_requests_running", "gauge", "Number of requests in a slot.", len(e.sched.running))
	x.one("vllm:num_requests_waiting", "gauge", "Number of requests in the queue.", e.sched.waiting.Len())
	x.one("vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up in the prefix cache.", m.cacheQueries)
	x.one("vllm:prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.", m.cacheHits)
	x.one("vllm:prompt_tokens_total", "counter", "Prompt tokens of the requests taken in.", m.promptTokens)
	x.one("vllm:prompt_tokens_cached_total", "counter", "Prompt tokens that were not computed.", m.cacheHits)
	x.one("vllm:generation_tokens_total", "counter", "Tokens generated.", int(e.tokens.Load()))
	x.one("vllm:num_preemptions_total", "counter", "Preemptions; the simulated engine has none.", 0)
	x.one("vllm:admission_rejections_total", "counter", "Requests refused because the queue was full.", m.rejected, "reason", "max_num_queued_reqs")
	x.head("vllm:request_success_total", "counter", "Requests by how they finished.")
	for _, reason := range slices.Sorted(maps.Keys(m.finished)) {
		x.sample("vllm:request_success_total", strconv.Itoa(m.finished[reason]), "finished_reason", reason)
	}
	x.histogram("vllm:time_to_first_token_seconds", "From arrival to the first token, of requests that finished.", m.ttft)
	x.histogram("vllm:e2e_request_latency_seconds", "From arrival to the last token.", m.latency)
	x.histogram("vllm:request_queue_time_seconds", "From arrival to a slot.", m.queued)
	x.head("http_requests_total", "counter", "Responses by path, method and class of status.")
	for _, s := range slices.SortedFunc(maps.Keys(m.served), served.compare) {
		fmt.Fprintf(&x.text, "http_requests_total{handler=%q,method=%q,status=%q} %d\n", s.handler, s.method, s.status, m.served[s])
	}
	return x.text.Bytes()
}

func (s served) compare(t served) int {
	return slices.Compare([]string{s.handler, s.method, s.status}, []string{t.handler, t.method, t.status})
}

// An exposition is text in the Prometheus format.
type exposition struct {
	model string
	text  bytes.Buffer
}

func (x *exposition) head(name, kind, help string) {
	fmt.Fprintf(&x.text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (x *exposition) sample(name, value string, labels ...string) {
	fmt.Fprintf(&x.text, "%s{engine=\"0\",model_name=%s", name, labelValue(x.model))
	for i := 0; i+1 < len(labels); i += 2 {
		fmt.Fprintf(&x.text, ",%s=%s", labels[i], labelValue(labels[i+1]))
	}
	fmt.Fprintf(&x.text, "} %s\n", value)
}

func (x *exposition) one(name, kind, help string, value int, labels ...string) {
	x.head(name, kind, help)
	x.sample(name, strconv.Itoa(value), labels...)
}

func (x *exposition) histogram(name, help string, h histogram) {
	x.head(name, "histogram", help)
	count := 0
	for i, n := range h.counts {
		count += n
		bound := "+Inf"
		if i < len(h.bounds) {
			bound = strconv.FormatFloat(h.bounds[i], 'g', -1, 64)
		}
		x.sample(name+"_bucket", strconv.Itoa(count), "le", bound)
	}
	x.sample(name+"_sum", strconv.FormatFloat(h.sum, 'g', -1, 64))
	x.sample(name+"_count", strconv.Itoa(count))
}

// labelValue quotes as the format wants it: only these three are escaped.
func labelValue(s string) string {
	var b bytes.Buffer
	b.WriteByte('"')
	for _, c := range []byte(s) {
		switch c {
		case '\\', '"':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\n':
			b.WriteString(`\n`)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// A countingWriter counts its response when the status is decided, which is
// before the client can see it.
type countingWriter struct {
	http.ResponseWriter
	engine  *Engine
	request *http.Request
	counted bool
}

// Unwrap lets http.ResponseController reach what is beneath.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *countingWriter) WriteHeader(status int) {
	w.count(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *countingWriter) Write(b []byte) (int, error) {
	w.count(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

func (w *countingWriter) count(status int) {
	if w.counted {
		return
	}
	w.counted = true
	s := served{handler: "none", method: "other", status: strconv.Itoa(status/100) + "xx"}
	_, pattern := w.engine.mux.Handler(w.request) // of a fixed list, which a path is not
	if method, path, ok := strings.Cut(pattern, " "); ok {
		s.handler, s.method = path, method
	}
	w.engine.mu.Lock()
	defer w.engine.mu.Unlock()
	w.engine.metrics.served[s]++
}
