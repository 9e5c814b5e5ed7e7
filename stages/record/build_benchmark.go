package record

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"anvil/stages/internal/jsontree"
	"anvil/stages/internal/stat"
)

// A BenchmarkInput is what was declared and measured of one capacity cell:
// everything in the record that does not follow from something else.
type BenchmarkInput struct {
	Protocol                    string // capacity-v3 or capacity-v4-reasoning, from the plan
	StartedUnixNS, FinishUnixNS int64  // wall clock; labels and run id follow
	WallClockMS                 float64
	TimestampPrecision          string // "" for TimestampPrecision

	ClockDomainID            *string
	ConfigurationFingerprint *string
	BaseURL, Model           string
	Engine, GPU              *string // of the embedded engine: SimulatedEngine, SimulatedGPU

	Concurrency            int
	ContextTokens          *int // null = sampled
	ContextSeed            int64
	MaxContextTokens       *int // null: the endpoint did not say
	MaxTokens              int
	ResponseWords          int    // 0 = uncontrolled
	ControlledOutputPolicy string // observe or strict
	PromptCacheMode        string // unique or shared
	SharedPrefixTokens     int
	RequestCanaries        bool
	Temperature, TopP      SamplingInput
	ThinkingMode           string // default, enabled, disabled, unsupported
	ReasoningEffort        *string
	NoThinking             bool
	SharedPrefixBurst      bool

	TimingMethodology map[string]string // nil for TimingMethodology()
	FailurePolicy     string            // "" for FailurePolicy

	Rows     []BenchmarkRow     // completed, in any order
	Failures []BenchmarkFailure // the rest, in any order
}

// SamplingInput is one sampling setting.
type SamplingInput struct {
	Requested *float64 // what the operator asked for
	Effective *float64 // what was sent; null: the field was not sent
}

// A BenchmarkRow is the measured part of an answer. Times are ms from the
// request's start.
type BenchmarkRow struct {
	Index                   int
	PlannedContextTokens    int
	PromptTokens            *int64 // null without usage
	OutputTokens            *int64 // null without usage: then every token figure is
	CachedTokens            *int64 // of the prompt; not in the row, but in prefix_cache_hit_avg
	FirstOutputMS           *float64
	TTFTMS                  *float64 // null only in a failure
	E2EMS                   float64
	ReasoningChunks         int
	ContentChunks           int
	VisibleContentTruncated bool
	Canary                  *Canary
	ControlledOutput        *ControlledOutput
}

// A BenchmarkFailure is a request without a valid answer.
type BenchmarkFailure struct {
	Index                int
	PlannedContextTokens int
	Class                string // request_error, stream_validation_failed, …
	ErrorType            string
	ErrorMessage         string // cut at 2,048 characters
	ElapsedMS            float64
	// Answer is what was received when the answer reached its end mark, else nil.
	Answer *BenchmarkAnswer
}

// A BenchmarkAnswer is the answer of a failure.
type BenchmarkAnswer struct {
	Timing           BenchmarkRow // Index and PlannedContextTokens are the failure's
	FinishReasons    []string
	TerminalObserved bool // the stream's end mark was seen
}

// SimulatedGPU stands in a record of the embedded engine: a copied file must
// still say what answered.
const SimulatedGPU = "none (simulated)"

// SimulatedEngine is the engine of a record that the embedded engine answered.
func SimulatedEngine(version string) string { return "anvil-sim " + version }

// Texts that every record of the newest shape has.
const (
	TimestampPrecision = "nanosecond-unix-fields; ISO labels are second precision"
	FailurePolicy      = "failed or contract-invalid responses retain sanitized timing and metadata but are excluded from performance distributions"
)

// TimingMethodology says in words what anvil does, under the keys of the kind.
func TimingMethodology() map[string]string {
	return map[string]string{
		"artifact_timestamps":      "wall-clock Unix timestamps read at the phase's start and end; independent artifacts may align them only when the operator supplied the same explicit clock_domain_id",
		"clock":                    "client monotonic clock; arrivals are kernel receive times mapped to it where the platform has them, else the time at which the read returned",
		"controlled_output":        "adherence to the requested code words is recorded word by word over the whole visible answer; observe records only, strict makes a failure of any other output",
		"decode":                   "usage completion tokens after the first token divided by client-observed generation time; completion tokens may include reasoning tokens",
		"distributions":            "request-level mean, sample standard deviation, normal-approximation 95% confidence interval for the mean, min, p25, p50, p75, p90, p95, p99, and max using the nearest-rank percentile method; mean and deviation are exact rational sums rounded once",
		"effective_prefill":        "usage.prompt_tokens divided by client-observed time to first output; includes queueing, scheduling, prefill, and first-token work",
		"generation":               "client-observed E2E minus time to first output",
		"mean_inter_token_latency": "legacy key for TPOT: client-observed generation time divided by completion tokens after the first token; not raw per-token ITL",
		"p99":                      "numeric nearest-rank p99 is always retained for compatibility; it is descriptive only below 100 eligible samples",
		"request_canaries":         "when enabled, each response must begin with its own synthetic marker and contain no other ANVIL_REQ marker; truncated captures fail closed and are excluded from performance metrics",
		"time_to_first_output":     "request start, before connecting, through the arrival of the first non-empty streamed reasoning, content or tool-call delta",
		"tpot":                     "client-observed mean time per output token after the first output; identical to the legacy mean_inter_token_latency key",
		"ttft":                     "request start, before connecting, through the arrival of the first non-empty streamed content delta",
	}
}

