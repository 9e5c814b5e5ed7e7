package engine

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"

	"anvil/stages/internal/engine/jsonview"
	"anvil/stages/record"
)

// instead looks at a body that came where a stream was asked for: an error in it
// is the server's word.
func (r *reading) instead(body []byte) {
	v, ok := jsonview.Parse(body)
	if !ok {
		return
	}
	switch inner := v.Get("error"); {
	case isError(inner):
		r.failWith(inner)
	case v.Get("object").Is("error"), v.Get("type").Is("error"):
		r.failWith(v)
	}
}

// texts fills what the answer says.
func (d *Decoder) texts(a *Answer) {
	r := &d.in.r
	c := r.first()
	content := d.repaired(c.whole())
	reasoning := d.repaired(c.reasoning)
	a.Content = string(content)
	a.TextSHA256 = sha256.Sum256(content)
	a.ToolCalls = c.calls()
	a.Choices = len(r.choices)
	a.DoneMarker = r.ended && d.in.mode == streamed
	a.FinishReasons = r.finishReasons()
	if r.model != "" {
		a.Model = &r.model
	}
	a.Logprobs = r.logprobs
	a.Usage = r.counted.believe(d.plausible())
	if d.head == nil || d.in.mode == httpError || !d.want.StoreText {
		return
	}
	text, cutText := cutAtRune(content, maxText)
	thoughts, cutThoughts := cutAtRune(reasoning, maxText)
	t, s := string(text), string(thoughts)
	a.Text, a.Reasoning, a.TextTruncated = &t, &s, cutText || cutThoughts
}

// repaired makes text valid and notes when bytes of it were none.
func (d *Decoder) repaired(b []byte) []byte {
	text, replaced := jsonview.Repair(b)
	if replaced {
		d.in.r.note("invalid_utf8")
	}
	return text
}

func (d *Decoder) plausible() plausible {
	p := plausible{maxTokens: d.want.MaxTokens, choices: len(d.in.r.choices)}
	for _, c := range d.in.r.choices {
		p.bytes += int64(len(c.content) + len(c.reasoning) + len(c.refusal))
		for _, t := range c.tools {
			p.bytes += int64(len(t.name) + len(t.arguments))
		}
		p.reasoned = p.reasoned || len(c.reasoning) > 0
	}
	return p
}

// finishReasons lists them by choice.
func (g *gathered) finishReasons() []string {
	sorted := slices.Clone(g.choices)
	slices.SortStableFunc(sorted, func(a, b *choice) int { return a.index - b.index })
	reasons := []string{}
	for _, c := range sorted {
		if c.finish != "" {
			reasons = append(reasons, bounded(c.finish, maxName))
		}
	}
	return reasons
}

// stamps fills the moments of the answer. A request that was not streamed has
// none but its end.
func (d *Decoder) stamps(a *Answer, e Ending) {
	a.End = d.mark
	if a.End == nil && e.Kind != EndMark {
		at := e.At
		a.End = &at
	}
	if a.End == nil { // a mark that the decoder does not see: the last read
		at := d.read.At
		a.End = &at
	}
	hidden := d.thought()
	a.Arrivals, a.SeenEmpty = []int64{}, []*int64{}
	var kinds, coalesced strings.Builder
	var before int64
	for i, ev := range d.events {
		at := ev.read.At
		letter := ev.letter(d.contentBefore(i), hidden)
		kinds.WriteByte(letter)
		if letter == 'c' && a.FirstContent == nil {
			a.FirstContent = &at
		}
		a.Arrivals = append(a.Arrivals, at-before)
		before = at
		if !d.shared(i) {
			coalesced.WriteByte('0')
			a.SeenEmpty = append(a.SeenEmpty, nil)
			continue
		}
		coalesced.WriteByte('1')
		a.SeenEmpty = append(a.SeenEmpty, ev.read.SeenEmpty)
	}
	a.ArrivalKinds, a.Coalesced, a.ClientDelay = kinds.String(), coalesced.String(), d.delays()
	if n := len(d.events); n > 0 {
		first, last := d.events[0].read.At, d.events[n-1].read.At
		a.FirstOutput, a.LastOutput = &first, &last
	}
}

