package record

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"anvil/schemas"
	"anvil/stages/internal/jsontree"
	"anvil/stages/internal/stat"
)

// ServingCellSchema is the id of published serving cells.
const ServingCellSchema schemas.ID = "serving-cell-v1"

var servingCellMembers = []string{
	"boundary", "cases", "comparison_key", "completed_at", "conditions", "counts", "deployment", "evaluator_sha256", "evidence",
	"evidence_mode", "limitations", "metrics", "performance", "phase", "role", "run_id", "schema_version", "started_at", "status",
	"suite_sha256", "suite_version",
}

// ServingCellLimitations are the eight that every record of the kind begins
// with.
func ServingCellLimitations() []string {
	return []string{
		"Prompt-only development workloads; these do not exercise native agent loops or establish held-out quality.",
		"Input-size labels are targets. Actual server token usage differs across tokenizers and does not establish a maximum usable context window.",
		"Client concurrency limits and configured server slots are not observed overlap or maximum sustainable capacity.",
		"Observed overlap, when available, counts client request spans; it is not a count of active GPU sequences.",
		"No throughput ranking or comparison delta is authorized by this record; matching conditions have not been established.",
		"Transport completion and independently graded answer correctness are separate. Missing attempts and grades stay in the denominator.",
		"First final-content arrival is a channel timing, not proof that the content is useful or correct.",
		"Final-content timings exclude responses flagged for thinking tags in that channel, or lacking that observation; separate reasoning duration is not inferred.",
	}
}

// The label of the condition that says what the peak stands on, and how its
// value begins when there is none.
const (
	PeakOverlapLabel       = "Peak-overlap basis"
	peakOverlapNotRecorded = "Not recorded"
)

// sourceHosts are those that a deployment's source_url may name.
var sourceHosts = []string{"huggingface.co", "github.com"}

type servingCell struct {
	*checker
	doc       jsontree.Value
	cases     []servingCase
	durations []float64 // ms, of cases that have one, ascending
}

type servingCase struct {
	v        jsontree.Value
	outcome  string
	duration figure
}

func checkServingCell(c *checker, doc jsontree.Value) {
	s := &servingCell{checker: c, doc: doc}
	c.report.runID = doc.Get("run_id").Str()
	c.conforms(ServingCellSchema, doc)
	for _, v := range doc.Get("cases").Elems() {
		k := servingCase{v: v, outcome: v.Get("outcome").Str(), duration: figureOf(v.Get("duration_ms"))}
		if k.duration.ok {
			s.durations = append(s.durations, k.duration.v)
		}
		s.cases = append(s.cases, k)
	}
	slices.Sort(s.durations)
	c.checkRunID(doc)
	s.checkTimes()
	s.checkCases()
	s.checkCounts()
	s.checkPerformance()
	s.checkMetrics()
	s.checkTexts()
}

func (s *servingCell) checkTimes() {
	started, err := time.Parse(time.RFC3339Nano, s.doc.Get("started_at").Str())
	completed, err2 := time.Parse(time.RFC3339Nano, s.doc.Get("completed_at").Str())
	s.isTime(s.doc, "started_at", err)
	s.isTime(s.doc, "completed_at", err2)
	if err == nil && err2 == nil {
		s.holds(!completed.Before(started), "/completed_at", "clock.order", s.doc.Get("completed_at"), nil, "before started_at")
		batch := figureOf(s.metric("batch_duration_seconds").Get("value"))
		s.holds(!batch.ok || batch.v <= completed.Sub(started).Seconds()+1e-6, "/completed_at", "clock.batch", s.doc.Get("completed_at"), nil,
			"the batch of %v s does not fit between started_at and completed_at", batch.v)
	}
	status := s.doc.Get("status").Str()
	s.holds(status != "completed" || err2 == nil, "/completed_at", "status.completed", s.doc.Get("completed_at"), nil, "a completed record has a finish time")
}

