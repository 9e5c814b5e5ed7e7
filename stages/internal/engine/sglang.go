package engine

import "anvil/stages/internal/engine/jsonview"

// sglang is SGLang's own /generate: each event repeats the text from its
// beginning, unless the server was told to send pieces.
//
// From its published documentation:
// https://docs.sglang.io/basic_usage/native_api.html
// https://docs.sglang.io/basic_usage/sampling_params.html
type sglang struct{}

func (sglang) API() string { return "sglang" }

func (sglang) Proof() Proof {
	return Proof{Source: "https://docs.sglang.io/basic_usage/native_api.html"}
}

func (sglang) Path(string, bool) string { return "/generate" }

func (sglang) Framing() Framing { return EventStream }

func (sglang) Cap() [][]string { return [][]string{{"sampling_params", "max_new_tokens"}} }

func (sglang) Unsent(s Sampling) []string {
	return s.unsent("temperature", "top_p", "seed", "stop", "min_tokens", "ignore_eos")
}

func (sglang) Body(_ *Endpoint, r Request, stream bool) (Fields, error) {
	p := Fields{}
	if r.MaxTokens > 0 {
		p["max_new_tokens"] = r.MaxTokens
	}
	s := r.Sampling
	set(p, "temperature", s.Temperature)
	set(p, "top_p", s.TopP)
	set(p, "sampling_seed", s.Seed)
	set(p, "min_new_tokens", s.MinTokens)
	set(p, "ignore_eos", s.IgnoreEOS)
	if s.Stop != nil {
		p["stop"] = s.Stop
	}
	return Fields{"text": r.prompt(), "sampling_params": p, "stream": stream}, nil
}

func (sglang) event(r *reading, name, data []byte) {
	if isDone(data) {
		r.end()
		return
	}
	keys := [...]string{"error", "text", "meta_info", "index", "object"}
	var m [len(keys)]value
	v, ok := r.object(name, data, keys[:], m[:])
	switch {
	case !ok:
		return
	case m[4].Is("error"):
		r.failWith(v)
		return
	case m[1].Missing() && m[2].Missing():
		r.remark("foreign_event")
		return
	}
	if index, _ := indexOf(m[3]); index > 0 { // another choice, kept apart
		if !r.live {
			r.choice(index)
		}
		return
	}
	r.contentSoFar(m[1])
	sglangMeta(r, m[2])
}

func sglangMeta(r *reading, meta value) {
	if meta.Missing() || r.live {
		return
	}
	r.choice(0)
	reason := meta.Get("finish_reason")
	if reason.Kind() == jsonview.Object {
		if reason.Get("type").Is("abort") {
			r.fail("finish_abort", reason.Get("message").Text())
		}
		reason = reason.Get("type")
	}
	r.finish(0, reason)
	r.count(counts{
		input:     tallyOf(meta.Get("prompt_tokens")),
		output:    tallyOf(meta.Get("completion_tokens")),
		cached:    tallyOf(meta.Get("cached_tokens")),
		reasoning: tallyOf(meta.Get("reasoning_tokens")),
	})
}

func (sglang) body(r *reading, data []byte) {
	keys := [...]string{"error", "text", "meta_info", "object"}
	var m [len(keys)]value
	v, ok := r.object(nil, data, keys[:], m[:])
	switch {
	case !ok:
	case m[3].Is("error"):
		r.failWith(v)
	case m[1].Kind() != jsonview.String:
		r.malformed("body holds no text", data)
	default:
		r.content(0, m[1])
		sglangMeta(r, m[2])
	}
}
