package engine

import "cmp"

// A Decoder turns one answer into its fields, behind or after the phase.
type Decoder struct {
	p    *Protocol
	want Want
	in   intake

	head    *Head
	read    Read // the one whose bytes are being taken
	first   *int64
	mark    *int64 // arrival of the end mark
	events  []arrival
	partial bool // the body ended inside an event
}

// An arrival is one event with output.
type arrival struct {
	read    Read
	out     output
	content int // bytes of choice 0's content with this event
}

// NewDecoder returns a decoder for one answer.
func (p *Protocol) NewDecoder(w Want) *Decoder {
	w.Model = cmp.Or(w.Model, p.Model)
	w.MaxTokens = p.Cap(w.MaxTokens)
	d := &Decoder{p: p, want: w, in: intake{p: p, limits: w.Limits}}
	d.in.event, d.in.shown = d.event, w.Plain
	return d
}

// Head takes the head; without one there was no answer.
func (d *Decoder) Head(h Head) {
	d.head = &h
	d.in.reset(h, false)
	d.in.r.keepLogprobs = d.want.Logprobs
}

// Read takes one read of the body and its stamps. b may be reused when it returns.
func (d *Decoder) Read(r Read, b []byte) {
	if d.head == nil || len(b) == 0 {
		return
	}
	// A stamp that goes back is a fault of the clock, not an earlier arrival.
	r.At = max(r.At, d.read.At)
	d.read = r
	if d.first == nil {
		d.first = &r.At
	}
	d.in.feed(b)
}

// event files the event that the adapter has just read.
func (d *Decoder) event() {
	r := &d.in.r
	r.payloads++
	r.settle()
	if r.ended && d.mark == nil {
		at := d.read.At
		d.mark = &at
	}
	if r.out != 0 {
		d.events = append(d.events, arrival{read: d.read, out: r.out, content: len(r.first().content)})
	}
}

// End takes how the reading ended and returns the answer.
func (d *Decoder) End(e Ending) Answer {
	defer d.in.close()
	if d.head != nil {
		if e.Kind == EndClean || e.Kind == EndMark {
			d.partial = d.in.finish()
		}
		d.readWhole(e)
	}
	a := Answer{FirstByte: d.first}
	d.texts(&a)
	d.stamps(&a, e)
	d.judge(&a, e)
	return a
}

// Texts hands out every text that was put together from pieces, of all choices,
// also what the answer does not hold. To be called after End.
func (d *Decoder) Texts(yield func([]byte) bool) {
	for _, c := range d.in.r.choices {
		for _, text := range [][]byte{c.content, c.reasoning, c.refusal} {
			if !yield(text) {
				return
			}
		}
		for _, t := range c.tools {
			if !yield([]byte(t.name)) || !yield(t.arguments) {
				return
			}
		}
	}
}

// readWhole reads what was kept of a body that is no stream: the answer of a
// request that was not streamed, or what came in a stream's stead.
func (d *Decoder) readWhole(e Ending) {
	in := &d.in
	switch {
	case in.mode == httpError:
	case in.mode == whole && (e.Kind == EndClean || e.Kind == EndMark):
		in.r.begin()
		d.p.Adapter.body(&in.r, in.kept)
		in.r.settle()
		in.r.counted.source = bodySource(in.r.counted.source)
	case in.mode == streamed && in.r.payloads == 0:
		in.r.instead(in.kept)
	}
}

func bodySource(source string) string {
	if source == "" {
		return ""
	}
	return "body"
}
