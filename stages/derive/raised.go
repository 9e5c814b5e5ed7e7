package derive

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// raised are the limitations that the evidence shows. Those that measure raises
// too are added only where its own are not in the set, as for imported attempts.
func raised(f facts, cells []*cell) []stage.Limitation {
	var out []stage.Limitation
	if len(f.weights) == 0 || slices.ContainsFunc(f.weights, func(w weightFacts) bool { return !w.OK }) {
		out = append(out, stage.Limit("weights.unverified"))
	}
	if !repeated(cells) {
		out = append(out, stage.Limit("samples.one-repetition"))
	}
	out = append(out, fewSamples(cells)...)
	for _, c := range cells {
		out = append(out, c.unsaid()...)
		out = append(out, c.warmRows()...)
	}
	return out
}

// repeated tells whether any cell has a twin that differs in its repetition alone.
func repeated(cells []*cell) bool {
	seen := map[string]bool{}
	for _, c := range cells {
		point := fmt.Sprint(sortedAxes(c.out.Axes))
		if seen[point] {
			return true
		}
		seen[point] = true
	}
	return false
}

// A scarcity is a count of samples and the statistics that it is too small for.
type scarcity struct {
	samples                  int
	ids, statistics, figures []string
	cells                    []string // that have it
}

// fewSamples names the statistics that were withheld, and of several cells those
// that it happened to.
func fewSamples(cells []*cell) []stage.Limitation {
	var all []*scarcity
	for _, c := range cells {
		for _, s := range c.scarcities() {
			i := slices.IndexFunc(all, func(o *scarcity) bool { return o.samples == s.samples && slices.Equal(o.ids, s.ids) })
			if i < 0 {
				i, all = len(all), append(all, s)
			}
			all[i].cells = append(all[i].cells, c.attempts.Stage)
		}
	}
	var out []stage.Limitation
	for _, s := range all {
		names := strings.Join(s.statistics, ", ") + " of " + strings.Join(s.figures, ", ")
		if len(cells) > 1 {
			names += " in " + listed(s.cells)
		}
		out = append(out, stage.Limit("samples.few", "samples", s.samples, "metrics", names).For(s.ids...))
	}
	return out
}

// scarcities are those of one cell by count of samples.
func (c *cell) scarcities() []*scarcity {
	groups := map[int]*scarcity{}
	for i, row := range Metrics() {
		m := c.metrics[i]
		percent, quantile := percentOf(row.Statistic)
		if !quantile || m.Samples == 0 || m.Samples >= Need(percent) {
			continue
		}
		g := groups[m.Samples]
		if g == nil {
			g = &scarcity{samples: m.Samples}
			groups[m.Samples] = g
		}
		g.ids = append(g.ids, row.ID)
		g.statistics = appendNew(g.statistics, row.Statistic)
		g.figures = appendNew(g.figures, row.Figure)
	}
	out := slices.Collect(maps.Values(groups))
	slices.SortFunc(out, func(a, b *scarcity) int { return cmp.Compare(a.samples, b.samples) })
	return out
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// unsaid are limitations that the attempts show and their set does not bear.
func (c *cell) unsaid() []stage.Limitation {
	var out []stage.Limitation
	say := func(when bool, code string, facts ...any) {
		if when && !c.has(code) {
			out = append(out, stage.Limit(code, facts...))
		}
	}
	t := c.tally
	failed := t.planned - t.succeeded()
	say(c.simulated(), "engine.simulated")
	say(c.header.Stamps == "user", "stamps.user-space")
	say(failed > 0, "requests.failed", "count", failed, "planned", t.planned, "classes", record.Failures(t.outcomes))
	say(t.retried > 0, "requests.retried", "count", t.retried, "planned", t.planned)
	cut := t.outcomes[record.OutcomeTruncated]
	say(cut > 0, "outputs.truncated", "count", cut, "planned", t.planned)
	uncounted := t.succeeded() - t.tokensOut.requests
	say(uncounted > 0, "usage.missing", "count", uncounted, "planned", t.planned)
	shed := t.outcomes[record.OutcomeClientShed]
	say(shed > 0, "load.shed", "count", shed, "planned", t.planned)
	canary := t.outcomes[record.OutcomeCanaryFailed]
	say(canary > 0, "canary.failed", "count", canary, "planned", t.planned)
	// streams.md 3: above 1% of the requests it is the client that was late.
	say(t.sharedFirst*100 > t.succeeded(), "client.lag", "why",
		fmt.Sprintf("the first output of %d of %s shares its arrival with later output", t.sharedFirst, plural(t.succeeded(), "successful request")))
	asked := c.header.Endpoint.Model
	names := sortedKeys(t.models)
	others := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == asked })
	say(len(others) > 0 && asked != "", "model.name-differs", "answered", strings.Join(others, ", "), "asked", asked)
	return out
}

// maxNamed is how many requests or cells a limitation names one by one.
const maxNamed = 32

func listed(all []string) string {
	text := strings.Join(all[:min(len(all), maxNamed)], ", ")
	if more := len(all) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// warmRows names the requests whose prompts were probably cached: what they
// show of the time before the first output is not the engine's prefill.
func (c *cell) warmRows() []stage.Limitation {
	const code = "cache.warm-rows"
	warm, _ := record.WarmRows(c.tally.prefill)
	// One that waited for a slot makes the rest look fast: what the server counted
	// as uncached was not cached.
	warm = slices.DeleteFunc(warm, func(index int64) bool { return c.tally.uncached[index] })
	if len(warm) == 0 || c.has(code) {
		return nil
	}
	requests := listed(mapOf(warm, func(index int64) string { return fmt.Sprint(index) }))
	return []stage.Limitation{stage.Limit(code, "requests", requests+" of "+c.attempts.Stage).For(prefillMetrics()...)}
}

// prefillMetrics are the metrics that a cached prompt flatters.
func prefillMetrics() []string {
	var ids []string
	for _, row := range Metrics() {
		switch row.Figure {
		case "time_to_first_output", "ttft", "effective_prefill":
			ids = append(ids, row.ID)
		}
	}
	return ids
}
