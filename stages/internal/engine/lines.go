package engine

import (
	"bytes"

	"anvil/stages/internal/engine/jsonview"
	"anvil/stages/internal/sse"
)

// A lineParser divides newline-delimited JSON as sse.Parser divides an event
// stream: a line that is not blank is an event.
type lineParser struct {
	max  int64
	in   []byte
	held []byte // of the line that has begun
	err  error
}

func (p *lineParser) reset(limit int64) { *p = lineParser{max: limit, held: p.held[:0]} }

func (p *lineParser) push(b []byte) { p.in = b }

func (p *lineParser) next(e *sse.Event) bool {
	for len(p.in) > 0 && p.err == nil {
		line, complete := p.line()
		if complete && len(bytes.TrimSpace(line)) > 0 {
			*e = sse.Event{Data: line}
			return true
		}
	}
	return false
}

// line takes the next line, from the piece itself where it lies in one piece.
func (p *lineParser) line() (line []byte, complete bool) {
	i := bytes.IndexByte(p.in, '\n')
	n := i + 1
	if i < 0 {
		i, n = len(p.in), len(p.in)
	}
	line = p.in[:i]
	if p.max > 0 && int64(len(p.held)+len(line)) > p.max {
		p.err = sse.ErrTooLarge
		return nil, false
	}
	complete = n > i
	if !complete || len(p.held) > 0 {
		p.held = append(p.held, line...)
		line = p.held
	}
	if complete {
		p.held = p.held[:0] // its bytes stay until the next call
	}
	p.in = p.in[n:]
	return line, complete
}

// finish ends the body. A last line without its line end is an event if it is
// whole, which JSON itself tells.
func (p *lineParser) finish(e *sse.Event) (event, partial bool) {
	if p.err != nil || len(bytes.TrimSpace(p.held)) == 0 {
		return false, false
	}
	if _, ok := jsonview.Parse(p.held); !ok {
		return false, true
	}
	*e = sse.Event{Data: p.held}
	return true, false
}

// A splitter divides a body as its framing says.
type splitter struct {
	framing Framing
	events  sse.Parser
	lines   lineParser
}

func (s *splitter) reset(f Framing, limit int64) {
	s.framing = f
	s.events.Max = limit
	s.events.Reset()
	s.lines.reset(limit)
}

func (s *splitter) push(b []byte) {
	if s.framing == Lines {
		s.lines.push(b)
		return
	}
	s.events.Push(b)
}

func (s *splitter) next(e *sse.Event) bool {
	if s.framing == Lines {
		return s.lines.next(e)
	}
	return s.events.Next(e)
}

func (s *splitter) tooLarge() bool { return s.events.Err() != nil || s.lines.err != nil }

func (s *splitter) finish(e *sse.Event) (event, partial bool) {
	if s.framing == Lines {
		return s.lines.finish(e)
	}
	return s.events.Finish(e)
}

// broken returns the data of an event in which the body ended and which are no
// whole JSON; nil for none.
func (s *splitter) broken() []byte {
	data, ok := s.lines.held, s.framing == Lines
	if !ok {
		data, ok = s.events.Unfinished()
	}
	if !ok || len(trimSpace(data)) == 0 {
		return nil
	}
	if _, whole := jsonview.Parse(data); whole {
		return nil
	}
	return data
}

// foreign tells whether something was seen that no such body holds.
func (s *splitter) foreign() bool { return s.framing == EventStream && s.events.Foreign() }
