package record

import (
	"iter"
	"slices"
	"unicode/utf8"
)

// A Following is what the attempts of one phase say under the kinds of other
// producers: the rows of benchmark.json or of live-http-run.json, which follow
// from the attempts and the measurement alone (contracts.md 2).
type Following struct {
	Rows     []BenchmarkRow     // closed loop: answers with visible content
	Failures []BenchmarkFailure // closed loop: the rest
	Shed     int                // open loop: requests that the client dropped; they have no row
	LastEnd  int64              // of any request, ns from the phase's start

	live []indexedLive
}

type indexedLive struct {
	index int
	LiveRequest
}

// noContent is what both kinds say of an answer that ended well without
// anything visible.
const noContent = "stream completed without visible content"

// Add takes an attempt of a closed or of an open loop, in any order.
func (f *Following) Add(a *Attempt, closed bool) {
	if a.T.End != nil {
		f.LastEnd = max(f.LastEnd, *a.T.End)
	}
	if !closed {
		f.addLive(a)
		return
	}
	row := rowOf(a)
	if a.Outcome.Success() && row.TTFTMS != nil {
		f.Rows = append(f.Rows, row)
		return
	}
	f.Failures = append(f.Failures, failureOf(a, row))
}

// Live yields the rows of an open loop in order of arrival, each after the
// index of its request.
func (f *Following) Live() iter.Seq2[int, LiveRequest] {
	slices.SortFunc(f.live, func(a, b indexedLive) int { return a.index - b.index })
	return func(yield func(int, LiveRequest) bool) {
		for _, r := range f.live {
			if !yield(r.index, r.LiveRequest) {
				return
			}
		}
	}
}

// Requests returns the rows that Live yields.
func (f *Following) Requests() []LiveRequest {
	var out []LiveRequest
	for _, r := range f.Live() {
		out = append(out, r)
	}
	return out
}

// sinceStart is the time from the start of the request, ms.
func sinceStart(a *Attempt, at *int64) *float64 {
	if at == nil || a.T.Start == nil {
		return nil
	}
	return new(float64(*at-*a.T.Start) / 1e6)
}

func rowOf(a *Attempt) BenchmarkRow {
	row := BenchmarkRow{
		Index: a.Index, PromptTokens: a.Usage.Input, OutputTokens: a.Usage.Output, CachedTokens: a.Usage.Cached,
		FirstOutputMS: sinceStart(a, a.T.FirstOutput), TTFTMS: sinceStart(a, a.T.FirstContent),
		VisibleContentTruncated: a.TextTruncated, Canary: a.Canary, ControlledOutput: a.ControlledOutput,
	}
	if a.PlannedInputTokens != nil {
		row.PlannedContextTokens = *a.PlannedInputTokens
	}
	if e2e := sinceStart(a, a.T.End); e2e != nil {
		row.E2EMS = *e2e
	}
	for _, kind := range a.ArrivalKinds {
		switch kind {
		case 'r':
			row.ReasoningChunks++
		case 'c':
			row.ContentChunks++
		}
	}
	return row
}

// failureOf books an attempt by the table of streams.md 5.
func failureOf(a *Attempt, row BenchmarkRow) BenchmarkFailure {
	f := BenchmarkFailure{Index: a.Index, PlannedContextTokens: row.PlannedContextTokens, ElapsedMS: row.E2EMS, ErrorType: string(a.Outcome)}
	if a.Error != nil {
		f.ErrorMessage = a.Error.Message
	}
	received := false
	switch a.Outcome {
	case OutcomeOK, OutcomeTruncated, OutcomeEmpty:
		f.Class, f.ErrorMessage, received = "stream_validation_failed", noContent, true
	case OutcomeInBandError, OutcomeMalformed, OutcomeCut:
		f.Class = "stream_validation_failed"
	case OutcomeCanaryFailed:
		f.Class, received = "request_canary_failed", true
	case OutcomeLengthMismatch:
		f.Class, received = "controlled_output_failed", true
	case OutcomeClientShed, OutcomeClientAbort, OutcomeNotStarted:
		f.Class = "runner_error"
	default:
		f.Class = "request_error"
	}
	if received {
		f.Answer = &BenchmarkAnswer{Timing: row, FinishReasons: a.FinishReasons, TerminalObserved: a.DoneMarker}
	}
	return f
}

func (f *Following) addLive(a *Attempt) {
	if a.Outcome == OutcomeClientShed {
		f.Shed++
		return
	}
	row := indexedLive{index: a.Index}
	if e2e := sinceStart(a, a.T.End); e2e != nil {
		row.E2EMS = *e2e
	}
	ttft := sinceStart(a, a.T.FirstContent)
	switch {
	case a.Outcome.Success() && ttft != nil:
		row.TTFTMS, row.Text, row.EventGapsMS = *ttft, a.Text, contentGaps(a)
	case a.Outcome.Success():
		row.Error = noContent
	case a.Error != nil:
		row.Error = cutMessage(string(a.Outcome) + ": " + a.Error.Message)
	default:
		row.Error = string(a.Outcome)
	}
	f.live = append(f.live, row)
}

// contentGaps are the times between events with visible content, ms.
func contentGaps(a *Attempt) []float64 {
	var gaps []float64
	at, before := int64(0), int64(-1)
	for i, kind := range a.ArrivalKinds {
		if i >= len(a.Arrivals) {
			break // the check of the attempts names it
		}
		at += a.Arrivals[i]
		if kind != 'c' {
			continue
		}
		if before >= 0 {
			gaps = append(gaps, float64(at-before)/1e6)
		}
		before = at
	}
	return gaps
}

// cutMessage keeps a message bounded at a rune's end.
func cutMessage(s string) string {
	const most = 2048
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for len(s) > 0 && !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}
