// Package sse parses event streams: the whole grammar of the HTML standard
// (https://html.spec.whatwg.org/multipage/server-sent-events.html), fed in
// pieces cut anywhere. The same bytes give the same events however they are cut,
// and each event says at which byte of the stream it ended, so that it can be
// matched with the read that delivered that byte. Once its buffers have grown to
// the largest event a parser allocates nothing.
package sse

import "errors"

// ErrTooLarge says that an event's data exceed the parser's limit.
var ErrTooLarge = errors.New("event exceeds the size limit")

// An Event is one dispatched event. Its slices are valid until the next call of
// a method of the parser.
type Event struct {
	Name []byte // the event field, empty for "message"
	Data []byte // data lines, joined by LF
	ID   []byte // last event id, of this event or an earlier one
	// End is the offset in the stream after the byte that completed the event:
	// that of the blank line, or of the last line where the stream ends.
	End int64
	// Bare marks an event that has a name and no data line. The standard drops
	// it; a server that says nothing but "event: error" has still said so.
	Bare bool
}

// A Parser turns pieces of a stream into events. The zero value is ready and
// unlimited. Push a piece, then call Next until it returns false.
type Parser struct {
	// Max is the limit of an event's data in bytes; zero is none.
	Max int64

	in  []byte // what of the pushed piece is not consumed
	off int64  // stream offset of in

	state   state
	target  target
	field   fieldName
	mark    int   // bytes of the byte-order mark seen, -1 once it cannot come any more
	lineEnd int64 // stream offset after the last complete line
	err     error
	foreign bool

	data, name    []byte
	id, pendingID []byte // an id counts once its line is complete
	hasData       bool
}

type state uint8

const (
	lineStart  state = iota
	afterCR          // a line ended with CR; a LF now belongs to it
	inField          // in a field's name
	afterColon       // one space may follow
	inValue
)

// Reset begins a new stream and keeps the buffers and the limit.
func (p *Parser) Reset() {
	*p = Parser{Max: p.Max, data: p.data[:0], name: p.name[:0], id: p.id[:0], pendingID: p.pendingID[:0]}
}

// Push hands the parser the next piece of the stream. The piece must stay as it
// is until Next has returned false, which has to happen before the next Push.
func (p *Parser) Push(b []byte) { p.in = b }

// Err returns ErrTooLarge once an event has exceeded the limit; the parser then
// reads no further.
func (p *Parser) Err() error { return p.err }

// Next fills e with the next event that ends in the pushed piece.
func (p *Parser) Next(e *Event) bool {
	for len(p.in) > 0 && p.err == nil {
		if blank := p.step(); blank && p.dispatch(e) {
			return true
		}
	}
	return false
}

// Finish ends the stream, cleanly after its last byte. It fills e with the event
// whose blank line is missing, if the stream ended after a complete line, and
// tells whether it ended inside one.
func (p *Parser) Finish(e *Event) (event, partial bool) {
	partial = p.state > afterCR || p.mark > 0
	if partial || p.err != nil {
		return false, partial
	}
	return p.dispatch(e), false
}

// Unfinished returns the data of an event whose last line has no end; ok is
// false where the stream did not end inside a data line.
func (p *Parser) Unfinished() (data []byte, ok bool) {
	return p.data, p.target == toData && (p.state == afterColon || p.state == inValue)
}

// step consumes at least one byte, or moves to a state that will, and tells
// whether a blank line was completed.
func (p *Parser) step() (blank bool) {
	switch p.state {
	case lineStart:
		return p.startLine()
	case afterCR:
		p.state = lineStart
		if p.in[0] == '\n' {
			p.skip(1)
			p.lineEnd = p.off
		}
	case inField:
		p.readField()
	case afterColon:
		p.state = inValue
		if p.in[0] == ' ' {
			p.skip(1)
		}
	case inValue:
		p.readValue()
	}
	return false
}

// startLine looks at the first byte of a line, which may be its end: then the
// line is blank. A byte-order mark is skipped at the start of the stream only.
func (p *Parser) startLine() (blank bool) {
	c := p.in[0]
	if p.mark >= 0 && p.skipMark(c) {
		return false
	}
	if c == '\n' || c == '\r' {
		p.endLine(c)
		return true
	}
	p.field.reset()
	p.state = inField
	return false
}

// skipMark consumes c if it continues the byte-order mark. A mark that breaks
// off was the beginning of an unknown field's name.
func (p *Parser) skipMark(c byte) bool {
	const mark = "\xef\xbb\xbf"
	if c == mark[p.mark] {
		p.skip(1)
		p.mark++
		if p.mark == len(mark) {
			p.mark = -1
		}
		return true
	}
	broken := p.mark > 0
	p.mark = -1
	if broken {
		p.field.reset()
		p.field.add(mark[0])
		p.state = inField
	}
	return broken
}

func (p *Parser) readField() {
	for i, c := range p.in {
		if c != ':' && c != '\r' && c != '\n' {
			p.field.add(c)
			continue
		}
		p.skip(i)
		p.beginValue()
		if c == ':' {
			p.skip(1)
			p.state = afterColon
			return
		}
		p.endValue() // a line without a colon is a field with an empty value
		p.endLine(c)
		return
	}
	p.skip(len(p.in))
}

func (p *Parser) readValue() {
	i := lineLength(p.in)
	p.addValue(p.in[:i])
	p.skip(i)
	if len(p.in) == 0 || p.err != nil {
		return
	}
	p.endValue()
	p.endLine(p.in[0])
}

// endLine consumes the line end that begins with c.
func (p *Parser) endLine(c byte) {
	p.skip(1)
	p.lineEnd = p.off
	p.state = lineStart
	if c == '\r' {
		p.state = afterCR
	}
}

func (p *Parser) skip(n int) {
	p.in = p.in[n:]
	p.off += int64(n)
}

// Foreign tells whether the stream held a line that is neither a comment nor one
// of the standard's fields: a body that is no event stream is made of them.
func (p *Parser) Foreign() bool { return p.foreign || p.state == inField && p.field.n > len(p.field.b) }