// BuildBenchmark writes an anvil-serving.benchmark/v1 record of the newest
// shape: the keys, their order, the arithmetic and the number text of its
// original producer.
func BuildBenchmark(in BenchmarkInput) ([]byte, error) {
	if len(in.Rows)+len(in.Failures) == 0 {
		return nil, errors.New("benchmark record: no request was made, and the kind has no form for that")
	}
	rows := slices.SortedFunc(slices.Values(in.Rows), func(a, b BenchmarkRow) int { return a.Index - b.Index })
	failures := slices.SortedFunc(slices.Values(in.Failures), func(a, b BenchmarkFailure) int { return a.Index - b.Index })
	figures := make([]capacityRow, len(rows))
	for i, r := range rows {
		figures[i] = r.figures()
	}
	complete := len(failures) == 0
	metrics := capacityMetrics(figures, known(in.WallClockMS), complete)
	metrics["prefix_cache_hit_avg"] = cacheHits(rows)

	started, finished := time.Unix(0, in.StartedUnixNS).UTC(), time.Unix(0, in.FinishUnixNS).UTC()
	doc := jsontree.Obj{
		{Name: "base_url", Value: in.BaseURL},
		{Name: "clock_domain_id", Value: in.ClockDomainID},
		{Name: "completed", Value: len(rows)},
		{Name: "concurrency", Value: in.Concurrency},
		{Name: "configuration_fingerprint", Value: in.ConfigurationFingerprint},
		{Name: "context_distribution", Value: distribution(rows, failures)},
		{Name: "context_seed", Value: in.ContextSeed},
		{Name: "context_tokens", Value: in.ContextTokens},
		{Name: "controlled_output_policy", Value: in.ControlledOutputPolicy},
		{Name: "engine", Value: in.Engine},
		{Name: "failed", Value: len(failures)},
		{Name: "failures", Value: failureList(failures)},
		{Name: "finished_at", Value: finished.Format(secondStamp)},
		{Name: "finished_at_unix_ns", Value: in.FinishUnixNS},
		{Name: "gpu", Value: in.GPU},
		{Name: "manifest", Value: nil},
		{Name: "max_context_tokens", Value: in.MaxContextTokens},
		{Name: "max_tokens", Value: in.MaxTokens},
		{Name: "measurement_protocol", Value: in.Protocol},
		{Name: "metric_population", Value: population(in, metrics, len(rows), len(failures))},
		{Name: "metrics", Value: map[string]any(metrics)},
		{Name: "model", Value: in.Model},
		{Name: "performance_eligible", Value: complete},
		{Name: "prompt_cache_mode", Value: in.PromptCacheMode},
		{Name: "request_canaries", Value: in.RequestCanaries},
		{Name: "request_timings", Value: rowList(rows, figures)},
		{Name: "requests", Value: len(rows) + len(failures)},
		{Name: "response_words", Value: in.ResponseWords},
		{Name: "responses_received", Value: len(rows) + received(failures)},
		{Name: "run_id", Value: started.Format("benchmark-20060102T150405Z")},
		{Name: "sampling", Value: jsontree.Obj{{Name: "temperature", Value: in.Temperature.object()}, {Name: "top_p", Value: in.TopP.object()}}},
		{Name: "schema", Value: string(BenchmarkSchema)},
		{Name: "serve_flags", Value: jsontree.Obj{
			{Name: "no_thinking", Value: in.NoThinking},
			{Name: "reasoning_effort", Value: in.ReasoningEffort},
			{Name: "shared_prefix_burst", Value: in.SharedPrefixBurst},
			{Name: "thinking_mode", Value: in.ThinkingMode},
		}},
		{Name: "shared_prefix_tokens", Value: in.SharedPrefixTokens},
		{Name: "source_recipe", Value: nil},
		{Name: "started_at", Value: started.Format(secondStamp)},
		{Name: "started_at_unix_ns", Value: in.StartedUnixNS},
		{Name: "tier", Value: nil},
		{Name: "timestamp_precision", Value: or(in.TimestampPrecision, TimestampPrecision)},
		{Name: "timing_methodology", Value: texts(in.TimingMethodology)},
		{Name: "wall_clock_ms", Value: in.WallClockMS},
	}
	return jsontree.Renderer{SortKeys: true}.Render(doc)
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func texts(m map[string]string) map[string]any {
	if m == nil {
		m = TimingMethodology()
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

func (s SamplingInput) object() jsontree.Obj {
	return jsontree.Obj{{Name: "effective_request", Value: s.Effective}, {Name: "requested", Value: s.Requested}, {Name: "sent", Value: s.Effective != nil}}
}

func maybeCounted(p *int64) counted {
	if p == nil {
		return counted{}
	}
	return counting(*p)
}

func ms(p *float64) figure {
	if p == nil {
		return figure{}
	}
	return known(*p)
}

// figures computes what follows from a row. Without a count of output tokens no
// token figure stands.
func (r BenchmarkRow) figures() capacityRow {
	f := capacityRow{
		index: int64(r.Index), first: ms(r.FirstOutputMS), ttft: ms(r.TTFTMS), e2e: known(r.E2EMS),
		reasoning: counting(int64(r.ReasoningChunks)), content: counting(int64(r.ContentChunks)), usage: r.OutputTokens != nil,
	}
	if f.usage {
		f.prompt, f.output = maybeCounted(r.PromptTokens), maybeCounted(r.OutputTokens)
	}
	if r.Canary != nil {
		f.canary, f.canaryPassed = true, r.Canary.Passed
	}
	if o := r.ControlledOutput; o != nil {
		f.controlled, f.unseen, f.exact = true, o.ExactAdherence == nil, o.ExactAdherence != nil && *o.ExactAdherence
	}
	f.derive(f.first, figure{})
	return f
}

// cacheHits is the mean share of prompt tokens that came from the cache, over
// the requests of which the endpoint says so.
func cacheHits(rows []BenchmarkRow) any {
	var shares []float64
	for _, r := range rows {
		if r.CachedTokens != nil && r.PromptTokens != nil && *r.PromptTokens > 0 {
			shares = append(shares, float64(*r.CachedTokens)/float64(*r.PromptTokens))
		}
	}
	return known(stat.Mean(shares)).any()
}

func distribution(rows []BenchmarkRow, failures []BenchmarkFailure) map[string]any {
	sizes := map[int]int{}
	for _, r := range rows {
		sizes[r.PlannedContextTokens]++
	}
	for _, f := range failures {
		sizes[f.PlannedContextTokens]++
	}
	out := map[string]any{}
	for _, size := range slices.Sorted(maps.Keys(sizes)) {
		out[strconv.Itoa(size)] = sizes[size]
	}
	return out
}

func received(failures []BenchmarkFailure) int {
	n := 0
	for _, f := range failures {
		if f.Answer != nil {
			n++
		}
	}
	return n
}

func population(in BenchmarkInput, m metricSet, completed, failed int) jsontree.Obj {
	words, samples := jsontree.Obj{}, jsontree.Obj{}
	for _, name := range p99Samples {
		n, _ := m[name+"_samples"].(int64)
		words = append(words, jsontree.Member{Name: name, Value: P99Interpretation(int(n))})
		samples = append(samples, jsontree.Member{Name: name, Value: n})
	}
	return jsontree.Obj{
		{Name: "aggregate_throughput_eligible", Value: m["throughput_performance_eligible"]},
		{Name: "attempted_requests", Value: completed + failed},
		{Name: "excluded_requests", Value: failed},
		{Name: "failure_policy", Value: or(in.FailurePolicy, FailurePolicy)},
		{Name: "p99_interpretation", Value: P99Interpretation(completed)},
		{Name: "p99_interpretation_by_metric", Value: words},
		{Name: "p99_minimum_recommended_samples", Value: p99Floor},
		{Name: "p99_samples_by_metric", Value: samples},
		{Name: "performance_eligible_requests", Value: completed},
		{Name: "successful_requests", Value: completed},
	}
}

func rowList(rows []BenchmarkRow, figures []capacityRow) []any {
	out := []any{}
	for i, r := range rows {
		out = append(out, r.object(figures[i]))
	}
	return out
}

func (r BenchmarkRow) object(f capacityRow) jsontree.Obj {
	tpot := f.tpot.any()
	return jsontree.Obj{
		{Name: "content_chunks", Value: r.ContentChunks},
		{Name: "controlled_output", Value: r.ControlledOutput.object()},
		{Name: "decode_tok_s", Value: f.decode.any()},
		{Name: "e2e_ms", Value: r.E2EMS},
		{Name: "effective_prefill_tok_s", Value: f.prefill.any()},
		{Name: "generation_ms", Value: f.generation.any()},
		{Name: "mean_inter_token_latency_ms", Value: tpot},
		{Name: "mean_time_per_output_token_ms", Value: tpot},
		{Name: "output_token_source", Value: r.source()},
		{Name: "output_tokens", Value: r.OutputTokens},
		{Name: "planned_context_tokens", Value: r.PlannedContextTokens},
		{Name: "prompt_tokens", Value: r.promptTokens()},
		{Name: "reasoning_chunks", Value: r.ReasoningChunks},
		{Name: "request_canary", Value: r.Canary.object()},
		{Name: "request_index", Value: r.Index},
		{Name: "time_to_first_output_ms", Value: r.FirstOutputMS},
		{Name: "tpot_ms", Value: tpot},
		{Name: "ttft_ms", Value: r.TTFTMS},
		{Name: "visible_content_truncated", Value: r.VisibleContentTruncated},
		{Name: "visible_generation_ms", Value: f.visible.any()},
	}
}

func (r BenchmarkRow) source() string {
	if r.OutputTokens == nil {
		return "content_chunks"
	}
	return "usage"
}

func (r BenchmarkRow) promptTokens() *int64 {
	if r.OutputTokens == nil {
		return nil
	}
	return r.PromptTokens
}

func (k *Canary) object() any {
	if k == nil {
		return nil
	}
	return jsontree.Obj{
		{Name: "capture_complete", Value: k.CaptureComplete},
		{Name: "foreign_marker_count", Value: k.ForeignMarkerCount},
		{Name: "marker", Value: k.Marker},
		{Name: "marker_at_start", Value: k.MarkerAtStart},
		{Name: "observed_marker_count", Value: k.ObservedMarkerCount},
		{Name: "passed", Value: k.Passed},
	}
}

func (o *ControlledOutput) object() any {
	if o == nil {
		return nil
	}
	return jsontree.Obj{
		{Name: "capture_complete", Value: o.CaptureComplete},
		{Name: "exact_adherence", Value: o.ExactAdherence},
		{Name: "observed_code_words", Value: o.ObservedCodeWords},
		{Name: "observed_extra_words", Value: o.ObservedExtraWords},
		{Name: "passed", Value: o.Passed},
		{Name: "policy", Value: o.Policy},
		{Name: "requested_words", Value: o.RequestedWords},
	}
}

func failureList(failures []BenchmarkFailure) []any {
	out := []any{}
	for _, f := range failures {
		out = append(out, f.object())
	}
	return out
}

// maxMessage is how many characters of a failure's message are kept.
const maxMessage = 2048

func (f BenchmarkFailure) object() jsontree.Obj {
	message, cut := f.ErrorMessage, false
	if cut = utf8.RuneCountInString(message) > maxMessage; cut {
		message = string([]rune(message)[:maxMessage])
	}
	o := jsontree.Obj{
		{Name: "elapsed_ms", Value: f.ElapsedMS},
		{Name: "error_message", Value: message},
		{Name: "error_message_truncated", Value: cut},
		{Name: "error_type", Value: f.ErrorType},
		{Name: "failure_class", Value: f.Class},
		{Name: "performance_eligible", Value: false},
		{Name: "planned_context_tokens", Value: f.PlannedContextTokens},
		{Name: "request_index", Value: f.Index},
		{Name: "response_received", Value: f.Answer != nil},
	}
	if f.Answer == nil {
		return o
	}
	t := f.Answer.Timing
	t.Index, t.PlannedContextTokens = f.Index, f.PlannedContextTokens
	return append(
		o,
		jsontree.Member{Name: "controlled_output", Value: t.ControlledOutput.object()},
		jsontree.Member{Name: "request_canary", Value: t.Canary.object()},
		jsontree.Member{Name: "response_metadata", Value: f.Answer.metadata()},
		jsontree.Member{Name: "response_timing", Value: t.object(t.figures())},
	)
}

func (a *BenchmarkAnswer) metadata() jsontree.Obj {
	t := a.Timing
	reasons := []any{}
	for _, r := range a.FinishReasons {
		reasons = append(reasons, r)
	}
	var usage any
	if t.OutputTokens != nil && t.PromptTokens != nil {
		usage = jsontree.Obj{
			{Name: "completion_tokens", Value: t.OutputTokens},
			{Name: "prompt_tokens", Value: t.PromptTokens},
			{Name: "total_tokens", Value: *t.PromptTokens + *t.OutputTokens},
		}
	}
	return jsontree.Obj{
		{Name: "content_chunks", Value: t.ContentChunks},
		{Name: "finish_reasons", Value: reasons},
		{Name: "output_token_source", Value: t.source()},
		{Name: "reasoning_chunks", Value: t.ReasoningChunks},
		{Name: "stream_terminal_observed", Value: a.TerminalObserved},
		{Name: "usage", Value: usage},
		{Name: "visible_content_truncated", Value: t.VisibleContentTruncated},
	}
}
