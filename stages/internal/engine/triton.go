package engine

import "anvil/stages/internal/engine/jsonview"

// triton is the generate extension of Triton Inference Server, as its vLLM and
// TensorRT-LLM backends serve it. It has no finish reason and no counts.
//
// From its published documentation:
// https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/protocol/extension_generate.html
type triton struct{}

func (triton) API() string { return "triton" }

func (triton) Proof() Proof {
	return Proof{Source: "https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/protocol/extension_generate.html"}
}

func (triton) Path(model string, stream bool) string {
	if stream {
		return "/v2/models/" + model + "/generate_stream"
	}
	return "/v2/models/" + model + "/generate"
}

func (triton) Framing() Framing { return EventStream }

func (triton) Cap() [][]string { return [][]string{{"max_tokens"}} }

func (triton) Unsent(s Sampling) []string { return s.unsent("temperature", "top_p", "seed", "stop") }

func (triton) Body(_ *Endpoint, r Request, stream bool) (Fields, error) {
	f := Fields{"text_input": r.prompt(), "stream": stream}
	if r.MaxTokens > 0 {
		f["max_tokens"] = r.MaxTokens
	}
	s := r.Sampling
	set(f, "temperature", s.Temperature)
	set(f, "top_p", s.TopP)
	set(f, "random_seed", s.Seed)
	if s.Stop != nil {
		f["stop_words"] = s.Stop
	}
	return f, nil
}

func (triton) hasNoFinishReason() {}

func (triton) event(r *reading, name, data []byte) {
	if isDone(data) {
		r.end()
		return
	}
	keys := [...]string{"error", "text_output", "model_name"}
	var m [len(keys)]value
	if _, ok := r.object(name, data, keys[:], m[:]); !ok {
		return
	}
	if m[1].Kind() != jsonview.String {
		r.remark("foreign_event")
		return
	}
	r.modelName(m[2])
	r.contentPiece(r.text(m[1]))
}

func (triton) body(r *reading, data []byte) {
	keys := [...]string{"error", "text_output", "model_name"}
	var m [len(keys)]value
	if _, ok := r.object(nil, data, keys[:], m[:]); !ok {
		return
	}
	if m[1].Kind() != jsonview.String {
		r.malformed("body holds no text_output", data)
		return
	}
	r.choice(0)
	r.modelName(m[2])
	r.content(0, m[1])
}
