package engine

// openaiCompletions is /completions: as chat, with a prompt and choices[].text.
type openaiCompletions struct{}

func (openaiCompletions) API() string { return "openai-completions" }

func (openaiCompletions) Proof() Proof {
	return Proof{Captured: true, Source: "vLLM 0.32.0, llama.cpp 2025-02 to b10434, llama-cpp-python 0.3.36"}
}

func (openaiCompletions) Path(string, bool) string { return "/completions" }

func (openaiCompletions) Framing() Framing { return EventStream }

func (openaiCompletions) Cap() [][]string { return openaiChat{}.Cap() }

func (openaiCompletions) Unsent(s Sampling) []string {
	return s.unsent("temperature", "top_p", "seed", "stop", "min_tokens", "ignore_eos")
}

func (openaiCompletions) Body(e *Endpoint, r Request, stream bool) (Fields, error) {
	f := openaiFields(e, r, stream)
	f["prompt"] = r.prompt()
	return f, nil
}

func (openaiCompletions) event(r *reading, name, data []byte) { openaiChat{}.event(r, name, data) }

func (openaiCompletions) body(r *reading, data []byte) { openaiChat{}.body(r, data) }
