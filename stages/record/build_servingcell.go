package record

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"anvil/pipeline/digest"
	"anvil/stages/internal/jsontree"
	"anvil/stages/internal/shape"
	"anvil/stages/internal/stat"
)

// A ServingCellInput is what was declared and measured of one published cell.
type ServingCellInput struct {
	PublicID        string
	StartedAt       time.Time // launch, set-up included
	CompletedAt     *time.Time
	Status          string // completed, aborted, failed, invalid
	EvidenceMode    string // actual_inference, or controlled for the embedded engine
	SuiteVersion    string
	SuiteSHA256     digest.Digest // SuiteDigest
	EvaluatorSHA256 digest.Digest // EvaluatorDigest
	ComparisonKey   *string
	Deployment      ServingDeployment

	TargetInputTokens      int
	ClientConcurrencyLimit int
	ObservedPeakInflight   *int // PeakInflight; null if any span lacks a start or end
	CacheState             string
	TokenAccounting        string

	Cases                []ServingCellCase
	ChunkIntervalsMS     []float64 // nil: not measured
	BatchDurationSeconds *float64  // excludes set-up
	Conditions           []Condition
	Limitations          []string // the run's own, after the eight fixed ones
	Withheld             []string // ids of metrics that are null although there are samples
}

// ServingDeployment is the operator's claims; ID, Model and Profile are required.
type ServingDeployment struct {
	ID, Model, Profile                   string
	Revision, Variant, Quantization      *string
	Hardware, Runtime, RuntimeVersion    *string
	NodeCount, ContextLimit, Concurrency *int
	WeightsVerified                      bool
	SourceURL                            *string
}

// A ServingCellCase is one declared request.
type ServingCellCase struct {
	Outcome          string   // pass, fail, error, timeout, not_run
	Observed         bool     // the client began it, whatever became of it; not one that was shed or never came up
	ModelVerified    bool     // the answer named the model that was asked for
	Answered         bool     // in time, correct or not
	DurationMS       *float64 // of failures too
	FirstGeneratedMS *float64
	FirstFinalMS     *float64 // of answers known to be free of think tags
	InputTokens      *int64
	OutputTokens     *int64
	Title            string // "" for "Synthetic request NN"
	Summary          *string
}

// SuiteDigest is the suite_sha256 that anvil writes: of the dataset's digest
// and version and the digests of the prompts in order.
func SuiteDigest(dataset *digest.Digest, version *string, prompts []digest.Digest) (digest.Digest, error) {
	list := []any{}
	for _, p := range prompts {
		list = append(list, p.String())
	}
	var file any
	if dataset != nil {
		file = dataset.String()
	}
	text, err := jsontree.Canonical(jsontree.Obj{{Name: "dataset", Value: file}, {Name: "dataset_version", Value: version}, {Name: "prompts", Value: list}})
	return digest.FromBytes(text), err
}

// EvaluatorDigest is the evaluator_sha256 that anvil writes: of the exporter's
// contract and the resolved list of graders, JSON (null without a grade stage).
func EvaluatorDigest(contract int, graders json.RawMessage) (digest.Digest, error) {
	if graders == nil {
		graders = json.RawMessage("null")
	}
	scorer, err := jsontree.Parse(graders)
	if err != nil {
		return digest.Digest{}, fmt.Errorf("graders: %w", err)
	}
	exporter := digest.FromBytes(fmt.Appendf(nil, "anvil serving-cell/%d", contract))
	text, err := jsontree.Canonical(jsontree.Obj{{Name: "exporter_sha256", Value: exporter.String()}, {Name: "scorer", Value: scorer}})
	return digest.FromBytes(text), err
}

// A Span is one request on the client's monotonic clock, in ns.
type Span struct{ Start, End int64 }

