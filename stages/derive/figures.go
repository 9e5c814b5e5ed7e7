package derive

import (
	"anvil/stages/record"
)

// A figure is what one successful request contributes to a distribution.
// Durations are whole nanoseconds, so that nothing is rounded before the end;
// rates and counts are floats.
type figure struct {
	name     string
	duration func(*record.Attempt) (int64, bool)
	number   func(*record.Attempt) (float64, bool)
	none     string // why there may be no sample at all
}

// figures is the table of what the rows of metrics.json with a figure are
// computed from; chunk_gap stands apart, since a request gives several.
var figures = []figure{
	{name: "time_to_first_output", duration: timeToFirstOutput, none: "no successful request had a first output with an arrival of its own"},
	{name: "ttft", duration: timeToFirstToken, none: "no successful request had visible content with an arrival of its own"},
	{name: "e2e", duration: between(start, end), none: "no request succeeded"},
	{name: "response_latency", duration: between(due, end), none: "no successful request had a due time"},
	{name: "generation", duration: between(firstOutput, end), none: "no successful request had output"},
	{name: "visible_generation", duration: between(firstContent, end), none: "no successful request had visible content"},
	{name: "tpot", number: timePerOutputToken, none: "no successful request had two counted output tokens that arrived apart"},
	{name: "connect", duration: between(start, connected), none: "no successful request opened a connection"},
	{name: "write", duration: between(sent, written), none: "no successful request has stamps of its writing"},
	{name: "send_lag", duration: between(due, start), none: "no successful request had a due time"},
	{name: "effective_prefill", number: effectivePrefill, none: "no successful request had a counted prompt and a first output with an arrival of its own"},
	{name: "decode", number: decodeRate, none: "no successful request had two counted output tokens that arrived apart"},
	{name: "prompt_tokens", number: tokens(func(u record.Usage) *int64 { return u.Input }), none: noUsage},
	{name: "output_tokens", number: tokens(func(u record.Usage) *int64 { return u.Output }), none: noUsage},
	{name: "reasoning_tokens", number: tokens(func(u record.Usage) *int64 { return u.Reasoning }), none: "the server counted no reasoning tokens apart"},
}

const (
	noUsage   = "no successful answer carried a believable count"
	noGaps    = "no successful request had two output events with arrivals of their own"
	chunkGap  = "chunk_gap"
	nsPerMS   = 1e6
	msPerS    = 1e3
	coalesced = '1'
)

type moment func(record.Stamps) *int64

func due(t record.Stamps) *int64          { return t.Due }
func start(t record.Stamps) *int64        { return t.Start }
func connected(t record.Stamps) *int64    { return t.Connected }
func sent(t record.Stamps) *int64         { return t.Sent }
func written(t record.Stamps) *int64      { return t.Written }
func firstOutput(t record.Stamps) *int64  { return t.FirstOutput }
func firstContent(t record.Stamps) *int64 { return t.FirstContent }
func end(t record.Stamps) *int64          { return t.End }

func between(from, to moment) func(*record.Attempt) (int64, bool) {
	return func(a *record.Attempt) (int64, bool) { return span(from(a.T), to(a.T)) }
}

func span(from, to *int64) (int64, bool) {
	if from == nil || to == nil {
		return 0, false
	}
	return *to - *from, true
}

func timeToFirstOutput(a *record.Attempt) (int64, bool) {
	if shared(a, 0) {
		return 0, false
	}
	return span(a.T.Start, a.T.FirstOutput)
}

// timeToFirstToken is unknown also where the first output shares its arrival:
// then the client was late, and how late nobody knows.
func timeToFirstToken(a *record.Attempt) (int64, bool) {
	if shared(a, 0) || shared(a, firstContentEvent(a)) {
		return 0, false
	}
	return span(a.T.Start, a.T.FirstContent)
}

// shared tells whether event i of the request came with another in one arrival.
func shared(a *record.Attempt, i int) bool {
	return i >= 0 && i < len(a.Coalesced) && a.Coalesced[i] == coalesced
}

func firstContentEvent(a *record.Attempt) int {
	for i := range len(a.ArrivalKinds) {
		if a.ArrivalKinds[i] == 'c' {
			return i
		}
	}
	return -1
}

// decoding returns the output tokens and the time that they took, in ms.
func decoding(a *record.Attempt) (tokens, generationMS float64, ok bool) {
	if a.Usage.Output == nil || *a.Usage.Output <= 1 || a.T.LastOutput == nil {
		return 0, 0, false
	}
	generation, ok := span(a.T.FirstOutput, a.T.End)
	if !ok || generation <= 0 || *a.T.LastOutput == *a.T.FirstOutput {
		return 0, 0, false
	}
	return float64(*a.Usage.Output), float64(generation) / nsPerMS, true
}

func timePerOutputToken(a *record.Attempt) (float64, bool) {
	tokens, ms, ok := decoding(a)
	if !ok {
		return 0, false
	}
	return record.TPOT(tokens, ms), true
}

func decodeRate(a *record.Attempt) (float64, bool) {
	tokens, ms, ok := decoding(a)
	if !ok {
		return 0, false
	}
	return record.Decode(tokens, ms), true
}

func effectivePrefill(a *record.Attempt) (float64, bool) {
	first, ok := timeToFirstOutput(a)
	if !ok || first <= 0 || a.Usage.Input == nil {
		return 0, false
	}
	return record.Prefill(float64(*a.Usage.Input), float64(first)/nsPerMS), true
}

func tokens(of func(record.Usage) *int64) func(*record.Attempt) (float64, bool) {
	return func(a *record.Attempt) (float64, bool) {
		if n := of(a.Usage); n != nil {
			return float64(*n), true
		}
		return 0, false
	}
}

// appendGaps appends the gaps between successive output events that each have
// an arrival of their own.
func appendGaps(gaps []int64, a *record.Attempt) []int64 {
	for i := 1; i < len(a.Arrivals); i++ {
		if !shared(a, i-1) && !shared(a, i) {
			gaps = append(gaps, a.Arrivals[i])
		}
	}
	return gaps
}
