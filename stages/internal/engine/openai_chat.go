package engine

import "anvil/stages/internal/engine/jsonview"

// openaiChat is /chat/completions as OpenAI documents it and as vLLM, SGLang,
// llama.cpp, Ollama, LiteLLM, transformers and llama-cpp-python serve it.
type openaiChat struct{}

func (openaiChat) API() string { return "openai-chat" }

func (openaiChat) Proof() Proof {
	return Proof{Captured: true, Source: "vLLM 0.32.0, llama.cpp 2025-02 to b10434, Ollama 0.17.4, LiteLLM 1.108.7, transformers 5.19.0, llama-cpp-python 0.3.36"}
}

func (openaiChat) Path(string, bool) string { return "/chat/completions" }

func (openaiChat) Framing() Framing { return EventStream }

func (openaiChat) Cap() [][]string { return [][]string{{"max_completion_tokens"}, {"max_tokens"}} }

func (openaiChat) Unsent(Sampling) []string { return nil }

func (openaiChat) Body(e *Endpoint, r Request, stream bool) (Fields, error) {
	f := openaiFields(e, r, stream)
	f["messages"] = r.messages()
	set(f, "reasoning_effort", r.Sampling.ReasoningEffort)
	switch r.Sampling.Thinking {
	case "enabled":
		f["chat_template_kwargs"] = thinking(true)
	case "disabled":
		f["chat_template_kwargs"] = thinking(false)
	}
	return f, nil
}

// thinking are the names under which chat templates look for the switch: Qwen's
// and GLM's, then DeepSeek's and Granite's. Templates ignore what they do not know.
func thinking(on bool) Fields { return Fields{"enable_thinking": on, "thinking": on} }

// openaiFields are the members that chat completions and completions share.
func openaiFields(e *Endpoint, r Request, stream bool) Fields {
	f := Fields{"model": e.model(), "stream": stream}
	if stream && e.IncludeUsage {
		f["stream_options"] = Fields{"include_usage": true}
	}
	field := e.MaxTokensField
	if field == "" {
		field = "max_tokens"
	}
	if r.MaxTokens > 0 {
		f[field] = r.MaxTokens
	}
	s := r.Sampling
	set(f, "temperature", s.Temperature)
	set(f, "top_p", s.TopP)
	set(f, "seed", s.Seed)
	set(f, "min_tokens", s.MinTokens)
	set(f, "ignore_eos", s.IgnoreEOS)
	if s.Stop != nil {
		f["stop"] = s.Stop
	}
	return f
}

func (openaiChat) event(r *reading, name, data []byte) {
	if m, ok := openaiEvent(r, name, data); ok {
		openaiChoices(r, m.choices, "delta")
	}
}

func (openaiChat) body(r *reading, data []byte) {
	if m, ok := openaiWhole(r, data); ok {
		openaiChoices(r, m.choices, "message")
	}
}

// openaiMembers are the members of a chunk or a completion that matter.
type openaiMembers struct{ choices, usage, model, delta value }

// openaiEvent reads what every event of the OpenAI shapes may be: the end mark, an
// error, nothing, or a chunk, of which the choices are left to the caller.
func openaiEvent(r *reading, name, data []byte) (m openaiMembers, chunk bool) {
	if isDone(data) {
		r.end()
		return m, false
	}
	keys := [...]string{"error", "object", "choices", "usage", "model", "delta"}
	var out [len(keys)]value
	v, ok := r.object(name, data, keys[:], out[:])
	if !ok {
		return m, false
	}
	if out[1].Is("error") {
		r.failWith(v)
		return m, false
	}
	m = openaiMembers{choices: out[2], usage: out[3], model: out[4], delta: out[5]}
	return m, openaiChunk(r, m)
}

// openaiChunk judges the shape of an event and takes all but its choices.
func openaiChunk(r *reading, m openaiMembers) bool {
	if m.choices.Kind() == jsonview.Absent && m.usage.Kind() == jsonview.Absent && m.delta.Kind() == jsonview.Absent {
		r.remark("foreign_event")
		return false
	}
	if !m.choices.Missing() && m.choices.Kind() != jsonview.Array {
		r.malformed("choices is no list", m.choices.Raw())
		return false
	}
	r.modelName(m.model)
	openaiUsage(r, m.usage)
	return true
}

// openaiWhole reads the body of an answer that was not streamed.
func openaiWhole(r *reading, data []byte) (m openaiMembers, ok bool) {
	keys := [...]string{"error", "object", "choices", "usage", "model"}
	var out [len(keys)]value
	v, ok := r.object(nil, data, keys[:], out[:])
	switch {
	case !ok:
		return m, false
	case out[1].Is("error"):
		r.failWith(v)
		return m, false
	case out[2].Kind() != jsonview.Array:
		r.malformed("body holds no choices", data)
		return m, false
	}
	m = openaiMembers{choices: out[2], usage: out[3], model: out[4]}
	r.modelName(m.model)
	openaiUsage(r, m.usage)
	return m, true
}

