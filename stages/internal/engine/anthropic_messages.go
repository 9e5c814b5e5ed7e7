package engine

import (
	"bytes"
	"encoding/json"

	"anvil/stages/internal/engine/jsonview"
)

// anthropicMessages is /messages: typed events from message_start to message_stop.
type anthropicMessages struct{}

func (anthropicMessages) API() string { return "anthropic-messages" }

func (anthropicMessages) Proof() Proof {
	return Proof{Captured: true, Source: "vLLM 0.32.0, llama.cpp b10434"}
}

func (anthropicMessages) Path(string, bool) string { return "/messages" }

func (anthropicMessages) Framing() Framing { return EventStream }

func (anthropicMessages) Cap() [][]string { return [][]string{{"max_tokens"}} }

func (anthropicMessages) Unsent(s Sampling) []string {
	return s.unsent("temperature", "top_p", "stop", "thinking")
}

// leastThinking is the smallest budget that the API takes.
const leastThinking = 1024

func (anthropicMessages) Body(e *Endpoint, r Request, stream bool) (Fields, error) {
	system, rest := r.withoutSystem()
	f := Fields{"model": e.model(), "stream": stream, "messages": rest.messages(), "max_tokens": max(r.MaxTokens, 1)}
	if system != "" {
		f["system"] = system
	}
	set(f, "temperature", r.Sampling.Temperature)
	set(f, "top_p", r.Sampling.TopP)
	if r.Sampling.Stop != nil {
		f["stop_sequences"] = r.Sampling.Stop
	}
	switch r.Sampling.Thinking {
	case "enabled":
		f["thinking"] = Fields{"type": "enabled", "budget_tokens": max(r.MaxTokens/2, leastThinking)}
	case "disabled":
		f["thinking"] = Fields{"type": "disabled"}
	}
	return f, nil
}

// withoutSystem takes the system's messages out, which this API has elsewhere.
func (r Request) withoutSystem() (system string, rest Request) {
	var texts []byte
	rest = r
	rest.Messages = nil
	for _, m := range r.Messages {
		if m.Role != "system" {
			rest.Messages = append(rest.Messages, m)
			continue
		}
		if texts != nil {
			texts = append(texts, "\n\n"...)
		}
		texts = append(texts, m.Text...)
	}
	return string(texts), rest
}

func (anthropicMessages) event(r *reading, name, data []byte) {
	if isDone(data) { // the API has none; proxies send one
		r.end()
		return
	}
	keys := [...]string{"error", "type", "index", "delta", "content_block", "message", "usage"}
	var m [len(keys)]value
	v, ok := r.object(name, data, keys[:], m[:])
	if !ok {
		return
	}
	index, _ := indexOf(m[2])
	switch kind := unquoted(m[1]); string(kind) {
	case "message_start":
		r.modelName(m[5].Get("model"))
		anthropicUsage(r, m[5].Get("usage"), tally{})
	case "content_block_start":
		anthropicBlock(r, index, m[4])
	case "content_block_delta":
		anthropicDelta(r, index, m[3])
	case "message_delta":
		r.finish(0, m[3].Get("stop_reason"))
		anthropicUsage(r, m[6], tallyOf(m[6].Get("output_tokens")))
	case "message_stop":
		r.end()
	case "error":
		r.failWith(v)
	case "ping", "content_block_stop":
	default:
		r.remark("foreign_event")
	}
}

// anthropicBlock reads the beginning of a block, which may hold text already, and
// a whole block of an answer that was not streamed.
func anthropicBlock(r *reading, index int, block value) {
	keys := [...]string{"text", "thinking", "id", "name", "input", "type"}
	var m [len(keys)]value
	block.Pick(keys[:], m[:])
	if !m[5].Is("tool_use") {
		r.content(0, m[0])
		r.reason(0, m[1])
		return
	}
	p := toolPiece{index: index, id: m[2], name: m[3]}
	if input := m[4]; input.Kind() == jsonview.Object && !bytes.Equal(compact(r, input), []byte("{}")) {
		p.arguments = input // an empty object only holds the place of the pieces
	}
	r.tool(0, p)
}

// compact is a value without white space; while live nobody looks at it.
func compact(r *reading, v value) []byte {
	if r.live {
		return nil
	}
	var b bytes.Buffer
	if json.Compact(&b, v.Raw()) != nil {
		return v.Raw()
	}
	return b.Bytes()
}

func anthropicDelta(r *reading, index int, delta value) {
	keys := [...]string{"text", "thinking", "partial_json"}
	var m [len(keys)]value
	delta.Pick(keys[:], m[:])
	r.content(0, m[0])
	r.reason(0, m[1])
	if m[2].Kind() == jsonview.String {
		r.tool(0, toolPiece{index: index, arguments: m[2]})
	}
}

// anthropicUsage: the prompt is the sum of what was computed, written to the
// cache and read from it. message_start may estimate; message_delta, where it
// counts the prompt at all, has the last word. The output that message_start
// tells is none yet, so the caller says which output counts.
func anthropicUsage(r *reading, u value, output tally) {
	if u.Missing() || r.live {
		return
	}
	read := tallyOf(u.Get("cache_read_input_tokens"))
	c := counts{
		input:  tallyOf(u.Get("input_tokens")),
		output: output,
		cached: read,
	}
	if c.input.have {
		c.input = c.input.plus(read, tallyOf(u.Get("cache_creation_input_tokens")))
	}
	before := r.counted.last
	if !c.input.have && c.input.why == "" {
		c.input, c.cached = before.input, before.cached
	}
	r.count(c)
}

func (anthropicMessages) body(r *reading, data []byte) {
	keys := [...]string{"error", "type", "content", "model", "stop_reason", "usage"}
	var m [len(keys)]value
	v, ok := r.object(nil, data, keys[:], m[:])
	switch {
	case !ok:
		return
	case m[1].Is("error"):
		r.failWith(v)
		return
	case m[2].Kind() != jsonview.Array:
		r.malformed("body holds no content", data)
		return
	}
	r.choice(0)
	index := 0
	for at := 0; ; index++ {
		block, more := m[2].Next(&at)
		if !more {
			break
		}
		anthropicBlock(r, index, block)
	}
	r.modelName(m[3])
	r.finish(0, m[4])
	anthropicUsage(r, m[5], tallyOf(m[5].Get("output_tokens")))
}
