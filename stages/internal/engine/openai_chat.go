package engine

type openaiChat struct{}

func (openaiChat) API() string                         { return "openai-chat" }
func (openaiChat) Proof() Proof                        { return Proof{Captured: true} }
func (openaiChat) Path(string, bool) string            { return "/chat/completions" }
func (openaiChat) Framing() Framing                    { return EventStream }
func (openaiChat) Unsent(Sampling) []string            { return nil }
func (openaiChat) event(r *reading, name, data []byte) {}
func (openaiChat) body(r *reading, data []byte)        {}
func (openaiChat) Body(e *Endpoint, r Request, stream bool) (Fields, error) {
	return Fields{"model": e.model(), "messages": r.messages()}, nil
}
