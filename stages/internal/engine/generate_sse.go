package engine

import "anvil/stages/internal/engine/jsonview"

// generateSSE is the simple server of seeds/live-http-run.json (plan-keys.md):
// data is the text itself, or an object with text, token or token.text. It has no
// finish reason and no counts; [DONE], "event: done" or a clean end ends it.
type generateSSE struct{}

func (generateSSE) API() string { return "generate-sse" }

func (generateSSE) Proof() Proof { return Proof{Source: "plan-keys.md, Endpoint"} }

func (generateSSE) Path(string, bool) string { return "/generate" }

func (generateSSE) Framing() Framing { return EventStream }

func (generateSSE) Cap() [][]string { return [][]string{{"max_tokens"}} }

func (generateSSE) Unsent(s Sampling) []string { return s.unsent() }

func (generateSSE) Body(_ *Endpoint, r Request, stream bool) (Fields, error) {
	return Fields{"prompt": r.prompt(), "max_tokens": r.MaxTokens, "stream": stream}, nil
}

func (generateSSE) hasNoFinishReason() {}

func (generateSSE) event(r *reading, name, data []byte) {
	if isDone(data) {
		r.end()
		return
	}
	if string(name) == "done" {
		r.end()
	}
	v, valid := jsonview.Parse(data)
	switch {
	case string(name) == "error":
		r.failRawOr(v, valid, data)
	case !valid || v.Kind() != jsonview.Object:
		if string(name) != "done" {
			r.contentText(data)
		}
	case isError(v.Get("error")):
		r.failWith(v.Get("error"))
	default:
		text, isToken := generatedText(v)
		if isToken {
			r.contentText(r.text(text))
		} else {
			r.contentPiece(r.text(text)) // may be all so far (nm-vllm #142)
		}
	}
}

func (r *reading) failRawOr(v value, valid bool, data []byte) {
	if !valid {
		r.failRaw(data)
		return
	}
	if inner := v.Get("error"); isError(inner) {
		v = inner
	}
	r.failWith(v)
}

// generatedText finds the text in an object, and tells whether it is a token's.
func generatedText(v value) (text value, isToken bool) {
	if text := v.Get("text"); text.Kind() == jsonview.String {
		return text, false
	}
	token := v.Get("token")
	if token.Kind() == jsonview.Object {
		return token.Get("text"), true
	}
	return token, true
}

func (generateSSE) body(r *reading, data []byte) {
	keys := [...]string{"error"}
	var m [len(keys)]value
	v, ok := r.object(nil, data, keys[:], m[:])
	if !ok {
		return
	}
	text, _ := generatedText(v)
	if text.Kind() != jsonview.String {
		r.malformed("body holds no text", data)
		return
	}
	r.choice(0)
	r.content(0, text)
}
