package derive

import (
	"strings"

	"anvil/stages/record"
)

// seen is what the attempts of a phase say of the phase itself.
type seen struct {
	outcomes map[record.Outcome]int
	due      map[int]int64 // by index, of the first try of each
	lags     []int64       // start less due, of the first tries
	spans    []record.Span

	events, coalesced        int
	withEvents, sharedFirsts int // attempts with output; of them, those whose first shares its arrival
	answered, withoutUsage   int // successes; of them, those whose output is not counted
	canaryFailed, counted    int
	otherModel               bool
}

func newSeen() seen {
	return seen{outcomes: map[record.Outcome]int{}, due: map[int]int64{}}
}

func (s *seen) add(a *record.Attempt, model string) {
	s.outcomes[a.Outcome]++
	first := a.T
	if len(a.Tries) > 0 {
		first = a.Tries[0].T // a further try is the plan's, no lag of the client's
	}
	if first.Due != nil {
		s.due[a.Index] = *first.Due
		if first.Start != nil {
			s.lags = append(s.lags, *first.Start-*first.Due)
		}
	}
	if a.T.Start != nil && a.T.End != nil {
		s.spans = append(s.spans, record.Span{Start: *a.T.Start, End: *a.T.End})
	}
	s.addEvents(a)
	if a.Outcome.Success() {
		s.answered++
		if a.Usage.Output == nil {
			s.withoutUsage++
		}
	}
	if a.Canary != nil && !a.Canary.Passed {
		s.canaryFailed++
	}
	if a.EngineTokens != nil {
		s.counted++
	}
	s.otherModel = s.otherModel || a.Model != nil && *a.Model != model
}

func (s *seen) addEvents(a *record.Attempt) {
	s.events += len(a.ArrivalKinds)
	s.coalesced += strings.Count(a.Coalesced, "1")
	if a.Coalesced != "" {
		s.withEvents++
		if a.Coalesced[0] == '1' {
			s.sharedFirsts++
		}
	}
}

// coalescedShare is null without events: nothing was observed.
func (s *seen) coalescedShare() *float64 {
	if s.events == 0 {
		return nil
	}
	return new(float64(s.coalesced) / float64(s.events))
}

func (s *seen) planned() int {
	n := 0
	for _, count := range s.outcomes {
		n += count
	}
	return n
}

// allOutcomes has those of which there were none too.
func (s *seen) allOutcomes() map[record.Outcome]int {
	out := map[record.Outcome]int{}
	for _, o := range record.Outcomes() {
		out[o] = s.outcomes[o]
	}
	return out
}