// shared tells whether event i has its arrival in common with another one.
func (d *Decoder) shared(i int) bool {
	at := d.events[i].read.At
	return i > 0 && d.events[i-1].read.At == at || i+1 < len(d.events) && d.events[i+1].read.At == at
}

// delays are null with user-space stamps, and where no output tells of either.
func (d *Decoder) delays() []int64 {
	if len(d.events) == 0 {
		return nil
	}
	delays := make([]int64, len(d.events))
	for i, ev := range d.events {
		if ev.read.Delay == nil {
			return nil
		}
		delays[i] = *ev.read.Delay
	}
	return delays
}

func (d *Decoder) contentBefore(i int) int {
	if i == 0 {
		return 0
	}
	return d.events[i-1].content
}

// letter is the event's kind. Content within the first hidden bytes is thought,
// not visible content.
func (e arrival) letter(before, hidden int) byte {
	if l := e.out.letter(); l != 'c' || e.content == before || e.content > hidden {
		return l
	}
	return (e.out&^outContent | outReasoning).letter()
}

// thought returns how many bytes of choice 0's content are thoughts in tags: up
// to and with the closing tag and the blanks after it. Templates that open the
// tag in the prompt leave only the closing one in the answer.
func (d *Decoder) thought() int {
	const opening, closing = "<think>", "</think>"
	c := d.in.r.first()
	content := c.whole()
	if len(content) != len(c.content) {
		return 0 // repeated texts: the offsets are not those of this one
	}
	opened := bytes.HasPrefix(bytes.TrimLeft(content, " \r\n\t"), []byte(opening))
	thought, rest, closed := bytes.Cut(content, []byte(closing))
	if !opened && (!closed || bytes.Contains(thought, []byte(opening))) {
		return 0
	}
	d.in.r.note("think_tags")
	if !closed {
		return len(content)
	}
	return len(content) - len(bytes.TrimLeft(rest, " \r\n\t"))
}

// judge decides what became of the request (streams.md 5).
func (d *Decoder) judge(a *Answer, e Ending) {
	if d.head != nil {
		a.HTTPStatus = &d.head.Status
	}
	d.remarks()
	verdicts := d.verdicts(e)
	a.Notes = slices.Clone(d.in.r.notes)
	if len(verdicts) == 0 {
		a.Outcome = d.success()
		a.Notes = append(a.Notes, d.successNotes(e)...)
		if a.Outcome == record.OutcomeEmpty {
			a.Error = &record.AttemptError{Class: "empty", Message: "the answer is complete and holds no output"}
		}
		return
	}
	a.Outcome = verdicts[0].outcome
	a.Error = &record.AttemptError{Class: verdicts[0].class, Message: bounded(verdicts[0].message, maxMessage)}
	if d.head != nil && d.in.mode == httpError {
		a.Error.RetryAfterS = retryAfter(d.head.Header)
	}
	for _, v := range verdicts[1:] {
		a.Notes = append(a.Notes, string(v.outcome))
	}
	if a.Notes == nil {
		a.Notes = []string{}
	}
}

// remarks are notes on every answer, complete or not.
func (d *Decoder) remarks() {
	r := &d.in.r
	if d.partial && !d.in.split.foreign() {
		r.note("partial_event")
	}
	if r.model != "" && d.want.Model != "" && r.model != d.want.Model {
		r.note("model_differs")
	}
	// Some servers call an answer completed that their cap cut.
	if n := r.counted.last.output.n; r.first().finish == "completed" && d.want.MaxTokens > 0 && n >= int64(d.want.MaxTokens) {
		r.note("completed_at_cap")
	}
}
