package record

import (
	"math"
	"sort"
	"strings"

	"anvil/stages/internal/jsontree"
	"anvil/stages/internal/stat"
)

// A capacityDistribution is one of the eleven of records.md 2.5.
type capacityDistribution struct {
	prefix, unit string
	figure       func(*capacityRow) figure
	first        bool // exists only where rows know their first output
}

var capacityDistributions = []capacityDistribution{
	{"time_to_first_output", "_ms", func(r *capacityRow) figure { return r.first }, true},
	{"ttft", "_ms", func(r *capacityRow) figure { return r.ttft }, false},
	{"e2e", "_ms", func(r *capacityRow) figure { return r.e2e }, false},
	{"generation", "_ms", func(r *capacityRow) figure { return r.generation }, false},
	{"tpot", "_ms", func(r *capacityRow) figure { return r.tpot }, false},
	{"mean_time_per_output_token", "_ms", func(r *capacityRow) figure { return r.tpot }, false},
	{"mean_inter_token_latency_ms", "", func(r *capacityRow) figure { return r.tpot }, false},
	{"effective_prefill_tok_s", "", func(r *capacityRow) figure { return r.prefill }, false},
	{"decode_tok_s", "", func(r *capacityRow) figure { return r.decode }, false},
	{"prompt_tokens", "", func(r *capacityRow) figure { return r.prompt.figure }, false},
	{"completion_tokens", "", func(r *capacityRow) figure { return r.output.figure }, false},
}

// metricSet is the metrics of a cell by name: nil, int64 (the digits of a sum
// that no int64 holds), float64, bool or Obj.
type metricSet map[string]any

func (m metricSet) setDistribution(d capacityDistribution, xs []float64) {
	s := stat.Describe(xs)
	m[d.prefix+"_samples"] = int64(s.N)
	for name, v := range map[string]float64{
		"mean": s.Mean, "stddev": s.StdDev, "mean_ci95_low": s.CI95Low, "mean_ci95_high": s.CI95High, "min": s.Min, "p25": s.P25,
		"p50": s.P50, "p75": s.P75, "p90": s.P90, "p95": s.P95, "p99": s.P99, "max": s.Max,
	} {
		m[d.prefix+"_"+name+d.unit] = known(v).any()
	}
}

// capacityMetrics computes all metrics that rows witness. Every sum is over
// completed requests.
func capacityMetrics(rows []capacityRow, wall figure, complete bool) metricSet {
	m := metricSet{}
	for _, d := range capacityDistributions {
		var xs []float64
		for i := range rows {
			if f := d.figure(&rows[i]); f.ok {
				xs = append(xs, f.v)
			}
		}
		m.setDistribution(d, xs)
	}
	m.setTokens(rows)
	m.setContract(rows)
	tokens, chunks := sumFigure(m["output_tokens"]), sumFigure(m["content_chunks"])
	eligible := complete && tokens.ok && wall.ok && wall.v > 0
	m["throughput_performance_eligible"] = eligible
	m["throughput_tok_s"], m["content_chunks_s"] = nil, nil
	if eligible {
		m["throughput_tok_s"] = Throughput(tokens.v, wall.v)
	}
	if complete && !tokens.ok && wall.ok && wall.v > 0 {
		m["content_chunks_s"] = Throughput(chunks.v, wall.v)
	}
	return m
}

// sumFigure is a sum of the set for formulas: absent when it is null.
func sumFigure(sum any) figure {
	switch n := sum.(type) {
	case int64:
		return known(float64(n))
	case jsontree.Value: // no int64 holds it
		return figureOf(n)
	}
	return figure{}
}

func (m metricSet) setTokens(rows []capacityRow) {
	var prompt, output, chunks, reasoning total
	known, all := int64(0), true
	sources := map[string]int64{}
	for i := range rows {
		r := &rows[i]
		if r.prompt.ok {
			prompt.add(r.prompt.n)
			known++
		}
		output.add(r.output.n)
		all = all && r.output.ok
		chunks.add(r.content.n)
		reasoning.add(r.reasoning.n)
		source := "content_chunks"
		if r.usage {
			source = "usage"
		}
		sources[source]++
	}
	m["prompt_tokens"], m["output_tokens"] = nil, nil
	if known > 0 {
		m["prompt_tokens"] = prompt.any()
	}
	if all {
		m["output_tokens"] = output.any()
	}
	m["prompt_token_samples"] = known
	m["content_chunks"], m["reasoning_chunks"] = chunks.any(), reasoning.any()
	bySource := jsontree.Obj{}
	for name, n := range sources {
		bySource = append(bySource, jsontree.Member{Name: name, Value: n})
	}
	m["output_token_sources"] = bySource.Sorted()
}