// metric returns the first with the id.
func (s *servingCell) metric(id string) jsontree.Value {
	for _, m := range s.doc.Get("metrics").Elems() {
		if m.Get("id").Str() == id {
			return m
		}
	}
	return jsontree.Value{}
}

func (s *servingCell) checkCases() {
	completed := s.doc.Get("status").Str() == "completed"
	for i, k := range s.cases {
		at := jsontree.Index("/cases", i)
		s.textIs(at+"/case_id", "case.id", k.v.Get("case_id"), fmt.Sprintf("request-%02d", i+1), "cases are numbered from 01 without gaps")
		s.checkOutcome(k, at)
		if completed {
			s.holds(k.duration.ok || !k.v.Get("duration_ms").Is(jsontree.Null), at+"/duration_ms", "status.completed", k.v.Get("duration_ms"), nil, "a completed record has a timing for every case")
			graded := k.outcome == "pass" || k.outcome == "fail"
			s.holds(graded || k.outcome == "", at+"/outcome", "status.completed", k.v.Get("outcome"), nil, "a completed record has a grade for every case")
		}
	}
}

func (s *servingCell) checkOutcome(k servingCase, at string) {
	stage, primary := k.v.Get("failure_stage"), k.v.Get("primary_outcome")
	switch k.outcome {
	case "":
		return
	case "pass":
		s.holds(stage.Is(jsontree.Null), at+"/failure_stage", "case.failure-stage", stage, nil, "null for pass")
	case "fail":
		s.textIs(at+"/failure_stage", "case.failure-stage", stage, "answer_checks", "answer_checks for fail")
	default:
		s.textIs(at+"/failure_stage", "case.failure-stage", stage, k.outcome, "else the outcome")
	}
	allowed := []string{"unverified", "fail"}
	if k.outcome == "pass" {
		allowed = []string{"pass", "unverified"}
	}
	s.holds(slices.Contains(allowed, primary.Str()) || !primary.Is(jsontree.String), at+"/primary_outcome", "case.primary", primary, nil,
		"the outcome is %s: want %s", k.outcome, strings.Join(allowed, " or "))
}

func (s *servingCell) checkCounts() {
	counts := s.doc.Get("counts")
	tally, primary := map[string]int64{}, int64(0)
	for _, k := range s.cases {
		tally[k.outcome]++
		primary += one(k.v.Get("primary_outcome").Str() == "pass")
	}
	declared := int64(len(s.cases))
	s.intIs("/counts/declared", "counts.declared", counts.Get("declared"), declared, "there are %d cases", declared)
	s.intIs("/counts/primary_passes", "counts.primary", counts.Get("primary_passes"), primary, "%d cases pass with the model verified", primary)
	outcomes := jsontree.Obj{}
	for _, name := range []string{"error", "fail", "not_run", "pass", "timeout"} {
		stored, at := counts.At("outcomes", name), "/counts/outcomes/"+name
		if tally[name] > 0 {
			outcomes = append(outcomes, jsontree.Member{Name: name, Value: tally[name]})
			s.holds(stored.Exists() || !counts.Get("outcomes").Is(jsontree.Object), at, "counts.outcomes", stored, tally[name], "%d cases have this outcome", tally[name])
		}
		s.intIs(at, "counts.outcomes", stored, tally[name], "%d cases have this outcome", tally[name])
	}
	last := ""
	for name := range counts.Get("outcomes").Members() {
		s.holds(name > last, "/counts/outcomes", "counts.order", counts.Get("outcomes"), outcomes, "%s stands after %s: want the outcomes sorted", name, last)
		last = name
	}
	s.recomputed = append(s.recomputed, jsontree.Member{Name: "counts", Value: jsontree.Obj{
		{Name: "declared", Value: declared}, {Name: "outcomes", Value: outcomes}, {Name: "primary_passes", Value: primary},
	}})
}

