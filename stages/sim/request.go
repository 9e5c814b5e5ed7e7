package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Window is how many tokens the model's context holds.
const Window = 1 << 18

const (
	maxBody           = 16 << 20
	maxBodies         = 256 << 20 // of all bodies that are held at the same time
	defaultCompletion = 16        // max_tokens of a completion that names none
	defaultEndless    = 4096      // and of a request with ignore_eos that names none
)

// A request is what a client asks for, checked.
type request struct {
	chat            bool
	arrived         time.Duration // when its last byte had come
	prompt          prompt
	limits          limits
	stream          bool
	includeUsage    bool
	continuousUsage bool
	logprobs        bool
	topLogprobs     int
	tokenIDs        bool
}

// An apiError is an answer that is an OpenAI-style error.
type apiError struct {
	status     int
	message    string
	kind       string // "type" on the wire
	param      string // "" is null
	retryAfter int    // seconds; 0: none
}

func badRequest(param, format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, kind: "BadRequestError", param: param, message: fmt.Sprintf(format, args...)}
}

func (e *apiError) body() []byte {
	var param any
	if e.param != "" {
		param = e.param
	}
	b, err := json.Marshal(map[string]any{"error": map[string]any{
		"message": e.message, "type": e.kind, "param": param, "code": e.status,
	}})
	if err != nil {
		return []byte(`{"error":{}}`)
	}
	return b
}

// A body reads the members of a request's object and remembers what was first
// wrong. A member that is null is as good as absent.
type body struct {
	members    map[string]json.RawMessage
	keepTokens bool // prompts keep their tokens, not only their number
	err        *apiError
}

func parseBody(src []byte) (*body, *apiError) {
	b := &body{}
	if err := json.Unmarshal(src, &b.members); err != nil {
		return nil, badRequest("", "the body is not a JSON object: %v", err)
	}
	if b.members == nil {
		return nil, badRequest("", "the body is null, want a JSON object")
	}
	return b, nil
}

// has says whether the member is there and not null.
func (b *body) has(name string) bool {
	v, ok := b.members[name]
	return ok && !bytes.Equal(bytes.TrimSpace(v), []byte("null"))
}

// read decodes a member into v, which keeps its value where there is none.
func (b *body) read(name, want string, v any) {
	if !b.has(name) || b.err != nil {
		return
	}
	if err := json.Unmarshal(b.members[name], v); err != nil {
		b.err = badRequest(name, "%s: want %s", name, want)
	}
}

func (b *body) check(ok bool, param, format string, args ...any) {
	if !ok && b.err == nil {
		b.err = badRequest(param, format, args...)
	}
}

// parseRequest reads a generation request. Members that it does not know are
// ignored, as engines do.
func parseRequest(b *body, chat bool) (*request, *apiError) {
	r := &request{chat: chat, limits: limits{thinking: chat}}
	r.prompt = b.prompt(chat)
	r.limits.maxTokens = b.maxTokens(chat)
	b.readLimits(&r.limits)
	b.readStream(r)
	b.readLogprobs(r)
	b.readSampling()
	if b.err != nil {
		return nil, b.err
	}
	return r, r.fit()
}

// maxTokens returns the cap on output tokens; 0 where the request names none.
func (b *body) maxTokens(chat bool) int {
	name := "max_tokens"
	if chat && b.has("max_completion_tokens") {
		name = "max_completion_tokens"
	}
	n := 0
	b.read(name, "an integer", &n)
	b.check(n >= 1 || !b.has(name), name, "%s must be at least 1, got %d", name, n)
	b.check(n <= Window, name, "%s=%d cannot be greater than max_model_len=%d", name, n, Window)
	return n
}

func (b *body) readLimits(l *limits) {
	b.read("min_tokens", "an integer", &l.minTokens)
	b.check(l.minTokens >= 0, "min_tokens", "min_tokens must not be negative, got %d", l.minTokens)
	b.check(l.maxTokens == 0 || l.minTokens <= l.maxTokens, "min_tokens", "min_tokens must not be greater than max_tokens=%d, got %d", l.maxTokens, l.minTokens)
	b.read("ignore_eos", "a boolean", &l.ignoreEOS)
	l.stop = b.texts("stop")
	var effort string
	b.read("reasoning_effort", "a string", &effort)
	template := struct {
		EnableThinking *bool `json:"enable_thinking"`
		Thinking       *bool `json:"thinking"`
	}{}
	b.read("chat_template_kwargs", "an object with boolean enable_thinking or thinking", &template)
	off := func(v *bool) bool { return v != nil && !*v }
	if effort == "none" || off(template.EnableThinking) || off(template.Thinking) {
		l.thinking = false
	}
}

// texts reads a member that is a string or an array of strings.
func (b *body) texts(name string) (out []string) {
	var one string
	if b.has(name) && json.Unmarshal(b.members[name], &one) == nil {
		return nonEmpty([]string{one})
	}
	b.read(name, "a string or an array of strings", &out)
	return nonEmpty(out)
}

