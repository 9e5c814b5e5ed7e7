package record

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"anvil/pipeline/digest"
	"anvil/stages/internal/jsontree"
)

// measured takes from a record what cannot be computed from anything else, and
// nothing more.
func measured(t *testing.T, src []byte) BenchmarkInput {
	t.Helper()
	d, err := jsontree.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	integer := func(name string) int { n, _ := d.Get(name).Int(); return int(n) }
	boolean := func(v jsontree.Value) bool { b, _ := v.Bool(); return b }
	stamp := func(name string) int64 { n, _ := d.Get(name).Int(); return n }
	sampling := func(name string) SamplingInput {
		s := d.At("sampling", name)
		return SamplingInput{Requested: float(s.Get("requested")), Effective: float(s.Get("effective_request"))}
	}
	in := BenchmarkInput{
		Protocol: d.Get("measurement_protocol").Str(), StartedUnixNS: stamp("started_at_unix_ns"), FinishUnixNS: stamp("finished_at_unix_ns"),
		WallClockMS: *float(d.Get("wall_clock_ms")), TimestampPrecision: d.Get("timestamp_precision").Str(),
		ClockDomainID: text(d.Get("clock_domain_id")), ConfigurationFingerprint: text(d.Get("configuration_fingerprint")),
		BaseURL: d.Get("base_url").Str(), Model: d.Get("model").Str(), Engine: text(d.Get("engine")), GPU: text(d.Get("gpu")),
		Concurrency: integer("concurrency"), ContextTokens: new(integer("context_tokens")), ContextSeed: stamp("context_seed"),
		MaxContextTokens: new(integer("max_context_tokens")), MaxTokens: integer("max_tokens"), ResponseWords: integer("response_words"),
		ControlledOutputPolicy: d.Get("controlled_output_policy").Str(), PromptCacheMode: d.Get("prompt_cache_mode").Str(),
		SharedPrefixTokens: integer("shared_prefix_tokens"), RequestCanaries: boolean(d.Get("request_canaries")),
		Temperature: sampling("temperature"), TopP: sampling("top_p"), ThinkingMode: d.At("serve_flags", "thinking_mode").Str(),
		ReasoningEffort: text(d.At("serve_flags", "reasoning_effort")), NoThinking: boolean(d.At("serve_flags", "no_thinking")),
		SharedPrefixBurst: boolean(d.At("serve_flags", "shared_prefix_burst")), TimingMethodology: map[string]string{},
		FailurePolicy: d.At("metric_population", "failure_policy").Str(),
	}
	for k, v := range d.Get("timing_methodology").Members() {
		in.TimingMethodology[k] = v.Str()
	}
	for _, v := range d.Get("request_timings").Elems() {
		in.Rows = append(in.Rows, measuredRow(v))
	}
	for _, v := range d.Get("failures").Elems() {
		f := BenchmarkFailure{
			Class: v.Get("failure_class").Str(), ErrorType: v.Get("error_type").Str(), ErrorMessage: v.Get("error_message").Str(), ElapsedMS: *float(v.Get("elapsed_ms")),
			Answer: &BenchmarkAnswer{Timing: measuredRow(v.Get("response_timing"))},
		}
		f.Index, f.PlannedContextTokens = f.Answer.Timing.Index, f.Answer.Timing.PlannedContextTokens
		f.Answer.TerminalObserved = boolean(v.At("response_metadata", "stream_terminal_observed"))
		for _, r := range v.At("response_metadata", "finish_reasons").Elems() {
			f.Answer.FinishReasons = append(f.Answer.FinishReasons, r.Str())
		}
		in.Failures = append(in.Failures, f)
	}
	return in
}