func (s *servingCell) checkPerformance() {
	p := s.doc.Get("performance")
	low, high := p.Get("actual_input_tokens_min"), p.Get("actual_input_tokens_max")
	s.holds(low.Is(jsontree.Null) == high.Is(jsontree.Null), "/performance/actual_input_tokens_min", "performance.actual", low, nil, "both null when any usage is missing, else neither")
	least, ok1 := low.Int()
	most, ok2 := high.Int()
	s.holds(!ok1 || !ok2 || least <= most, "/performance/actual_input_tokens_max", "performance.actual", high, nil, "below the minimum of %d", least)
	peak, limit := p.Get("observed_peak_inflight"), p.Get("client_concurrency_limit")
	n, ok := peak.Int()
	k, ok2 := limit.Int()
	s.holds(!ok || !ok2 || n <= k, "/performance/observed_peak_inflight", "performance.peak", peak, nil, "above the client's limit of %d", k)
	s.checkTransport(p.Get("transport_successes"))
	s.checkBatch(k, ok2)
	s.checkPeakBasis(peak)
}

// checkTransport: what was graded was answered; what ran out of time or did not
// run was not.
func (s *servingCell) checkTransport(v jsontree.Value) {
	n, ok := v.Int()
	if !ok {
		return
	}
	graded, absent := int64(0), int64(0)
	for _, k := range s.cases {
		graded += one(k.outcome == "pass" || k.outcome == "fail")
		absent += one(k.outcome == "timeout" || k.outcome == "not_run")
	}
	s.holds(n >= graded && n <= int64(len(s.cases))-absent, "/performance/transport_successes", "performance.transport", v, nil,
		"%d cases were graded and %d had no answer in time, of %d", graded, absent, len(s.cases))
}

// checkBatch: the requests fit the batch at the client's limit.
func (s *servingCell) checkBatch(limit int64, ok bool) {
	batch := s.metric("batch_duration_seconds").Get("value")
	seconds := figureOf(batch)
	if !seconds.ok || !ok || len(s.durations) == 0 {
		return
	}
	sum, room := stat.Sum(s.durations)/1000, seconds.v*float64(limit)
	s.holds(sum <= room || near(sum, room), s.metricPointer("batch_duration_seconds")+"/value", "batch.in-flight", batch, nil,
		"requests lasted %.3f s in all, more than a limit of %d allows in %.3f s", sum, limit, seconds.v)
	slowest := s.durations[len(s.durations)-1] / 1000
	s.holds(slowest <= seconds.v || near(slowest, seconds.v), s.metricPointer("batch_duration_seconds")+"/value", "batch.slowest", batch, nil, "the slowest request took %.3f s", slowest)
}

func (s *servingCell) metricPointer(id string) string {
	for i, m := range s.doc.Get("metrics").Elems() {
		if m.Get("id").Str() == id {
			return jsontree.Index("/metrics", i)
		}
	}
	return "/metrics"
}

func (s *servingCell) checkPeakBasis(peak jsontree.Value) {
	for i, v := range s.doc.Get("conditions").Elems() {
		if v.Get("label").Str() != PeakOverlapLabel {
			continue
		}
		absent := strings.HasPrefix(v.Get("value").Str(), peakOverlapNotRecorded)
		s.holds(absent == peak.Is(jsontree.Null) || !peak.Exists(), jsontree.Index("/conditions", i)+"/value", "performance.peak-basis", v.Get("value"), nil,
			"says %q exactly when the peak is null", peakOverlapNotRecorded)
		return
	}
	if conditions := s.doc.Get("conditions"); conditions.Is(jsontree.Array) {
		s.problem("/conditions", "performance.peak-basis", conditions, nil, "no condition %q says what the peak stands on", PeakOverlapLabel)
	}
}