func nonEmpty(in []string) (out []string) {
	for _, s := range in {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

func (b *body) readStream(r *request) {
	b.read("stream", "a boolean", &r.stream)
	options := struct {
		IncludeUsage bool `json:"include_usage"`
		Continuous   bool `json:"continuous_usage_stats"`
	}{}
	b.read("stream_options", "an object with boolean include_usage and continuous_usage_stats", &options)
	r.includeUsage = options.IncludeUsage
	r.continuousUsage = options.IncludeUsage && options.Continuous
	b.read("return_token_ids", "a boolean", &r.tokenIDs)
}

func (b *body) readLogprobs(r *request) {
	if !r.chat {
		r.logprobs = b.has("logprobs")
		b.read("logprobs", "an integer", &r.topLogprobs)
	} else {
		b.read("logprobs", "a boolean", &r.logprobs)
		b.read("top_logprobs", "an integer", &r.topLogprobs)
	}
	b.check(r.topLogprobs >= 0 && r.topLogprobs <= 20, "top_logprobs", "want 0 to 20 alternatives, got %d", r.topLogprobs)
}

// readSampling checks what has no influence here, so that a typing error does
// not pass unnoticed where a real engine would refuse it.
func (b *body) readSampling() {
	n, temperature, topP := 1, 1.0, 1.0
	b.read("n", "an integer", &n)
	b.check(n == 1, "n", "n: the simulated engine gives one choice, got %d", n)
	b.read("temperature", "a number", &temperature)
	b.check(temperature >= 0, "temperature", "temperature must be non-negative, got %v", temperature)
	b.read("top_p", "a number", &topP)
	b.check(topP > 0 && topP <= 1, "top_p", "top_p must be in (0, 1], got %v", topP)
	var seed int64
	b.read("seed", "an integer", &seed)
}

// fit gives an answer its room: what the request asks for, at most what is
// left of the window.
func (r *request) fit() *apiError {
	left := Window - r.prompt.chain.tokens
	if left < 1 {
		return badRequest("input_tokens", "This model's maximum context length is %d tokens. However, your prompt contains %d input tokens.", Window, r.prompt.chain.tokens)
	}
	switch {
	case r.limits.maxTokens > 0:
	case r.limits.ignoreEOS:
		r.limits.maxTokens = max(defaultEndless, r.limits.minTokens)
	case r.chat:
		r.limits.maxTokens = left
	default:
		r.limits.maxTokens = max(defaultCompletion, r.limits.minTokens)
	}
	r.limits.maxTokens = min(r.limits.maxTokens, left)
	return nil
}

// A prompt is what the model reads.
type prompt struct {
	chain  blockChain
	all    string // all text of it
	last   string // what the user said last
	keep   bool
	tokens []string // only with keep
}

func (b *body) prompt(chat bool) prompt {
	if chat {
		return b.chatPrompt()
	}
	return b.textPrompt()
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// chatPrompt reads messages. The template costs 5 tokens a message beside its
// content and 3 for the answer's beginning.
func (b *body) chatPrompt() prompt {
	var messages []message
	b.read("messages", "an array of objects with role and content", &messages)
	b.check(len(messages) > 0, "messages", "messages: want at least one message")
	p := prompt{keep: b.keepTokens}
	var all strings.Builder
	for i, m := range messages {
		text := b.content(i, m)
		if m.Role == "user" || p.last == "" {
			p.last = text
		}
		all.WriteString(text + "\n\n")
		p.add("<|im_start|>", m.Role, "\n")
		p.addText(text)
		p.add("<|im_end|>", "\n")
	}
	p.add("<|im_start|>", "assistant", "\n")
	p.all = all.String()
	return p
}

// content reads a message's content: a string, null or an array of text parts.
func (b *body) content(i int, m message) string {
	param := fmt.Sprintf("messages[%d].content", i)
	b.check(m.Role != "", fmt.Sprintf("messages[%d].role", i), "messages[%d].role: want a string", i)
	if len(m.Content) == 0 || bytes.Equal(m.Content, []byte("null")) {
		return ""
	}
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return text
	}
	var parts []struct{ Type, Text string }
	err := json.Unmarshal(m.Content, &parts)
	b.check(err == nil, param, "%s: want a string or an array of parts", param)
	for _, part := range parts {
		b.check(part.Type == "text", param, "%s: the simulated engine reads text, not %q", param, part.Type)
		text += part.Text
	}
	return text
}

// textPrompt reads a completion's prompt: a string, an array of one, or token ids.
func (b *body) textPrompt() prompt {
	p := prompt{keep: b.keepTokens}
	b.check(b.has("prompt"), "prompt", "prompt: missing")
	var ids []int
	if b.has("prompt") && json.Unmarshal(b.members["prompt"], &ids) == nil && len(ids) > 0 {
		for _, id := range ids {
			p.add(fmt.Sprintf("<%d>", id))
		}
		return p
	}
	texts := b.texts("prompt")
	b.check(len(texts) < 2, "prompt", "prompt: the simulated engine takes one prompt at a time, got %d", len(texts))
	b.check(len(texts) > 0, "prompt", "prompt: want a text that is not empty")
	for _, text := range texts {
		p.all, p.last = text, text
		p.addText(text)
	}
	return p
}

func (p *prompt) add(tokens ...string) {
	for _, t := range tokens {
		p.chain.add(t)
	}
	if p.keep {
		p.tokens = append(p.tokens, tokens...)
	}
}

func (p *prompt) addText(text string) {
	for t := range Tokens(text) {
		p.add(t)
	}
}
