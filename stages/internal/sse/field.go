package sse

import "bytes"

// target is where a field's value goes.
type target uint8

const (
	toNothing target = iota // comments and unknown fields
	toData
	toName
	toID
	toRetry // for reconnecting, which nobody does here
)

//nolint:gochecknoglobals // constant bytes
var lineFeed = []byte{'\n'}

// fieldName keeps as much of a field's name as a known one can have.
type fieldName struct {
	b [5]byte
	n int
}

func (f *fieldName) reset() { f.n = 0 }

func (f *fieldName) add(c byte) {
	if f.n < len(f.b) {
		f.b[f.n] = c
	}
	if f.n <= len(f.b) {
		f.n++ // one more than fits: no known field
	}
}

func (f *fieldName) target() target {
	if f.n > len(f.b) {
		return toNothing
	}
	switch string(f.b[:f.n]) {
	case "data":
		return toData
	case "event":
		return toName
	case "id":
		return toID
	case "retry":
		return toRetry
	default:
		return toNothing
	}
}

// lineLength returns how many bytes come before the first line end, all of them
// if there is none.
func lineLength(b []byte) int {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		b = b[:i]
	}
	if i := bytes.IndexByte(b, '\r'); i >= 0 {
		return i
	}
	return len(b)
}

// beginValue prepares the target of the field whose name has ended.
func (p *Parser) beginValue() {
	p.target = p.field.target()
	switch p.target {
	case toData:
		if p.hasData {
			p.data = p.grow(p.data, lineFeed)
		}
		p.hasData = true
	case toName:
		p.name = p.name[:0]
	case toID:
		p.pendingID = p.pendingID[:0]
	case toRetry:
	case toNothing:
		p.foreign = p.foreign || p.field.n > 0
	}
}

func (p *Parser) addValue(b []byte) {
	switch p.target {
	case toData:
		p.data = p.grow(p.data, b)
	case toName:
		p.name = p.grow(p.name, b)
	case toID:
		p.pendingID = p.grow(p.pendingID, b)
	case toNothing, toRetry:
	}
}

// grow appends within the limit, which also holds for names and ids.
func (p *Parser) grow(to, b []byte) []byte {
	if p.Max > 0 && int64(len(to))+int64(len(b)) > p.Max {
		p.err = ErrTooLarge
		return to
	}
	return append(to, b...)
}

// endValue is called at the line's end. An id with a NUL is ignored.
func (p *Parser) endValue() {
	if p.target == toID && bytes.IndexByte(p.pendingID, 0) < 0 {
		p.id = append(p.id[:0], p.pendingID...)
	}
}

// dispatch ends an event and tells whether there was one.
func (p *Parser) dispatch(e *Event) bool {
	event := p.hasData || len(p.name) > 0
	if event {
		*e = Event{Name: p.name, Data: p.data, ID: p.id, End: p.lineEnd, Bare: !p.hasData}
	}
	p.name, p.data, p.hasData = p.name[:0], p.data[:0], false
	return event
}