func (s *servingCell) checkMetrics() {
	witnessed := map[string]figure{
		"completion_median_ms": known(stat.Median(s.durations)),
		"completion_p95_ms":    known(stat.Linear(s.durations, 0.95)),
	}
	seen := map[string]bool{}
	var out []any
	for i, m := range s.doc.Get("metrics").Elems() {
		at, id := jsontree.Index("/metrics", i), m.Get("id").Str()
		s.holds(!seen[id], at+"/id", "metrics.unique", m.Get("id"), nil, "the id is used twice")
		seen[id] = true
		value, samples := m.Get("value"), m.Get("samples")
		n, ok := samples.Int()
		s.holds(!ok || n > 0 || value.Is(jsontree.Null), at+"/value", "metrics.no-samples", value, nil, "null when there are no samples")
		s.holds(!ok || !perCase(id) || n <= int64(len(s.cases)), at+"/samples", "metrics.samples", samples, nil, "more samples than the %d cases", len(s.cases))
		want, ok := witnessed[id]
		if !ok {
			continue
		}
		s.figureIs(at+"/value", "metrics.value", value, want, "of the %d durations, by linear interpolation, it is %v", len(s.durations), want.any())
		s.intIs(at+"/samples", "metrics.samples", samples, int64(len(s.durations)), "%d cases have a duration", len(s.durations))
		out = append(out, jsontree.Obj{{Name: "id", Value: id}, {Name: "samples", Value: len(s.durations)}, {Name: "value", Value: want.any()}})
	}
	s.recomputed = append(s.recomputed, jsontree.Member{Name: "metrics", Value: out})
	for _, m := range servingMetrics {
		v := s.metric(m.id)
		s.holds(v.Exists() || !s.doc.Get("metrics").Is(jsontree.Array), "/metrics", "metrics.missing", s.doc.Get("metrics"), m.id, "no metric %s", m.id)
		s.textIs(s.metricPointer(m.id)+"/unit", "metrics.unit", v.Get("unit"), m.unit, "the unit of %s", m.id)
	}
	s.checkMetricRelations()
}

// servingMetrics are those that every record of the kind has; of some no case
// gives more than one sample.
var servingMetrics = []struct {
	id, unit string
	perCase  bool
}{
	{"completion_throughput_tps", "tok/s", true},
	{"first_generated_median_ms", "ms", true},
	{"first_final_content_median_ms", "ms", true},
	{"completion_median_ms", "ms", true},
	{"completion_p95_ms", "ms", true},
	{"stream_chunk_interval_median_ms", "ms", false},
	{"batch_duration_seconds", "s", false},
}

func perCase(id string) bool {
	for _, m := range servingMetrics {
		if m.id == id {
			return m.perCase
		}
	}
	return false
}

// checkMetricRelations: nothing is negative, the throughput has what it is made
// of, and medians over the same requests keep the order of the moments.
func (s *servingCell) checkMetricRelations() {
	for _, m := range servingMetrics {
		stored := s.metric(m.id).Get("value")
		v := figureOf(stored)
		s.holds(!v.ok || v.v >= 0, s.metricPointer(m.id)+"/value", "metrics.sign", stored, nil, "negative")
	}
	batch := s.metric("batch_duration_seconds")
	s.checkThroughput(s.metric("completion_throughput_tps").Get("value"), batch)
	if n, ok := batch.Get("samples").Int(); !ok || n != 0 || !batch.Get("value").Is(jsontree.Null) { // none was timed
		s.intIs(s.metricPointer("batch_duration_seconds")+"/samples", "metrics.samples", batch.Get("samples"), 1, "there is one batch")
	}
	order := []string{"first_generated_median_ms", "first_final_content_median_ms", "completion_median_ms"}
	for i, low := range order {
		for _, high := range order[i+1:] {
			a, b := s.metric(low), s.metric(high)
			x, y := figureOf(a.Get("value")), figureOf(b.Get("value"))
			same := jsontree.Equal(a.Get("samples"), b.Get("samples"))
			s.holds(!x.ok || !y.ok || !same || x.v <= y.v, s.metricPointer(high)+"/value", "metrics.order", b.Get("value"), nil, "below %s (%v) over the same requests", low, x.v)
		}
	}
	basis := s.doc.At("performance", "stream_interval_basis").Str()
	interval := s.metric("stream_chunk_interval_median_ms").Get("value")
	s.holds(basis != "not_measured" || !interval.Is(jsontree.Number), "/performance/stream_interval_basis", "performance.interval", s.doc.At("performance", "stream_interval_basis"), nil, "an interval is stated")
}

