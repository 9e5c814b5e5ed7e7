package engine

import (
	"bytes"

	"anvil/stages/internal/engine/jsonview"
)

// openaiResponses is /responses: typed events, of which the deltas are output and
// response.completed, response.incomplete and response.failed are the end.
type openaiResponses struct{}

func (openaiResponses) API() string { return "openai-responses" }

func (openaiResponses) Proof() Proof {
	return Proof{Captured: true, Source: "vLLM 0.32.0, llama.cpp b10434, Ollama 0.17.4"}
}

func (openaiResponses) Path(string, bool) string { return "/responses" }

func (openaiResponses) Framing() Framing { return EventStream }

func (openaiResponses) Cap() [][]string { return [][]string{{"max_output_tokens"}} }

func (openaiResponses) Unsent(s Sampling) []string {
	return s.unsent("temperature", "top_p", "reasoning_effort")
}

func (openaiResponses) Body(e *Endpoint, r Request, stream bool) (Fields, error) {
	f := Fields{"model": e.model(), "stream": stream}
	f["input"] = r.messages()
	if r.MaxTokens > 0 {
		f["max_output_tokens"] = r.MaxTokens
	}
	set(f, "temperature", r.Sampling.Temperature)
	set(f, "top_p", r.Sampling.TopP)
	if r.Sampling.ReasoningEffort != nil {
		f["reasoning"] = Fields{"effort": *r.Sampling.ReasoningEffort}
	}
	return f, nil
}

func (openaiResponses) event(r *reading, name, data []byte) {
	if isDone(data) { // the API has none; LiteLLM sends one
		r.end()
		return
	}
	keys := [...]string{"error", "type", "delta", "item", "item_id", "output_index", "response"}
	var m [len(keys)]value
	v, ok := r.object(name, data, keys[:], m[:])
	if !ok {
		return
	}
	e := responsesEvent{delta: m[2], item: m[3], itemID: m[4], response: m[6]}
	e.index, _ = indexOf(m[5])
	kind, prefixed := bytes.CutPrefix(unquoted(m[1]), []byte("response."))
	switch {
	case m[1].Is("error"):
		r.failWith(v)
	case !prefixed:
		r.remark("foreign_event")
	default:
		e.read(r, string(kind))
	}
}

// unquoted is a string that is written without escapes.
func unquoted(v value) []byte {
	if v.Kind() != jsonview.String {
		return nil
	}
	return v.Raw()[1 : len(v.Raw())-1]
}

type responsesEvent struct {
	delta, item, itemID, response value
	index                         int
}

func (e responsesEvent) read(r *reading, kind string) {
	switch kind {
	case "output_text.delta":
		r.content(0, e.delta)
	case "reasoning_text.delta", "reasoning_summary_text.delta", "reasoning.delta":
		r.reason(0, e.delta)
	case "refusal.delta":
		r.refuse(0, e.delta)
	case "function_call_arguments.delta":
		r.tool(0, toolPiece{index: e.index, id: e.itemID, arguments: e.delta})
	case "output_item.added":
		e.call(r, value{})
	case "output_item.done":
		e.doneCall(r)
	case "created", "in_progress":
		r.modelName(e.response.Get("model"))
	case "completed":
		e.end(r, "completed")
	case "incomplete":
		e.end(r, "incomplete")
	case "failed":
		e.end(r, "failed")
	}
}

func (e responsesEvent) end(r *reading, said string) {
	responsesEnd(r, e.response, said)
	r.end()
}

// call begins a tool call: its name is output.
func (e responsesEvent) call(r *reading, arguments value) {
	if !e.item.Get("type").Is("function_call") {
		return
	}
	if !arguments.Filled() {
		arguments = e.item.Get("arguments")
	}
	r.tool(0, toolPiece{
		index: e.index, id: e.item.Get("id"), call: e.item.Get("call_id"), name: e.item.Get("name"), arguments: arguments,
	})
}

// doneCall takes a whole call from a server that sent no pieces of it.
func (e responsesEvent) doneCall(r *reading) {
	if r.live || !e.item.Get("type").Is("function_call") {
		return
	}
	id := e.item.Get("id").Text()
	for _, t := range r.first().tools {
		if t.id == id && len(t.arguments) > 0 {
			return
		}
	}
	e.call(r, value{})
}

// responsesEnd reads the response object that the last event and an answer that
// was not streamed hold. said is what the type of the event says of its end. The
// worse of it and the object's own status counts: some servers leave the status
// out, and some call completed what their cap cut.
func responsesEnd(r *reading, response value, said string) {
	if r.live {
		return
	}
	status := response.Get("status")
	switch err := response.Get("error"); {
	case isError(err):
		r.failWith(err)
	case said == "failed" || status.Is("failed"):
		r.fail("failed", "the server ended the answer as failed")
	}
	r.modelName(response.Get("model"))
	switch reason := response.At("incomplete_details", "reason"); {
	case reason.Filled():
		r.finish(0, reason)
	case said == "failed", said == "incomplete", !status.Filled() && said != "":
		r.finishText(0, said)
	default:
		r.finish(0, status)
	}
	r.finished = true
	responsesUsage(r, response.Get("usage"))
}

func responsesUsage(r *reading, u value) {
	if u.Missing() || r.live {
		return
	}
	r.count(counts{
		input:     tallyOf(u.Get("input_tokens")),
		output:    tallyOf(u.Get("output_tokens")),
		reasoning: tallyOf(u.At("output_tokens_details", "reasoning_tokens")),
		cached:    tallyOf(u.At("input_tokens_details", "cached_tokens")),
	})
}

func (openaiResponses) body(r *reading, data []byte) {
	keys := [...]string{"error", "output"}
	var m [len(keys)]value
	response, ok := r.object(nil, data, keys[:], m[:])
	if !ok {
		return
	}
	if m[1].Kind() != jsonview.Array {
		r.malformed("body holds no output", data)
		return
	}
	r.choice(0)
	index := 0
	for at := 0; ; index++ {
		item, more := m[1].Next(&at)
		if !more {
			break
		}
		responsesItem(r, index, item)
	}
	responsesEnd(r, response, "")
}

// responsesItem reads one item of output: a message, a thought or a call.
func responsesItem(r *reading, index int, item value) {
	kind := item.Get("type")
	if kind.Is("function_call") {
		responsesEvent{item: item, index: index}.call(r, value{})
		return
	}
	for _, list := range []value{item.Get("content"), item.Get("summary")} {
		for at := 0; ; {
			part, more := list.Next(&at)
			if !more {
				break
			}
			if kind.Is("reasoning") {
				r.reason(0, part.Get("text"))
				continue
			}
			r.content(0, part.Get("text"))
			r.refuse(0, part.Get("refusal"))
		}
	}
}