// PeakInflight is the largest number of spans that overlap; spans that touch do
// not.
func PeakInflight(spans []Span) int {
	type edge struct {
		at    int64
		delta int
	}
	var edges []edge
	for _, s := range spans {
		edges = append(edges, edge{s.Start, 1}, edge{s.End, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if a.at != b.at {
			return int(max(-1, min(1, a.at-b.at)))
		}
		return a.delta - b.delta // ends first
	})
	peak, now := 0, 0
	for _, e := range edges {
		now += e.delta
		peak = max(peak, now)
	}
	return peak
}

// BuildServingCell writes a serving-cell-v1 record with its content-derived run
// id. What the kind does not allow is an error that names the place.
func BuildServingCell(in ServingCellInput) ([]byte, error) {
	doc := jsontree.Obj{
		{Name: "boundary", Value: "role_completion"},
		{Name: "cases", Value: in.caseList()},
		{Name: "comparison_key", Value: in.ComparisonKey},
		{Name: "completed_at", Value: isoTime(in.CompletedAt)},
		{Name: "conditions", Value: in.conditionList()},
		{Name: "counts", Value: in.counts()},
		{Name: "deployment", Value: in.Deployment.object()},
		{Name: "evaluator_sha256", Value: in.EvaluatorSHA256.String()},
		{Name: "evidence", Value: []any{}},
		{Name: "evidence_mode", Value: in.EvidenceMode},
		{Name: "limitations", Value: in.limitationList()},
		{Name: "metrics", Value: in.metricList()},
		{Name: "performance", Value: in.performance()},
		{Name: "phase", Value: "performance"},
		{Name: "role", Value: "serving"},
		{Name: "run_id", Value: in.PublicID},
		{Name: "schema_version", Value: 1},
		{Name: "started_at", Value: isoTime(&in.StartedAt)},
		{Name: "status", Value: in.Status},
		{Name: "suite_sha256", Value: in.SuiteSHA256.String()},
		{Name: "suite_version", Value: in.SuiteVersion},
	}
	id, err := mintRunID(doc, in.PublicID)
	if err != nil {
		return nil, err
	}
	for i := range doc {
		if doc[i].Name == "run_id" {
			doc[i].Value = id
		}
	}
	text, err := jsontree.Canonical(doc)
	if err != nil {
		return nil, err
	}
	return text, conformsTo(text)
}

// conformsTo names the first thing that a serving cell must not hold.
func conformsTo(text []byte) error {
	s, err := shape.Compile(ServingCellSchema)
	if err != nil {
		return err
	}
	doc, err := jsontree.Parse(text)
	if err != nil {
		return err
	}
	for _, v := range s.Check(doc, "", 1) {
		return fmt.Errorf("serving cell: %s %s", v.Pointer, v.Text)
	}
	return nil
}

// isoTime writes a time as the producer does: microseconds unless they are zero.
func isoTime(t *time.Time) any {
	if t == nil {
		return nil
	}
	u := t.UTC()
	if u.Nanosecond()/1000 == 0 {
		return u.Format("2006-01-02T15:04:05") + "+00:00"
	}
	return u.Format("2006-01-02T15:04:05.000000") + "+00:00"
}

func (in *ServingCellInput) caseList() []any {
	out := []any{}
	for i, k := range in.Cases {
		var stage any = k.Outcome
		switch k.Outcome {
		case "pass":
			stage = nil
		case "fail":
			stage = "answer_checks"
		}
		out = append(out, jsontree.Obj{
			{Name: "case_id", Value: fmt.Sprintf("request-%02d", i+1)},
			{Name: "duration_ms", Value: k.DurationMS},
			{Name: "failure_stage", Value: stage},
			{Name: "outcome", Value: k.Outcome},
			{Name: "primary_outcome", Value: k.primary()},
			{Name: "summary", Value: k.Summary},
			{Name: "title", Value: or(k.Title, fmt.Sprintf("Synthetic request %02d", i+1))},
		})
	}
	return out
}

func (k *ServingCellCase) primary() string {
	switch {
	case !k.ModelVerified:
		return "unverified"
	case k.Outcome == "pass":
		return "pass"
	}
	return "fail"
}

func (in *ServingCellInput) conditionList() []any {
	out, basis := []any{}, false
	for _, c := range in.Conditions {
		basis = basis || c.Label == PeakOverlapLabel
		out = append(out, jsontree.Obj{{Name: "label", Value: c.Label}, {Name: "value", Value: fmt.Sprint(c.Value)}})
	}
	if basis {
		return out
	}
	value := "Largest number of overlapping client request spans on one monotonic clock; touching spans do not overlap"
	if in.ObservedPeakInflight == nil {
		value = peakOverlapNotRecorded + "; at least one request span lacks its start or end"
	}
	return append(out, jsontree.Obj{{Name: "label", Value: PeakOverlapLabel}, {Name: "value", Value: value}})
}

func (in *ServingCellInput) counts() jsontree.Obj {
	tally, primary := map[string]any{}, 0
	for i := range in.Cases {
		k := &in.Cases[i]
		n, _ := tally[k.Outcome].(int)
		tally[k.Outcome] = n + 1
		if k.primary() == "pass" {
			primary++
		}
	}
	return jsontree.Obj{{Name: "declared", Value: len(in.Cases)}, {Name: "outcomes", Value: tally}, {Name: "primary_passes", Value: primary}}
}

func (d ServingDeployment) object() jsontree.Obj {
	return jsontree.Obj{
		{Name: "concurrency", Value: d.Concurrency},
		{Name: "context_limit", Value: d.ContextLimit},
		{Name: "hardware", Value: d.Hardware},
		{Name: "id", Value: d.ID},
		{Name: "model", Value: d.Model},
		{Name: "node_count", Value: d.NodeCount},
		{Name: "profile", Value: d.Profile},
		{Name: "quantization", Value: d.Quantization},
		{Name: "revision", Value: d.Revision},
		{Name: "runtime", Value: d.Runtime},
		{Name: "runtime_version", Value: d.RuntimeVersion},
		{Name: "source_url", Value: d.SourceURL},
		{Name: "variant", Value: d.Variant},
		{Name: "weights_verified", Value: d.WeightsVerified && d.Revision != nil && *d.Revision != ""},
	}
}

func (in *ServingCellInput) limitationList() []any {
	out := []any{}
	for _, l := range slices.Concat(ServingCellLimitations(), in.Limitations) {
		if !slices.Contains(out, any(l)) {
			out = append(out, l)
		}
	}
	return out
}

func (in *ServingCellInput) performance() jsontree.Obj {
	low, high := in.inputTokens()
	basis, answered := "not_measured", 0
	if in.ChunkIntervalsMS != nil {
		basis = "sse_chunks"
	}
	for _, k := range in.Cases {
		if k.Answered {
			answered++
		}
	}
	return jsontree.Obj{
		{Name: "actual_input_tokens_max", Value: high},
		{Name: "actual_input_tokens_min", Value: low},
		{Name: "cache_state", Value: in.CacheState},
		{Name: "client_concurrency_limit", Value: in.ClientConcurrencyLimit},
		{Name: "observed_peak_inflight", Value: in.ObservedPeakInflight},
		{Name: "stream_interval_basis", Value: basis},
		{Name: "target_input_tokens", Value: in.TargetInputTokens},
		{Name: "token_accounting", Value: in.TokenAccounting},
		{Name: "transport_successes", Value: answered},
		{Name: "version", Value: "serving-cell-v1"},
	}
}

// inputTokens are the extremes of the server's usage, null if that of any
// observed request is missing.
func (in *ServingCellInput) inputTokens() (low, high any) {
	var all []int64
	for _, k := range in.Cases {
		switch {
		case k.InputTokens != nil:
			all = append(all, *k.InputTokens)
		case k.Observed:
			return nil, nil
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return slices.Min(all), slices.Max(all)
}

func (in *ServingCellInput) metricList() []any {
	collect := func(of func(*ServingCellCase) *float64) []float64 {
		var xs []float64
		for i := range in.Cases {
			if p := of(&in.Cases[i]); p != nil {
				xs = append(xs, *p)
			}
		}
		return slices.Sorted(slices.Values(xs))
	}
	generated := collect(func(k *ServingCellCase) *float64 { return k.FirstGeneratedMS })
	final := collect(func(k *ServingCellCase) *float64 { return k.FirstFinalMS })
	durations := collect(func(k *ServingCellCase) *float64 { return k.DurationMS })
	intervals := slices.Sorted(slices.Values(in.ChunkIntervalsMS))
	const missing = " Includes every response with that timing; missing timings are not zero."
	metric := func(id, label, unit, definition string, samples int, value any) jsontree.Obj {
		if samples == 0 || slices.Contains(in.Withheld, id) {
			value = nil
		}
		return jsontree.Obj{
			{Name: "definition", Value: definition},
			{Name: "id", Value: id},
			{Name: "label", Value: label},
			{Name: "samples", Value: samples},
			{Name: "unit", Value: unit},
			{Name: "value", Value: value},
		}
	}
	value := func(f float64) any { return known(f).any() }
	throughput, observed := in.throughput()
	batch := 0
	if in.BatchDurationSeconds != nil {
		batch = 1
	}
	return []any{
		metric("completion_throughput_tps", "End-to-end completion throughput", "tok/s", "Server-reported completion tokens divided by the entire measured batch duration, including prefill, waiting and failed requests. Token accounting is stated in the serving cell.", observed, throughput),
		metric("first_generated_median_ms", "First generated output, median", "ms", "First nonempty reasoning or content delta; this may precede any visible answer."+missing, len(generated), value(stat.Median(generated))),
		metric("first_final_content_median_ms", "First final content, median", "ms", "First nonempty final-content delta; arrival does not establish correctness or usefulness."+missing, len(final), value(stat.Median(final))),
		metric("completion_median_ms", "Request completion, median", "ms", "Full request duration, including reasoning; includes failures with recorded duration."+missing, len(durations), value(stat.Median(durations))),
		metric("completion_p95_ms", "Request completion, p95", "ms", "Linear-interpolated p95 over all recorded request durations, including failures. Small samples give an unstable tail estimate.", len(durations), value(stat.Linear(durations, 0.95))),
		metric("stream_chunk_interval_median_ms", "Stream chunk interval, median", "ms", "Observed SSE intervals reported by the serving client. Speculative decoding can emit several tokens per chunk; this is not per-token latency.", len(intervals), value(stat.Median(intervals))),
		metric("batch_duration_seconds", "Measured batch duration", "s", "Client measurement interval, excluding process setup. This is the denominator for aggregate completion throughput.", batch, in.BatchDurationSeconds),
	}
}

// throughput is null if any observed request lacks its usage, the count of its
// input included, and without a duration to divide by.
func (in *ServingCellInput) throughput() (value any, samples int) {
	tokens, all := int64(0), true
	for _, k := range in.Cases {
		if k.OutputTokens != nil {
			tokens += *k.OutputTokens
			samples++
		}
		all = all && (!k.Observed || k.InputTokens != nil && k.OutputTokens != nil)
	}
	batch := in.BatchDurationSeconds
	if !all || samples == 0 || batch == nil || *batch <= 0 {
		return nil, samples
	}
	return float64(tokens) / *batch, samples
}