func measuredRow(v jsontree.Value) BenchmarkRow {
	integer := func(v jsontree.Value) int { n, _ := v.Int(); return int(n) }
	tokens := func(v jsontree.Value) *int64 {
		if n, ok := v.Int(); ok {
			return &n
		}
		return nil
	}
	b := func(v jsontree.Value) bool { b, _ := v.Bool(); return b }
	r := BenchmarkRow{
		Index: integer(v.Get("request_index")), PlannedContextTokens: integer(v.Get("planned_context_tokens")), PromptTokens: tokens(v.Get("prompt_tokens")),
		OutputTokens: tokens(v.Get("output_tokens")), FirstOutputMS: float(v.Get("time_to_first_output_ms")), TTFTMS: float(v.Get("ttft_ms")),
		E2EMS: *float(v.Get("e2e_ms")), ReasoningChunks: integer(v.Get("reasoning_chunks")), ContentChunks: integer(v.Get("content_chunks")),
		VisibleContentTruncated: b(v.Get("visible_content_truncated")),
	}
	if k := v.Get("request_canary"); k.Is(jsontree.Object) {
		r.Canary = &Canary{
			Marker: k.Get("marker").Str(), MarkerAtStart: b(k.Get("marker_at_start")), ObservedMarkerCount: integer(k.Get("observed_marker_count")),
			ForeignMarkerCount: integer(k.Get("foreign_marker_count")), CaptureComplete: b(k.Get("capture_complete")), Passed: b(k.Get("passed")),
		}
	}
	if o := v.Get("controlled_output"); o.Is(jsontree.Object) {
		r.ControlledOutput = &ControlledOutput{
			Policy: o.Get("policy").Str(), RequestedWords: integer(o.Get("requested_words")), ObservedCodeWords: integer(o.Get("observed_code_words")),
			ObservedExtraWords: integer(o.Get("observed_extra_words")), CaptureComplete: b(o.Get("capture_complete")), Passed: b(o.Get("passed")),
		}
		if e, ok := o.Get("exact_adherence").Bool(); ok {
			r.ControlledOutput.ExactAdherence = &e
		}
	}
	return r
}

func float(v jsontree.Value) *float64 {
	if f, ok := v.Float(); ok {
		return &f
	}
	return nil
}

func text(v jsontree.Value) *string {
	if v.Is(jsontree.String) {
		return new(v.Str())
	}
	return nil
}

// The golden rebuild: from measured values alone every newest-shape record
// comes out byte for byte.
func TestBenchmarkRecordsAreRebuiltByteForByte(t *testing.T) {
	for _, path := range []string{
		seeds + "/benchmark-v1.json", corpus + "/baseline-capacity-1.json", corpus + "/glm-capacity-16word-probe.json",
		corpus + "/glm-capacity-c4-16word-scout.json", corpus + "/glm-capacity-c4-16word-final.json",
	} {
		src := testdata(t, path)
		got, err := BuildBenchmark(measured(t, src))
		if err != nil {
			t.Fatal(err)
		}
		want := append(bytes.TrimRight(src, "\n"), '\n')
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not rebuilt (-want +got):\n%s", filepath.Base(path), cmp.Diff(string(want), string(got)))
		}
	}
}

