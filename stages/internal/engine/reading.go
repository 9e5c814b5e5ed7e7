package engine

import (
	"hash/maphash"

	"anvil/stages/internal/engine/jsonview"
)

// A value is one JSON value of a payload.
type value = jsonview.Value

// output says what of an event is output; the bits are ordered by what an
// arrival's letter says of an event that holds several kinds.
type output uint8

const (
	outReasoning output = 1 << iota
	outRefusal
	outTool
	outContent
)

// letter is the event's entry in arrival_kinds.
func (o output) letter() byte {
	switch {
	case o&outContent != 0:
		return 'c'
	case o&outTool != 0:
		return 't'
	case o&outRefusal != 0:
		return 'f'
	default:
		return 'r'
	}
}

// A reading is what an adapter makes of an answer's events. While a phase runs
// it is live: then nothing is kept but what the current event was, so that the
// same adapter code serves the watcher without allocating.
type reading struct {
	live bool

	// of the event being read
	out      output
	finished bool   // it holds a finish reason of choice 0
	usage    counts // it holds these counts

	ended    bool // the answer's end mark was read
	soFar    soFar
	gathered // not while live
}

// begin prepares for the next event.
func (r *reading) begin() {
	r.out, r.finished, r.usage = 0, false, counts{}
}

func (r *reading) reset(live bool) {
	*r = reading{live: live, soFar: soFar{text: r.soFar.text[:0], seed: r.soFar.seed}}
}

// end says that the end mark was read.
func (r *reading) end() { r.ended = true }

// content, reason and refuse add a piece of text to a choice; empty ones and
// values that are no strings are no output.
func (r *reading) content(choice int, v value) {
	if v.Filled() {
		r.out |= outContent
		if c := r.choice(choice); c != nil {
			c.content = v.AppendText(c.content)
		}
	}
}

func (r *reading) reason(choice int, v value) {
	if v.Filled() {
		r.out |= outReasoning
		if c := r.choice(choice); c != nil {
			c.reasoning = v.AppendText(c.reasoning)
		}
	}
}

func (r *reading) refuse(choice int, v value) {
	if v.Filled() {
		r.out |= outRefusal
		if c := r.choice(choice); c != nil {
			c.refusal = v.AppendText(c.refusal)
		}
	}
}

// tool adds a piece of a tool call; its name and its arguments are output.
func (r *reading) tool(choice int, p toolPiece) {
	if p.name.Filled() || p.arguments.Filled() || p.arguments.Kind() == jsonview.Object {
		r.out |= outTool
	}
	if c := r.choice(choice); c != nil {
		c.addTool(p)
	}
}

// finish takes the reason for which a choice ended, in the words of the server.
func (r *reading) finish(choice int, v value) {
	if !v.Filled() || r.live {
		return
	}
	r.finishText(choice, v.Text())
}

func (r *reading) finishText(choice int, reason string) {
	if choice == 0 {
		r.finished = true
	}
	if c := r.choice(choice); c != nil {
		c.finish = reason
	}
}

// count takes the token counts of an event; the last ones of an answer count.
func (r *reading) count(c counts) {
	if !r.live {
		c.present = true
		r.usage = c
	}
}

// modelName takes the name of the model that answers.
func (r *reading) modelName(v value) {
	if v.Filled() && !r.live && r.model == "" {
		r.model = bounded(v.Text(), maxName)
	}
}

// soFar follows a text that each event repeats from its beginning. It remembers
// the text before by length and hash, so that the watcher can tell growth too.
type soFar struct {
	text   []byte // scratch, the current event's
	seed   maphash.Seed
	length int
	hash   uint64
	begun  bool
}

// grow tells whether v, the text so far, is more than the one before, and whether
// the one before is its beginning; without that the server sends pieces.
func (s *soFar) grow(v value) (grew, continues bool) {
	if s.seed == (maphash.Seed{}) {
		s.seed = maphash.MakeSeed()
	}
	s.text = v.AppendText(s.text[:0])
	continues = !s.begun || len(s.text) >= s.length && maphash.Bytes(s.seed, s.text[:s.length]) == s.hash
	again := continues && s.begun && len(s.text) == s.length
	grew = len(s.text) > 0 && !again
	s.begun, s.length, s.hash = true, len(s.text), maphash.Bytes(s.seed, s.text)
	return grew, continues
}

// contentPiece adds text of a server that may send pieces or, each time, all.
func (r *reading) contentPiece(text []byte) {
	if len(text) == 0 {
		return
	}
	r.out |= outContent
	if c := r.choice(0); c != nil {
		c.addPiece(text)
	}
}

// contentText adds text that is a piece by the name it comes under: tokens that
// happen to begin with the one before are no whole so far.
func (r *reading) contentText(text []byte) {
	if len(text) == 0 {
		return
	}
	r.out |= outContent
	if c := r.choice(0); c != nil {
		c.piece.others = true
		c.content = append(c.content, text...)
	}
}

// text decodes a string into the reading's scratch space; it is valid until the
// next text.
func (r *reading) text(v value) []byte {
	r.soFar.text = v.AppendText(r.soFar.text[:0])
	return r.soFar.text
}

// contentSoFar adds the text of an answer that is repeated from its beginning.
func (r *reading) contentSoFar(v value) {
	if !v.Filled() {
		return
	}
	grew, continues := r.soFar.grow(v)
	if grew {
		r.out |= outContent
	}
	if c := r.choice(0); c != nil {
		c.addSoFar(r.soFar.text, continues)
	}
}
