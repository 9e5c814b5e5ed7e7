package engine

import (
	"strings"

	"anvil/stages/internal/engine/jsonview"
)

// ollama is Ollama's own /api/chat (and, by path, /api/generate): one JSON object
// a line, the last with done and the counts.
type ollama struct{}

func (ollama) API() string { return "ollama" }

func (ollama) Proof() Proof { return Proof{Captured: true, Source: "Ollama 0.17.4"} }

func (ollama) Path(string, bool) string { return "/api/chat" }

func (ollama) Framing() Framing { return Lines }

func (ollama) Cap() [][]string { return [][]string{{"options", "num_predict"}} }

func (ollama) Unsent(s Sampling) []string {
	return s.unsent("temperature", "top_p", "seed", "stop", "reasoning_effort", "thinking")
}

func (ollama) Body(e *Endpoint, r Request, stream bool) (Fields, error) {
	options := Fields{}
	if r.MaxTokens > 0 {
		options["num_predict"] = r.MaxTokens
	}
	s := r.Sampling
	set(options, "temperature", s.Temperature)
	set(options, "top_p", s.TopP)
	set(options, "seed", s.Seed)
	if s.Stop != nil {
		options["stop"] = s.Stop
	}
	f := Fields{"model": e.model(), "stream": stream, "options": options}
	if e.Path != nil && strings.HasSuffix(*e.Path, "/generate") {
		f["prompt"] = r.prompt()
	} else {
		f["messages"] = r.messages()
	}
	switch {
	case s.Thinking == "disabled":
		f["think"] = false
	case s.ReasoningEffort != nil:
		f["think"] = *s.ReasoningEffort
	case s.Thinking == "enabled":
		f["think"] = true
	}
	return f, nil
}

func (ollama) event(r *reading, name, data []byte) { ollamaObject(r, name, data) }

func (ollama) body(r *reading, data []byte) { ollamaObject(r, nil, data) }

func ollamaObject(r *reading, name, data []byte) {
	keys := [...]string{"error", "message", "response", "thinking", "done", "done_reason", "model"}
	var m [len(keys)]value
	v, ok := r.object(name, data, keys[:], m[:])
	if !ok {
		return
	}
	if m[1].Missing() && m[2].Missing() && m[4].Missing() {
		r.remark("foreign_event")
		return
	}
	if !r.live {
		r.choice(0)
	}
	r.modelName(m[6])
	ollamaMessage(r, m[1])
	r.content(0, m[2])
	r.reason(0, m[3])
	if m[4].True() {
		ollamaDone(r, v, m[5])
	}
}

func ollamaMessage(r *reading, message value) {
	keys := [...]string{"content", "thinking", "tool_calls"}
	var m [len(keys)]value
	message.Pick(keys[:], m[:])
	r.content(0, m[0])
	r.reason(0, m[1])
	ollamaTools(r, m[2])
}

// ollamaTools takes calls, each of which is whole. Their index stands inside the
// function; old servers have none, and then it is the order that tells them apart.
func ollamaTools(r *reading, calls value) {
	if !calls.Missing() && calls.Kind() != jsonview.Array {
		r.malformed("tool_calls is no list", calls.Raw())
		return
	}
	for at := 0; ; {
		call, more := calls.Next(&at)
		if !more {
			return
		}
		keys := [...]string{"index", "name", "arguments"}
		var m [len(keys)]value
		call.Get("function").Pick(keys[:], m[:])
		p := toolPiece{id: call.Get("id"), name: m[1], arguments: m[2]}
		if i, ok := indexOf(m[0]); ok && !m[0].Missing() {
			p.index = i
		} else if !r.live {
			p.index = len(r.first().tools)
		}
		r.tool(0, p)
	}
}

// ollamaDone reads the last object. Old servers give no reason.
func ollamaDone(r *reading, v, reason value) {
	r.end()
	if r.live {
		return
	}
	if reason.Filled() {
		r.finish(0, reason)
	} else {
		r.finishText(0, "stop")
	}
	input, output := v.Get("prompt_eval_count"), v.Get("eval_count")
	if input.Missing() && output.Missing() {
		return
	}
	r.count(counts{input: tallyOf(input), output: tallyOf(output)})
}