// checkThroughput: it is a whole number of tokens over the batch, and null where
// the batch has no duration or a request no usage.
func (s *servingCell) checkThroughput(stored, batch jsontree.Value) {
	rate, at := figureOf(stored), s.metricPointer("completion_throughput_tps")+"/value"
	if !rate.ok {
		return
	}
	seconds := figureOf(batch.Get("value"))
	if seconds.ok {
		tokens := rate.v * seconds.v
		s.holds(near(tokens, math.Round(tokens)), at, "metrics.whole-tokens", stored, nil, "times the batch duration it gives %v tokens, which is no whole number", tokens)
	}
	s.holds(seconds.ok && seconds.v > 0 || s.withheld(batch), at, "metrics.incomplete", stored, nil, "stated without a duration of the batch to divide by")
	low, high := s.doc.At("performance", "actual_input_tokens_min"), s.doc.At("performance", "actual_input_tokens_max")
	s.holds(!low.Is(jsontree.Null) && !high.Is(jsontree.Null), at, "metrics.incomplete", stored, nil,
		"stated although the usage of a request is missing, as the null input tokens say")
}

// withheld tells whether a condition says that a figure was measured and is not
// stated, as anvil's records do of what a limitation voids.
func (s *servingCell) withheld(metric jsontree.Value) bool {
	for _, c := range s.doc.Get("conditions").Elems() {
		if metric.Get("value").Is(jsontree.Null) && c.Get("label").Str() == metric.Get("label").Str() && strings.HasPrefix(c.Get("value").Str(), "Withheld") {
			return true
		}
	}
	return false
}

func (s *servingCell) checkTexts() {
	fixed := ServingCellLimitations()
	own := s.doc.Get("limitations")
	seen := map[string]bool{}
	for i, v := range own.Elems() {
		at := jsontree.Index("/limitations", i)
		if i < len(fixed) {
			s.textIs(at, "limitations.fixed", v, fixed[i], "the kind's own limitation number %d", i+1)
		}
		s.holds(!seen[v.Str()], at, "limitations.unique", v, nil, "stated twice")
		seen[v.Str()] = true
	}
	s.holds(own.Len() >= len(fixed) || !own.Is(jsontree.Array), "/limitations", "limitations.fixed", own, nil, "%d of the kind's eight fixed limitations are there", own.Len())
	s.holds(s.doc.Get("evidence").Len() == 0, "/evidence", "evidence.empty", s.doc.Get("evidence"), nil, "empty in this kind")
	d := s.doc.Get("deployment")
	verified, _ := d.Get("weights_verified").Bool()
	s.holds(!verified || d.Get("revision").Str() != "", "/deployment/weights_verified", "deployment.verified", d.Get("weights_verified"), nil, "verified weights have a revision")
	s.checkSourceURL(d.Get("source_url"))
}

func (s *servingCell) checkSourceURL(v jsontree.Value) {
	if !v.Is(jsontree.String) {
		return
	}
	err := CheckSourceURL(v.Str())
	s.holds(err == nil, "/deployment/source_url", "deployment.source-url", v, nil, "%v", err)
}

// CheckSourceURL says why a serving cell may not name that page as the source
// of its model.
func CheckSourceURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil {
		return errors.New("want https, without query, fragment and credentials")
	}
	if !slices.Contains(sourceHosts, u.Host) {
		return fmt.Errorf("want a page of %s", strings.Join(sourceHosts, " or "))
	}
	return nil
}
