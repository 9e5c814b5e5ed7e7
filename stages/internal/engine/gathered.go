package engine

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"anvil/stages/internal/engine/jsonview"
	"anvil/stages/record"
)

// Bounds of what is kept of an answer, whatever a server sends.
const (
	maxText    = 1 << 20 // bytes of stored text, and of the arguments of a tool call
	maxMessage = 2048    // characters of an error's message
	maxName    = 256     // characters of a model's name, a finish reason, a class
	maxChoices = 128
	maxTools   = 1024 // a choice
)

// gathered is what a decoder keeps of an answer.
type gathered struct {
	choices  []*choice // in order of appearance
	model    string
	counted  usage
	fault    *fault // the first error in the stream
	bad      *fault // the first thing that was not as the API says
	notes    []string
	payloads int // events seen, also those without output

	keepLogprobs bool
	logprobs     []Logprob // of choice 0
}

// A fault is a class and a message.
type fault struct{ class, message string }

// A choice is one of the answers to one request.
type choice struct {
	index              int
	content, reasoning []byte
	refusal            []byte
	tools              []*toolCall
	finish             string
	pieces             []int // lengths of the texts so far, while each began with the one before
	broken             bool  // one did not: they are pieces
	piece              piece
}

// choice returns a choice to add to; nil while live and beyond the bound.
func (r *reading) choice(index int) *choice {
	if r.live {
		return nil
	}
	for _, c := range r.choices {
		if c.index == index {
			return c
		}
	}
	if len(r.choices) == maxChoices {
		r.note("too_many_choices")
		return nil
	}
	c := &choice{index: index}
	r.choices = append(r.choices, c)
	return c
}

// first returns choice 0, empty if it never came.
func (g *gathered) first() *choice {
	for _, c := range g.choices {
		if c.index == 0 {
			return c
		}
	}
	return &choice{}
}

// addSoFar takes a text that repeats the ones before it. As soon as one does
// not, all of them were pieces, and the text is put together anew.
func (c *choice) addSoFar(text []byte, continues bool) {
	switch {
	case c.broken:
		c.content = append(c.content, text...)
	case continues:
		c.content = append(c.content[:0], text...)
		c.pieces = append(c.pieces, len(text))
	default:
		longest, last := c.content, len(c.pieces)-1
		c.broken, c.content = true, nil
		for _, n := range c.pieces[:last] {
			c.content = append(c.content, longest[:n]...)
		}
		c.content = append(append(c.content, longest...), text...)
		c.pieces = nil
	}
}

// A piece remembers whether each text of a server that sends pieces began with
// the one before: then they were no pieces but the whole so far.
type piece struct {
	length       int // of the last one
	grown, equal int // texts longer than the one before, and the same again
	others       bool
}

// addPiece takes a piece of text.
func (c *choice) addPiece(text []byte) {
	before := c.content[len(c.content)-c.piece.length:]
	p := &c.piece
	switch {
	case !bytes.HasPrefix(text, before):
		p.others = true
	case len(text) > len(before) && len(before) > 0:
		p.grown++
	case len(before) > 0:
		p.equal++
	}
	p.length = len(text)
	c.content = append(c.content, text...)
}

// whole is the text of a choice, once if every event repeated it. A word said
// twice is no repetition of that kind: the text must mostly have grown.
func (c *choice) whole() []byte {
	if p := c.piece; !p.others && p.grown > 0 && p.grown > p.equal {
		return c.content[len(c.content)-p.length:]
	}
	return c.content
}

// A toolPiece is what one event says of a tool call.
type toolPiece struct {
	index               int
	id, name, arguments value
	call                value // the call's id, where id is only that of the item that holds it
}

type toolCall struct {
	index          int
	id, name, call string
	arguments      []byte
}

// addTool assembles a call. A piece with another id under the same index begins
// another call; servers that repeat id and name with each piece add nothing by it.
func (c *choice) addTool(p toolPiece) {
	id := bounded(p.id.Text(), maxName)
	t := c.tool(p.index, id)
	if t == nil {
		return
	}
	if id != "" {
		t.id = id
	}
	if name := bounded(p.name.Text(), maxName); name != t.name {
		t.name = bounded(t.name+name, maxName)
	}
	if call := bounded(p.call.Text(), maxName); call != "" {
		t.call = call
	}
	t.add(p.arguments)
}

func (c *choice) tool(index int, id string) *toolCall {
	for _, t := range slices.Backward(c.tools) {
		if t.index == index && (id == "" || t.id == "" || t.id == id) {
			return t
		}
	}
	if len(c.tools) == maxTools {
		return nil
	}
	t := &toolCall{index: index}
	c.tools = append(c.tools, t)
	return t
}

func (t *toolCall) add(arguments value) {
	if len(t.arguments) > maxText {
		return
	}
	switch arguments.Kind() {
	case jsonview.String:
		t.arguments = arguments.AppendText(t.arguments)
	case jsonview.Object, jsonview.Array:
		t.arguments = append(t.arguments, arguments.Raw()...)
	default:
	}
}

// calls returns the assembled tool calls.
func (c *choice) calls() []record.ToolCall {
	list := make([]record.ToolCall, len(c.tools))
	for i, t := range c.tools {
		arguments, _ := jsonview.Repair(t.arguments)
		text, _ := cutAtRune(arguments, maxText)
		list[i] = record.ToolCall{Index: t.index, ID: cmp.Or(t.call, t.id), Name: t.name, Arguments: string(text)}
	}
	return list
}

// note keeps a note once.
func (g *gathered) note(n string) {
	if !slices.Contains(g.notes, n) {
		g.notes = append(g.notes, n)
	}
}

// fail keeps the first error that the server reports inside its answer.
func (r *reading) fail(class, message string) {
	if r.fault == nil && !r.live {
		r.fault = newFault(class, message)
	}
}

// malformed keeps the first thing that is not as the API says, with the beginning
// of what was found.
func (r *reading) malformed(what string, found []byte) {
	if r.bad != nil || r.live {
		return
	}
	if found != nil {
		what += ": " + sample(found)
	}
	r.bad = newFault("json", what)
}

// remark keeps a note of something that is no output.
func (r *reading) remark(n string) {
	if !r.live {
		r.note(n)
	}
}

func newFault(class, message string) *fault {
	return &fault{class: bounded(class, maxName), message: bounded(message, maxMessage)}
}

// bounded cuts text after n characters and makes it valid.
func bounded(s string, n int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// cutAtRune returns at most n bytes of b, whole characters only.
func cutAtRune(b []byte, n int) (cut []byte, truncated bool) {
	if len(b) <= n {
		return b, false
	}
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return b[:n], true
}
