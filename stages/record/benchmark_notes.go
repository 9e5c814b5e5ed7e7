package record

import (
	"fmt"
	"strings"

	"anvil/stages/internal/jsontree"
)

func (b *capacityCell) addNotes() {
	b.noteWarm()
	b.noteCap()
	n := len(b.rows)
	if b.shape == ShapeNewest && n > 0 && n < p99Floor {
		b.note("/metrics", "p99.few-samples", "%d samples: every p99 is one order statistic and describes this cell only; %d are recommended", n, p99Floor)
	}
	if n == 1 {
		b.note("/request_timings", "samples.one", "one row: deviations of 0.0 and intervals of no width say nothing about spread")
	}
	throughput := b.doc.At("metrics", "throughput_tok_s")
	if b.shape != ShapeNewest && b.failed > 0 && throughput.Is(jsontree.Number) {
		b.note("/metrics/throughput_tok_s", "throughput.partial", "stated for %d of %d requests, as was the rule until August 2026: the wall clock holds the failures, the tokens do not", b.completed, b.requests)
	}
	if share := figureOf(b.doc.At("metrics", "prefix_cache_hit_avg")); share.ok && share.v > 0 {
		b.note("/metrics/prefix_cache_hit_avg", "cache.hits", "on average %.1f%% of a prompt came from the cache", 100*share.v)
	}
	b.noteUnknown()
}

func (b *capacityCell) noteWarm() {
	var rates []PrefillRate
	for i := range b.rows {
		if r := &b.rows[i]; r.prefill.ok {
			rates = append(rates, PrefillRate{r.index, r.prefill.v})
		}
	}
	warm, median := WarmRows(rates)
	if len(warm) == 0 {
		return
	}
	names := make([]string, len(warm))
	for i, index := range warm {
		names[i] = fmt.Sprint(index)
	}
	b.note("/request_timings", "cache.warm-rows", "requests %s were prefilled at least %d times as fast as the median of %.0f tokens/s: their prompts were probably cached", strings.Join(names, ", "), WarmFactor, median)
}

func (b *capacityCell) noteCap() {
	limit, ok := b.doc.Get("max_tokens").Int()
	if !ok {
		return
	}
	cut := 0
	for i := range b.rows {
		if r := &b.rows[i]; r.output.ok && r.output.v >= float64(limit) {
			cut++
		}
	}
	if cut > 0 {
		b.note("/request_timings", "outputs.at-cap", "%d of %d outputs reached the cap of %d tokens: they were cut, and their length is the cap's", cut, len(b.rows), limit)
	}
}