func (m metricSet) setContract(rows []capacityRow) {
	var canaries, passed, controlled, exact, unseen int64
	for i := range rows {
		r := &rows[i]
		canaries += one(r.canary)
		passed += one(r.canary && r.canaryPassed)
		controlled += one(r.controlled)
		exact += one(r.controlled && r.exact)
		unseen += one(r.unseen)
	}
	m["request_canary_samples"], m["request_canary_passed"] = canaries, passed
	m["controlled_output_samples"], m["controlled_output_exact_adherence"], m["controlled_output_unobservable"] = controlled, exact, unseen
	m["controlled_output_exact_adherence_rate"] = nil
	if seen := controlled - unseen; seen > 0 {
		m["controlled_output_exact_adherence_rate"] = float64(exact) / float64(seen)
	}
}

func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (b *capacityCell) checkMetrics() {
	stored := b.doc.Get("metrics")
	if !stored.Is(jsontree.Object) {
		return
	}
	b.checkMetricRelations(stored)
	if !b.hasRows {
		b.recomputed = append(b.recomputed, jsontree.Member{Name: "metrics", Value: jsontree.Obj{}})
		return
	}
	computed := capacityMetrics(b.rows, b.wall, b.eligible())
	b.metrics = computed
	b.adjustForShape(computed)
	for name, v := range stored.Members() {
		if want, ok := computed[name]; ok {
			b.metricIs(name, v, want)
		} else {
			b.unwitnessed(name)
		}
	}
	// All that the rows witness, also where an older shape did not state it.
	b.recomputed = append(b.recomputed, jsontree.Member{Name: "metrics", Value: map[string]any(computed)})
}

// adjustForShape applies the rules that older shapes had for the same names.
func (b *capacityCell) adjustForShape(m metricSet) {
	if b.shape == ShapeNewest {
		return
	}
	if m["output_tokens"] == nil {
		delete(m, "content_chunks_s") // how it was computed is not known, only that it stands for unknown tokens
	}
	for name := range m {
		if strings.HasPrefix(name, "request_canary_") || strings.HasPrefix(name, "controlled_output_") || name == "throughput_performance_eligible" {
			delete(m, name)
		}
		if !b.first && (strings.HasPrefix(name, "time_to_first_output_") || name == "content_chunks" || name == "reasoning_chunks") {
			delete(m, name) // rows do not have it
		}
	}
	if tokens := sumFigure(m["output_tokens"]); tokens.ok && b.wall.ok && b.wall.v > 0 {
		m["throughput_tok_s"] = Throughput(tokens.v, b.wall.v) // of any population
	}
}

func (b *capacityCell) unwitnessed(name string) {
	switch name {
	case "prefix_cache_hit_avg", "content_chunks", "content_chunks_s":
		return // no row holds what it is computed from
	}
	b.note("/metrics/"+name, "metrics.unknown", "no metric of this name is known; it was not checked")
}

func (b *capacityCell) metricIs(name string, v jsontree.Value, want any) {
	pointer := "/metrics/" + name
	const how = "recomputed from the rows"
	switch w := want.(type) {
	case nil:
		b.figureIs(pointer, "metrics.value", v, figure{}, "%s it is null", how)
	case int64:
		b.intIs(pointer, "metrics.value", v, w, "%s it is %d", how, w)
	case jsontree.Value:
		b.holds(!wants(v, jsontree.Number, jsontree.Null), pointer, "metrics.value", v, w, "%s it is %s, which no int64 holds", how, w.Raw())
	case bool:
		b.boolIs(pointer, "metrics.value", v, w, "true exactly when every request completed, all tokens are known and the wall clock is positive")
	case float64:
		b.figureIs(pointer, "metrics.value", v, known(w), "%s it is %v", how, w)
		if raw := string(v.Raw()); v.Is(jsontree.Number) && !strings.ContainsAny(raw, ".eE") {
			b.note(pointer, "metrics.number-text", "written %s without a point, as no producer of these records does: it was rewritten by another tool", raw)
		}
	case jsontree.Obj:
		b.sourcesAre(pointer, v, w)
	}
}

func (b *capacityCell) sourcesAre(pointer string, v jsontree.Value, want jsontree.Obj) {
	if !v.Is(jsontree.Object) {
		return
	}
	for name, n := range v.Members() {
		w, _ := want.Get(name).(int64)
		b.intIs(pointer+"/"+name, "metrics.value", n, w, "%d rows have this source", w)
	}
	for _, m := range want {
		b.holds(v.Get(m.Name).Exists(), pointer+"/"+m.Name, "metrics.value", jsontree.Value{}, m.Value, "%v rows have this source", m.Value)
	}
}

