package derive

import (
	"cmp"
	"fmt"
	"slices"

	"anvil/stages/record"
)

// Objectives are the goals of the service; nil: none.
type Objectives struct {
	TTFTMS *float64 `json:"ttft_ms"`
	TPOTMS *float64 `json:"tpot_ms"`
	E2EMS  *float64 `json:"e2e_ms"`
}

// A tally takes in the attempts of one cell, one at a time in any order, and
// keeps what the figures need of them: not the texts, not the rows.
type tally struct {
	objectives Objectives

	outcomes map[record.Outcome]int
	planned  int
	series   []series // as figures
	gaps     series
	gapped   int // successful requests with a gap

	cases    []record.Case
	prefill  []record.PrefillRate // of the requests that show one
	uncached map[int64]bool       // requests of which the server says that no token was cached

	models map[string]int // named by answers
	silent int            // successful answers that name no model

	retried int // requests with more than one try

	spans   []record.Span // of the requests that began and ended
	began   int
	open    int // began, but start or end is unknown
	lastEnd int64

	tokensIn, tokensOut, tokensReasoning counter
	cached                               []float64
	events, sharedEvents, withEvents     int
	sharedFirst                          int            // successes whose first output shares its arrival
	met                                  map[string]int // objective to requests that met it
	words                                adherence
}

// A counter sums what some requests report.
type counter struct {
	sum      int64
	requests int
}

func (c *counter) add(n *int64) {
	if n != nil {
		c.sum += *n
		c.requests++
	}
}

func newTally(o Objectives) *tally {
	return &tally{
		objectives: o, outcomes: map[record.Outcome]int{}, series: make([]series, len(figures)),
		models: map[string]int{}, met: map[string]int{}, cases: []record.Case{},
	}
}

func (t *tally) add(a *record.Attempt) {
	t.planned++
	t.outcomes[a.Outcome]++
	t.cases = append(t.cases, record.Case{Item: a.Item, Index: a.Index, Outcome: a.Outcome})
	t.addSpan(a.T)
	t.words.add(a)
	if len(a.Tries) > 1 {
		t.retried++
	}
	if !a.Outcome.Success() {
		return
	}
	for i, f := range figures {
		t.series[i].add(f, a)
	}
	before := len(t.gaps.ns)
	if t.gaps.ns = appendGaps(t.gaps.ns, a); len(t.gaps.ns) > before {
		t.gapped++
	}
	if rate, ok := effectivePrefill(a); ok {
		t.prefill = append(t.prefill, record.PrefillRate{Index: int64(a.Index), TokensPerS: rate})
	}
	t.addModel(a.Model)
	t.addTokens(a)
	t.addObjectives(a)
}

func (s *series) add(f figure, a *record.Attempt) {
	if f.duration != nil {
		if ns, ok := f.duration(a); ok {
			s.ns = append(s.ns, ns)
		}
		return
	}
	if x, ok := f.number(a); ok {
		s.numbers = append(s.numbers, x)
	}
}

func (t *tally) addSpan(s record.Stamps) {
	if s.End != nil {
		t.lastEnd = max(t.lastEnd, *s.End)
	}
	switch {
	case s.Start == nil:
		if s.End != nil || s.Sent != nil {
			t.began, t.open = t.began+1, t.open+1
		}
	case s.End == nil:
		t.began, t.open = t.began+1, t.open+1
	default:
		t.began++
		t.spans = append(t.spans, record.Span{Start: *s.Start, End: *s.End})
	}
}

func (t *tally) addModel(name *string) {
	if name == nil {
		t.silent++
		return
	}
	t.models[*name]++
}

func (t *tally) addTokens(a *record.Attempt) {
	u := a.Usage
	t.tokensIn.add(u.Input)
	t.tokensOut.add(u.Output)
	t.tokensReasoning.add(u.Reasoning)
	if u.Cached != nil && *u.Cached == 0 {
		if t.uncached == nil {
			t.uncached = map[int64]bool{}
		}
		t.uncached[int64(a.Index)] = true
	}
	if u.Cached != nil && u.Input != nil && *u.Input > 0 {
		t.cached = append(t.cached, float64(*u.Cached)/float64(*u.Input))
	}
	if len(a.Arrivals) > 0 {
		t.withEvents++
	}
	if shared(a, 0) {
		t.sharedFirst++
	}
	t.events += len(a.Arrivals)
	for i := range a.Arrivals {
		if shared(a, i) {
			t.sharedEvents++
		}
	}
}

// addObjectives counts by the stamps as they are: an arrival that is shared is
// an upper bound, and what meets an objective by its upper bound meets it.
func (t *tally) addObjectives(a *record.Attempt) {
	within := func(goal *float64, ms float64, ok bool) bool { return goal == nil || ok && ms <= *goal }
	ttft, hasTTFT := span(a.T.Start, a.T.FirstContent)
	e2e, hasE2E := span(a.T.Start, a.T.End)
	tpot, hasTPOT := timePerOutputToken(a)
	results := []struct {
		name string
		met  bool
	}{
		{"ttft", within(t.objectives.TTFTMS, float64(ttft)/nsPerMS, hasTTFT)},
		{"tpot", within(t.objectives.TPOTMS, tpot, hasTPOT)},
		{"e2e", within(t.objectives.E2EMS, float64(e2e)/nsPerMS, hasE2E)},
	}
	all := true
	for _, r := range results {
		if r.met {
			t.met[r.name]++
		}
		all = all && r.met
	}
	if all {
		t.met["all"]++
	}
}

func (t *tally) succeeded() int {
	return t.outcomes[record.OutcomeOK] + t.outcomes[record.OutcomeTruncated]
}

// finish sorts what came in order of completion.
func (t *tally) finish() error {
	for i := range t.series {
		t.series[i].sort()
	}
	t.gaps.sort()
	slices.SortFunc(t.cases, func(a, b record.Case) int { return cmp.Compare(a.Index, b.Index) })
	for i, c := range t.cases {
		if c.Index != i {
			return fmt.Errorf("the attempts are not the planned requests 0 to %d once each: at place %d stands index %d", t.planned-1, i, c.Index)
		}
	}
	return nil
}

func (t *tally) busy() int64 {
	var sum int64
	for _, s := range t.spans {
		sum += s.End - s.Start
	}
	return sum
}