func openaiChoices(r *reading, choices value, kind string) {
	for at := 0; ; {
		c, more := choices.Next(&at)
		if !more {
			return
		}
		openaiChoice(r, c, kind)
	}
}

// openaiChoice reads one entry of choices: a chat delta or message, or the text
// of a completion.
func openaiChoice(r *reading, c value, kind string) {
	keys := [...]string{"index", kind, "text", "finish_reason"}
	var m [len(keys)]value
	c.Pick(keys[:], m[:])
	index, ok := indexOf(m[0])
	if !ok || c.Kind() != jsonview.Object || !m[1].Missing() && m[1].Kind() != jsonview.Object {
		r.malformed("not a choice", c.Raw())
		return
	}
	if !r.live {
		r.choice(index)
	}
	if r.keepLogprobs {
		r.likely(index, c.Get("logprobs"))
	}
	openaiDelta(r, index, m[1])
	openaiText(r, index, m[2])
	r.finish(index, m[3])
}

// indexOf reads an index, 0 where there is none.
func indexOf(v value) (index int, ok bool) {
	if v.Missing() {
		return 0, true
	}
	n, ok := v.Int()
	return int(n), ok && n >= 0 && n < 1<<31
}

func openaiDelta(r *reading, index int, delta value) {
	keys := [...]string{"content", "reasoning_content", "reasoning", "thinking", "tool_calls", "function_call", "refusal"}
	var m [len(keys)]value
	delta.Pick(keys[:], m[:])
	openaiText(r, index, m[0])
	openaiReasoning(r, index, m[1], m[2], m[3])
	openaiTools(r, index, m[4], m[5])
	r.refuse(index, m[6])
}

// openaiReasoning: the same thought under two names is one delta.
func openaiReasoning(r *reading, index int, names ...value) {
	var before value
	for _, v := range names {
		if !v.Filled() || v.Same(before) {
			continue
		}
		if before.Filled() {
			r.remark("reasoning_names_differ")
		}
		r.reason(index, v)
		before = v
	}
}

// openaiText takes content: a string, or a list of parts.
func openaiText(r *reading, index int, v value) {
	switch v.Kind() {
	case jsonview.Absent, jsonview.Null:
	case jsonview.String:
		r.content(index, v)
	case jsonview.Array:
		for at := 0; ; {
			part, more := v.Next(&at)
			if !more {
				return
			}
			openaiPart(r, index, part)
		}
	default:
		r.malformed("content is no text", v.Raw())
	}
}

func openaiPart(r *reading, index int, part value) {
	keys := [...]string{"text", "thinking"}
	var m [len(keys)]value
	part.Pick(keys[:], m[:])
	r.content(index, m[0])
	if m[1].Kind() != jsonview.Array {
		r.reason(index, m[1])
		return
	}
	for at := 0; ; {
		thought, more := m[1].Next(&at)
		if !more {
			return
		}
		r.reason(index, thought.Get("text"))
	}
}

// openaiTools takes tool calls; function_call is their old form, which some
// servers send beside them.
func openaiTools(r *reading, index int, calls, old value) {
	if !calls.Missing() && calls.Kind() != jsonview.Array {
		r.malformed("tool_calls is no list", calls.Raw())
		return
	}
	if calls.Missing() {
		if old.Kind() == jsonview.Object {
			r.tool(index, toolPiece{name: old.Get("name"), arguments: old.Get("arguments")})
		}
		return
	}
	n := 0
	for at := 0; ; n++ {
		call, more := calls.Next(&at)
		if !more {
			return
		}
		keys := [...]string{"index", "id", "function"}
		var m [len(keys)]value
		call.Pick(keys[:], m[:])
		p := toolPiece{index: n, id: m[1], name: m[2].Get("name"), arguments: m[2].Get("arguments")}
		if i, ok := indexOf(m[0]); ok && !m[0].Missing() {
			p.index = i
		}
		r.tool(index, p)
	}
}

func openaiUsage(r *reading, u value) {
	if u.Missing() || r.live {
		return
	}
	if u.Kind() != jsonview.Object {
		r.count(counts{input: tally{why: "not an object"}, output: tally{why: "not an object"}})
		return
	}
	in, out := u.Get("prompt_tokens_details"), u.Get("completion_tokens_details")
	r.count(counts{
		input:     tallyOf(u.Get("prompt_tokens")),
		output:    tallyOf(u.Get("completion_tokens")),
		reasoning: tallyOf(out.Get("reasoning_tokens")).or(tallyOf(u.Get("reasoning_tokens"))),
		cached:    tallyOf(in.Get("cached_tokens")).or(tallyOf(u.Get("prompt_cache_hit_tokens"))),
	})
}
