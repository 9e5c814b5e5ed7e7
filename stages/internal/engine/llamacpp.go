package engine

import "anvil/stages/internal/engine/jsonview"

// llamaCPP is llama.cpp's own /completion: pieces of content, the last event with
// "stop": true and the counts. It has no other end mark.
type llamaCPP struct{}

func (llamaCPP) API() string { return "llamacpp" }

func (llamaCPP) Proof() Proof {
	return Proof{Captured: true, Source: "llama.cpp 2025-02 (c392e5094), 2026-08 (d32676d77), b10434"}
}

func (llamaCPP) Path(string, bool) string { return "/completion" }

func (llamaCPP) Framing() Framing { return EventStream }

func (llamaCPP) Cap() [][]string { return [][]string{{"n_predict"}} }

func (llamaCPP) Unsent(s Sampling) []string {
	return s.unsent("temperature", "top_p", "seed", "stop", "ignore_eos")
}

func (llamaCPP) Body(_ *Endpoint, r Request, stream bool) (Fields, error) {
	f := Fields{"prompt": r.prompt(), "stream": stream}
	if r.MaxTokens > 0 {
		f["n_predict"] = r.MaxTokens
	}
	s := r.Sampling
	set(f, "temperature", s.Temperature)
	set(f, "top_p", s.TopP)
	set(f, "seed", s.Seed)
	set(f, "ignore_eos", s.IgnoreEOS)
	if s.Stop != nil {
		f["stop"] = s.Stop
	}
	return f, nil
}

func (llamaCPP) event(r *reading, name, data []byte) {
	if isDone(data) {
		r.end()
		return
	}
	llamaObject(r, name, data)
}

func (llamaCPP) body(r *reading, data []byte) { llamaObject(r, nil, data) }

func llamaObject(r *reading, name, data []byte) {
	keys := [...]string{"error", "content", "stop", "index", "model"}
	var m [len(keys)]value
	v, ok := r.object(name, data, keys[:], m[:])
	if !ok {
		return
	}
	if m[1].Missing() && m[2].Missing() {
		r.remark("foreign_event")
		return
	}
	index, _ := indexOf(m[3])
	if !r.live {
		r.choice(index)
	}
	r.modelName(m[4])
	r.content(index, m[1])
	stopped := m[2].True()
	if stopped {
		r.end()
	}
	if !r.live {
		llamaCounts(r, v, index, stopped)
	}
}

// llamaCounts reads the counts, which new servers put into every event.
func llamaCounts(r *reading, v value, index int, stopped bool) {
	if stopped {
		r.finishText(index, llamaReason(v))
	}
	input, output := v.Get("tokens_evaluated"), v.Get("tokens_predicted")
	if input.Missing() && output.Missing() {
		return
	}
	r.count(counts{input: tallyOf(input), output: tallyOf(output), cached: tallyOf(v.At("timings", "cache_n"))})
}

// llamaReason is stop_type; servers before it had one member for each reason.
func llamaReason(v value) string {
	if reason := v.Get("stop_type"); reason.Kind() == jsonview.String {
		return reason.Text()
	}
	for _, kind := range []string{"eos", "limit", "word"} {
		if v.Get("stopped_" + kind).True() {
			return kind
		}
	}
	return "stop"
}