func TestBuiltRecordsHold(t *testing.T) {
	answer := BenchmarkRow{E2EMS: 900, FirstOutputMS: new(100.5), OutputTokens: new(int64(40)), PromptTokens: new(int64(500)), ReasoningChunks: 40}
	row := func(i int, usage bool) BenchmarkRow {
		r := BenchmarkRow{Index: i, PlannedContextTokens: 512, FirstOutputMS: new(100.0 + float64(i)), TTFTMS: new(200.0), E2EMS: 1000, ContentChunks: 30, ReasoningChunks: 2}
		if usage {
			r.PromptTokens, r.OutputTokens, r.CachedTokens = new(int64(500)), new(int64(64)), new(int64(250))
		}
		return r
	}
	base := BenchmarkInput{
		Protocol: "capacity-v4-reasoning", StartedUnixNS: 1789665664_000000000, FinishUnixNS: 1789665668_500000000, WallClockMS: 4500, BaseURL: "http://127.0.0.1:9/v1",
		Model: "m", Engine: new(SimulatedEngine("v0.1.0")), GPU: new(SimulatedGPU), Concurrency: 1, ContextTokens: new(512), MaxTokens: 64,
		ControlledOutputPolicy: "observe", PromptCacheMode: "unique", Temperature: SamplingInput{Effective: new(0.0)}, ThinkingMode: "default",
	}
	for name, c := range map[string]struct {
		rows     []BenchmarkRow
		failures []BenchmarkFailure
	}{
		"all well":        {rows: []BenchmarkRow{row(2, true), row(0, true), row(1, true)}},
		"no usage":        {rows: []BenchmarkRow{row(0, false), row(1, true)}},
		"no usage at all": {rows: []BenchmarkRow{row(0, false)}},
		"failures": {rows: []BenchmarkRow{row(1, true)}, failures: []BenchmarkFailure{
			{Index: 2, PlannedContextTokens: 512, Class: "stream_validation_failed", ErrorType: "empty", ErrorMessage: "stream completed without visible content", ElapsedMS: 900.3, Answer: &BenchmarkAnswer{Timing: answer, FinishReasons: []string{"length"}}},
			{Index: 0, PlannedContextTokens: 512, Class: "request_error", ErrorType: "http_error", ErrorMessage: strings.Repeat("é", 3000), ElapsedMS: 3},
		}},
		"nothing completed": {failures: []BenchmarkFailure{{Class: "runner_error", PlannedContextTokens: 512, ErrorType: "not_started"}}},
	} {
		in := base
		in.Rows, in.Failures = c.rows, c.failures
		src, err := BuildBenchmark(in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r := CheckReader(name, bytes.NewReader(src), Options{})
		if r.Status != StatusOK || *r.Shape != "newest" {
			t.Errorf("%s\n%s", describe(r), src)
		}
	}
	if _, err := BuildBenchmark(base); err == nil {
		t.Error("a cell without requests gave no error")
	}
}

// The seed's metrics from values that give its medians; its run id then is the
// digest of our own writing, to the last byte.
func TestServingCellIsRebuiltByteForByte(t *testing.T) {
	src := testdata(t, seeds+"/serving-cell-record.json")
	got, err := BuildServingCell(seedCell(t))
	if err != nil {
		t.Fatal(err)
	}
	if want := string(src) + "\n"; string(got) != want {
		t.Errorf("not rebuilt (-want +got):\n%s", cmp.Diff(want, string(got)))
	}
}

// What the kind forbids is not written: the same values without a part of them
// make a record that holds.
func TestServingCellStatesNoThroughputThatItCannot(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(*ServingCellInput)
		throughput bool
	}{
		"as it is":                {func(*ServingCellInput) {}, true},
		"no input tokens of one":  {func(in *ServingCellInput) { in.Cases[3].InputTokens = nil }, false},
		"no output tokens of one": {func(in *ServingCellInput) { in.Cases[3].OutputTokens = nil }, false},
		"one was never begun": {func(in *ServingCellInput) {
			k := &in.Cases[3]
			k.Observed, k.InputTokens, k.OutputTokens = false, nil, nil
		}, true},
		"no duration": {func(in *ServingCellInput) { in.BatchDurationSeconds = nil }, false},
		"a duration withheld": {func(in *ServingCellInput) {
			in.Withheld = []string{"batch_duration_seconds"}
			in.Conditions = append(in.Conditions, Condition{Label: "Measured batch duration", Value: "Withheld by limitation clock.stepped of measure"})
		}, true},
		"no revision":       {func(in *ServingCellInput) { in.Deployment.Revision = nil }, true},
		"an empty revision": {func(in *ServingCellInput) { in.Deployment.Revision = new("") }, true},
	} {
		in := seedCell(t)
		for i := range in.Cases {
			in.Cases[i].Observed = true
		}
		c.change(&in)
		doc, err := BuildServingCell(in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r := CheckReader(name, bytes.NewReader(doc), Options{}); !r.OK {
			t.Errorf("%s, want ok", describe(r))
		}
		metrics := mustParse(t, doc).Get("metrics")
		if got := metrics.Elem("0").Get("value").Is(jsontree.Number); got != c.throughput {
			t.Errorf("%s: a throughput is stated: %v", name, got)
		}
	}
}

// seedCell holds values that give those of the seed.
func seedCell(t *testing.T) ServingCellInput {
	t.Helper()
	d := mustParse(t, testdata(t, seeds+"/serving-cell-record.json"))
	finished := time.Date(2026, 9, 20, 14, 32, 32, 769010000, time.UTC)
	dep, perf := d.Get("deployment"), d.Get("performance")
	integer := func(v jsontree.Value) *int { n, _ := v.Int(); return new(int(n)) }
	in := ServingCellInput{
		PublicID: "glm53-flash-stock-serving-4k-c1-pilot", StartedAt: time.Date(2026, 9, 20, 14, 31, 36, 83421000, time.UTC), CompletedAt: &finished,
		Status: "completed", EvidenceMode: "actual_inference", SuiteVersion: "serving-performance-v1",
		SuiteSHA256: digest.MustParse(d.Get("suite_sha256").Str()), EvaluatorSHA256: digest.MustParse(d.Get("evaluator_sha256").Str()),
		Deployment: ServingDeployment{
			ID: dep.Get("id").Str(), Model: dep.Get("model").Str(), Profile: dep.Get("profile").Str(), Revision: text(dep.Get("revision")), Variant: text(dep.Get("variant")),
			Quantization: text(dep.Get("quantization")), Hardware: text(dep.Get("hardware")), Runtime: text(dep.Get("runtime")), RuntimeVersion: text(dep.Get("runtime_version")),
			NodeCount: integer(dep.Get("node_count")), ContextLimit: integer(dep.Get("context_limit")), Concurrency: integer(dep.Get("concurrency")), WeightsVerified: true,
			SourceURL: text(dep.Get("source_url")),
		},
		TargetInputTokens: *integer(perf.Get("target_input_tokens")), ClientConcurrencyLimit: 1, CacheState: perf.Get("cache_state").Str(), TokenAccounting: perf.Get("token_accounting").Str(),
		BatchDurationSeconds: new(37.15299845696427),
	}
	for i, k := range d.Get("cases").Elems() {
		c := ServingCellCase{
			Outcome: k.Get("outcome").Str(), ModelVerified: true, Answered: true, DurationMS: float(k.Get("duration_ms")), InputTokens: new(int64(3704)), OutputTokens: new(int64(100)),
			FirstGeneratedMS: new(2563.1885), FirstFinalMS: new(3322.550),
		}
		switch i {
		case 0:
			c.InputTokens, c.OutputTokens = new(int64(3735)), new(int64(87)) // 787 in all
		case 4, 5, 6, 7:
			c.FirstFinalMS = new(3322.551)
		}
		in.Cases = append(in.Cases, c)
	}
	for range 198 {
		in.ChunkIntervalsMS = append(in.ChunkIntervalsMS, 87.76121400296688)
	}
	for _, c := range d.Get("conditions").Elems() {
		in.Conditions = append(in.Conditions, Condition{Label: c.Get("label").Str(), Value: c.Get("value").Str()})
	}
	for i, l := range d.Get("limitations").Elems() {
		if i >= 8 {
			in.Limitations = append(in.Limitations, l.Str())
		}
	}
	return in
}

func TestDerivedSummaryIsRebuiltByteForByte(t *testing.T) {
	want := testdata(t, corpus+"/glm-capacity-c4-16word-final-summary.json")
	d, err := jsontree.Parse(want)
	if err != nil {
		t.Fatal(err)
	}
	source := testdata(t, corpus+"/glm-capacity-c4-16word-final.json")
	got, err := BuildDerivedSummary(source, "glm-capacity-c4-16word-final.json", d.Get("cache_caveat").Str(), d.Get("p99_interpretation").Str())
	if err != nil {
		t.Fatal(err)
	}
	added := "  \"source_sha256\": \"" + digest.FromBytes(source).String() + "\",\n"
	if !strings.Contains(string(got), added) {
		t.Errorf("no source_sha256 in %s", got)
	}
	if d := cmp.Diff(string(want), strings.Replace(string(got), added, "", 1)); d != "" {
		t.Errorf("not rebuilt (-want +got):\n%s", d)
	}
}

func TestSummaryNeedsBothOfThePlansTexts(t *testing.T) {
	source := testdata(t, corpus+"/glm-capacity-c4-16word-final.json")
	for _, c := range [][2]string{{"", "p99"}, {"cold", ""}} {
		if doc, err := BuildDerivedSummary(source, "x.json", c[0], c[1]); err == nil {
			t.Errorf("caveat %q, p99 %q: got %.80s", c[0], c[1], doc)
		}
	}
}

// How much of an answer is captured is the measuring stage's, not the kind's.
func TestTimingMethodologyNamesNoCapture(t *testing.T) {
	for key, text := range TimingMethodology() {
		if strings.Contains(text, "8192") {
			t.Errorf("%s: %s", key, text)
		}
	}
}

func TestLiveRunIsRebuiltByteForByte(t *testing.T) {
	src := testdata(t, seeds+"/live-http-run.json")
	d, err := jsontree.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	c := d.Get("run_context")
	in := LiveRunInput{DurationS: 3.42788, TTFTSLOMS: new(500.0), Context: LiveContext{
		Model: c.Get("model").Str(), Revision: text(c.Get("revision")), License: text(c.Get("license")), Device: text(c.Get("device")), Command: text(c.Get("command")), Scope: c.Get("scope").Str(),
	}}
	for name, v := range c.Get("source_sha256").Members() {
		in.Context.Sources = append(in.Context.Sources, NamedDigest{name, v.Str()})
	}
	for _, r := range d.Get("requests").Elems() {
		row := LiveRequest{Error: r.Get("error").Str(), E2EMS: *float(r.Get("e2e_ms")), Text: text(r.Get("text"))}
		if row.Error == "" {
			row.TTFTMS = *float(r.Get("ttft_ms"))
		}
		for _, g := range r.Get("event_gaps_ms").Elems() {
			row.EventGapsMS = append(row.EventGapsMS, *float(g))
		}
		in.Requests = append(in.Requests, row)
	}
	got, err := BuildLiveRun(in)
	if err != nil {
		t.Fatal(err)
	}
	if want := string(src) + "\n"; string(got) != want {
		t.Errorf("not rebuilt (-want +got):\n%s", cmp.Diff(want, string(got)))
	}
	in.TTFTSLOMS, in.ClientShed = nil, 2
	got, err = BuildLiveRun(in)
	if err != nil {
		t.Fatal(err)
	}
	if r := CheckReader("live", bytes.NewReader(got), Options{}); !r.OK || !bytes.Contains(got, []byte(`"ttft_goodput_rps": null`)) || !bytes.Contains(got, []byte(`"offered_requests": 8`)) {
		t.Errorf("%s\n%s", describe(r), got)
	}
}

// 43 requests in 0.0376 s: 1143.617 of the exact duration, 1131.579 of the 0.038
// that a reader sees.
func TestLiveGoodputIsDividedByTheDurationThatIsStated(t *testing.T) {
	in := LiveRunInput{DurationS: 0.0376, TTFTSLOMS: new(500.0)}
	for range 43 {
		in.Requests = append(in.Requests, LiveRequest{E2EMS: 20, TTFTMS: 10})
	}
	got, err := BuildLiveRun(in)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(got, []byte(`"duration_s": 0.038`)) || !bytes.Contains(got, []byte(`"ttft_goodput_rps": 1131.579`)) {
		t.Errorf("goodput of another duration:\n%.200s", got)
	}
	if r := CheckReader("live", bytes.NewReader(got), Options{}); !r.OK {
		t.Errorf("%s", describe(r))
	}
	exact := bytes.Replace(got, []byte("1131.579"), []byte("1143.617"), 1)
	if r := CheckReader("live", bytes.NewReader(exact), Options{}); r.OK {
		t.Error("a goodput of a duration that the record does not state passes")
	}
}

// A phase of less than half a millisecond has no duration to divide by.
func TestLiveGoodputOfNoStatedDurationIsNull(t *testing.T) {
	got, err := BuildLiveRun(LiveRunInput{DurationS: 0.0004, TTFTSLOMS: new(500.0), Requests: []LiveRequest{{E2EMS: 0.4, TTFTMS: 0.2}}})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(got, []byte(`"ttft_goodput_rps": null`)) {
		t.Errorf("%.200s", got)
	}
}

func TestPeakInflight(t *testing.T) {
	for want, spans := range map[int][]Span{
		0: nil,
		1: {{0, 10}, {10, 20}, {20, 30}},
		2: {{0, 11}, {10, 20}, {20, 30}},
		3: {{0, 100}, {1, 50}, {49, 60}},
	} {
		if got := PeakInflight(spans); got != want {
			t.Errorf("PeakInflight(%v) = %d, want %d", spans, got, want)
		}
	}
}