// checkMetricRelations holds without rows too: order of percentiles, ttft
// within e2e, counts that must agree.
func (b *capacityCell) checkMetricRelations(m jsontree.Value) {
	value := func(name string) figure { return figureOf(m.Get(name)) }
	ordered := func(low, high string) {
		l, h := value(low), value(high)
		b.holds(!l.ok || !h.ok || l.v <= h.v, "/metrics/"+high, "metrics.order", m.Get(high), nil, "below %s, which is %v", low, l.v)
	}
	for _, q := range []string{"p50", "p95"} {
		ordered("ttft_"+q+"_ms", "e2e_"+q+"_ms")
		ordered("time_to_first_output_"+q+"_ms", "ttft_"+q+"_ms")
	}
	for _, d := range capacityDistributions {
		ordered(d.prefix+"_p50"+d.unit, d.prefix+"_p95"+d.unit)
	}
	if b.hasRows {
		return
	}
	sources := m.Get("output_token_sources")
	if sources.Is(jsontree.Object) {
		sum := tallied(sources)
		b.holds(sum.is(b.completed), "/metrics/output_token_sources", "metrics.sources", sources, nil, "%v answers have a source, %d completed", sum, b.completed)
	}
	b.checkChunkRate(m)
	b.intIs("/metrics/ttft_samples", "metrics.samples", m.Get("ttft_samples"), b.completed, "every completed request has a ttft")
	for _, name := range []string{"throughput_tok_s", "output_tokens", "ttft_p50_ms", "e2e_p50_ms"} {
		v := value(name)
		b.holds(!v.ok || v.v >= 0 && !math.IsInf(v.v, 0), "/metrics/"+name, "metrics.sign", m.Get(name), nil, "negative")
	}
}

// checkChunkRate: a rate of chunks stands for one of tokens, where these are not
// all known.
func (b *capacityCell) checkChunkRate(m jsontree.Value) {
	unknown, _ := m.At("output_token_sources", "content_chunks").Int()
	rate := m.Get("content_chunks_s")
	b.holds(!m.Get("output_tokens").Is(jsontree.Number) || unknown > 0 || !rate.Is(jsontree.Number), "/metrics/content_chunks_s", "metrics.chunk-rate", rate, nil,
		"stated only when tokens are unknown, and all of them are known")
}

// p99Samples are the distributions whose p99 the population explains.
var p99Samples = []string{"decode_tok_s", "e2e", "effective_prefill_tok_s", "tpot", "ttft"}

// p99Floor is the count below which a p99 is descriptive only.
const p99Floor = 100

// P99Interpretation is the word for a p99 of n samples.
func P99Interpretation(n int) string {
	if n >= p99Floor {
		return "tail-estimate"
	}
	return "descriptive-nearest-rank-only"
}

func (b *capacityCell) checkPopulation() {
	p := b.doc.Get("metric_population")
	if b.shape != ShapeNewest || !p.Is(jsontree.Object) || !b.hasRows || b.metrics == nil {
		return
	}
	const at = "/metric_population"
	completed, failed := int64(len(b.rows)), int64(len(b.failures))
	out := jsontree.Obj{}
	count := func(name string, want int64, how string) {
		out = append(out, jsontree.Member{Name: name, Value: want})
		b.intIs(at+"/"+name, "population.count", p.Get(name), want, "%s, which is %d", how, want)
	}
	metrics := b.metrics
	eligible, _ := metrics["throughput_performance_eligible"].(bool)
	out = append(out, jsontree.Member{Name: "aggregate_throughput_eligible", Value: eligible})
	b.boolIs(at+"/aggregate_throughput_eligible", "population.eligible", p.Get("aggregate_throughput_eligible"), eligible,
		"true exactly when every request completed, all tokens are known and the wall clock is positive")
	count("attempted_requests", completed+failed, "the count of requests")
	count("excluded_requests", failed, "the count of failures")
	count("performance_eligible_requests", completed, "the count of rows")
	count("successful_requests", completed, "the count of rows")
	least := int64(math.MaxInt64)
	for _, name := range p99Samples {
		n, _ := metrics[name+"_samples"].(int64)
		least = min(least, n)
		b.intIs(at+"/p99_samples_by_metric/"+name, "population.p99-samples", p.At("p99_samples_by_metric", name), n, "the samples of the metric, %d", n)
		word := P99Interpretation(int(n))
		b.textIs(at+"/p99_interpretation_by_metric/"+name, "population.p99-word", p.At("p99_interpretation_by_metric", name), word, "%d samples make it a %s", n, word)
	}
	// The overall word follows the population; where a metric has fewer samples,
	// the more careful word is right as well.
	word := p.Get("p99_interpretation")
	if word.Str() != P99Interpretation(int(least)) {
		b.textIs(at+"/p99_interpretation", "population.p99-word", word, P99Interpretation(len(b.rows)), "%d completed requests", len(b.rows))
	}
	b.recomputed = append(b.recomputed, jsontree.Member{Name: "metric_population", Value: out})
	sort.SliceStable(b.recomputed, func(i, j int) bool { return b.recomputed[i].Name != "metrics" && b.recomputed[j].Name == "metrics" })
}
