package engine

import (
	"anvil/stages/internal/engine/jsonview"
	"anvil/stages/record"
)

// counts are the token counts of one event as the server wrote them.
type counts struct {
	present                          bool
	input, output, reasoning, cached tally
}

// A tally is one count: absent, a number, or something that is no count.
type tally struct {
	n    int64
	why  string // what is wrong with it
	have bool
}

// tallyOf reads a count.
func tallyOf(v value) tally {
	if v.Missing() {
		return tally{}
	}
	if v.Kind() != jsonview.Number {
		return tally{why: "not a number"}
	}
	n, ok := v.Int()
	switch f, _ := v.Float(); {
	case !ok && f < 0, n < 0:
		return tally{why: "negative"}
	case !ok && (f >= 1<<53 || f == 0): // f is 0 where the number is beyond a float
		return tally{why: "absurd"}
	case !ok:
		return tally{why: "fractional"}
	}
	return tally{n: n, have: true}
}

// plus adds counts that only together are the whole; an absent one adds nothing.
func (t tally) plus(more ...tally) tally {
	for _, m := range more {
		if m.why != "" && t.why == "" {
			t.why, t.have = m.why, false
		}
		t.n += m.n
	}
	return t
}

// or returns the first of several places where a server may put a count.
func (t tally) or(others ...tally) tally {
	for _, o := range others {
		if !t.have && t.why == "" {
			t = o
		}
	}
	return t
}

// usage is the last word on the counts, and where it stood.
type usage struct {
	last       counts
	source     string
	continuous bool // some event with output, other than the last, told its counts
}

// settle files the counts of the event that has just been read.
func (r *reading) settle() {
	if !r.usage.present {
		return
	}
	u := &r.counted
	u.last = r.usage
	switch {
	case r.finished:
		u.source = "finish"
	case r.out != 0:
		u.source = "continuous"
		u.continuous = u.continuous || r.usage.output.n > 0
	default:
		u.source = "final"
	}
}

// The bounds beyond which a count is no count.
const (
	absurdInput  = 1 << 28
	absurdOutput = 1 << 28
)

// plausible is what the counts are held against.
type plausible struct {
	maxTokens int   // asked for, of one choice
	choices   int   // that came
	bytes     int64 // of all output
	reasoned  bool  // reasoning came
}

// believe turns counts into usage: what cannot be is null with its reason, and
// never a guess.
func (u usage) believe(p plausible) record.Usage {
	out := record.Usage{Source: u.source}
	if u.source == "" {
		out.Source = "none"
		return withReason(out, "the answer carries no usage")
	}
	if u.continuous {
		out.Source = "continuous"
	}
	var why string
	if out.Input, why = accept(u.last.input, p.input); why != "" {
		out = withReason(out, "input tokens: "+why)
	}
	if out.Output, why = accept(u.last.output, p.output); why != "" {
		out = withReason(out, "output tokens: "+why)
	}
	if out.Reasoning, why = part(u.last.reasoning, out.Output, "the output"); why != "" {
		out = withReason(out, "reasoning tokens: "+why)
	}
	if out.Reasoning != nil && *out.Reasoning == 0 && p.reasoned {
		out.Reasoning = nil
		out = withReason(out, "reasoning tokens: zero for an answer that reasons")
	}
	if out.Cached, why = part(u.last.cached, out.Input, "the input"); why != "" {
		out = withReason(out, "cached tokens: "+why)
	}
	return out
}

// accept returns a count, or what speaks against it.
func accept(t tally, check func(int64) string) (n *int64, why string) {
	switch {
	case t.why != "":
		return nil, t.why
	case !t.have:
		return nil, "missing"
	}
	if why = check(t.n); why != "" {
		return nil, why
	}
	return &t.n, ""
}

func withReason(u record.Usage, why string) record.Usage {
	if u.Reason == nil {
		u.Reason = &why
		return u
	}
	both := *u.Reason + "; " + why
	u.Reason = &both
	return u
}

func (p plausible) input(n int64) string {
	switch {
	case n == 0:
		return "zero for a prompt"
	case n > absurdInput:
		return "absurd"
	}
	return ""
}

// output: more than was asked for is believed only where the answer is long
// enough to hold it, a byte a token; servers that ignore the cap do exist.
func (p plausible) output(n int64) string {
	limit := int64(p.maxTokens) * int64(max(p.choices, 1))
	switch {
	case n == 0 && p.bytes > 0:
		return "zero for an answer with output"
	case n > absurdOutput:
		return "absurd"
	case p.maxTokens > 0 && n > limit && n > p.bytes:
		return "more than was asked for and than the answer can hold"
	}
	return ""
}

// part is a count that is part of another one, or what speaks against it; most
// servers do not state it, which needs no reason.
func part(t tally, whole *int64, of string) (n *int64, why string) {
	switch {
	case t.why != "":
		return nil, t.why
	case !t.have:
		return nil, ""
	case t.n > absurdInput:
		return nil, "absurd"
	case whole != nil && t.n > *whole:
		return nil, "more than " + of
	}
	return &t.n, ""
}
