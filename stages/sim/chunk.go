package sim

import (
	"encoding/json"
	"strconv"
)

// A chunker writes the events of one streamed answer into a buffer that it
// reuses; an event costs no allocation unless its text needs escaping.
type chunker struct {
	turn *turn
	head string // of every event, up to the member "choices"
	buf  []byte
	sent usage
}

type usage struct {
	prompt, cached       int
	reasoning, completed int
	cacheOn              bool
}

func newChunker(t *turn, model, version string, created int64, cacheOn bool) *chunker {
	object := "text_completion"
	if t.chat {
		object = "chat.completion.chunk"
	}
	head := `data: {"id":` + quote(t.id) + `,"object":"` + object + `","created":` + strconv.FormatInt(created, 10) +
		`,"model":` + quote(model) + `,"system_fingerprint":` + quote(fingerprint+"-"+version)
	return &chunker{turn: t, head: head, sent: usage{prompt: t.prompt.chain.tokens, cached: t.cached, cacheOn: cacheOn}}
}

// role appends the event that opens a chat answer.
func (c *chunker) role() {
	c.open()
	c.buf = append(c.buf, `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`...)
	c.shut(c.turn.continuousUsage)
}

// tokens appends an event with output.
func (c *chunker) tokens(tokens []string, reasoning, blank bool) {
	c.sent.completed += len(tokens)
	if reasoning {
		c.sent.reasoning += len(tokens)
	}
	c.open()
	c.buf = append(c.buf, `{"index":0,`...)
	switch {
	case !c.turn.chat:
		c.buf = append(c.buf, `"text":`...)
	case reasoning:
		c.buf = append(c.buf, `"delta":{"reasoning_content":`...)
	default:
		c.buf = append(c.buf, `"delta":{"content":`...)
	}
	if blank {
		c.buf = append(c.buf, `""`...)
	} else {
		c.buf = appendText(c.buf, tokens)
	}
	if c.turn.chat {
		c.buf = append(c.buf, '}')
	}
	c.logprobs(tokens, reasoning)
	c.buf = append(c.buf, `,"finish_reason":null`...)
	c.ids(tokens)
	c.buf = append(c.buf, '}')
	c.shut(c.turn.continuousUsage)
}

// finish appends the event with the finish reason.
func (c *chunker) finish(reason, stopped string) {
	c.open()
	c.buf = append(c.buf, `{"index":0,`...)
	if c.turn.chat {
		c.buf = append(c.buf, `"delta":{}`...)
	} else {
		c.buf = append(c.buf, `"text":""`...)
	}
	c.buf = append(c.buf, `,"logprobs":null,"finish_reason":`...)
	c.buf = append(c.buf, quote(reason)...)
	c.buf = append(c.buf, `,"stop_reason":`...)
	c.buf = append(c.buf, quoteOrNull(stopped)...)
	c.buf = append(c.buf, '}')
	c.shut(c.turn.continuousUsage)
}

// usage appends the event of its own that include_usage asks for.
func (c *chunker) usage() {
	c.open()
	c.shut(true)
}

func (c *chunker) done() { c.raw("data: [DONE]\n\n") }

func (c *chunker) raw(s string) { c.buf = append(c.buf, s...) }

func (c *chunker) open() {
	c.buf = append(c.buf, c.head...)
	c.buf = append(c.buf, `,"choices":[`...)
}

func (c *chunker) shut(withUsage bool) {
	c.buf = append(c.buf, ']')
	if withUsage {
		c.buf = append(c.buf, `,"usage":`...)
		c.buf = c.sent.append(c.buf)
	}
	c.buf = append(c.buf, "}\n\n"...)
}

func (c *chunker) logprobs(tokens []string, reasoning bool) {
	c.buf = append(c.buf, `,"logprobs":`...)
	if !c.turn.logprobs || reasoning {
		c.buf = append(c.buf, "null"...)
		return
	}
	c.buf = append(c.buf, marshal(c.turn.probabilities(tokens))...)
}

func (c *chunker) ids(tokens []string) {
	if !c.turn.tokenIDs {
		return
	}
	c.buf = append(c.buf, `,"token_ids":`...)
	for i, t := range tokens {
		c.buf = append(c.buf, "[,"[min(i, 1)])
		c.buf = strconv.AppendInt(c.buf, int64(tokenID(t)), 10)
	}
	c.buf = append(c.buf, ']')
}

func (u usage) append(b []byte) []byte {
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(u.prompt), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(u.prompt+u.completed), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(u.completed), 10)
	b = append(b, `,"prompt_tokens_details":`...)
	if u.cacheOn {
		b = append(b, `{"cached_tokens":`...)
		b = strconv.AppendInt(b, int64(u.cached), 10)
		b = append(b, '}')
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"completion_tokens_details":{"reasoning_tokens":`...)
	b = strconv.AppendInt(b, int64(u.reasoning), 10)
	return append(b, "}}"...)
}

// appendText appends tokens as one JSON string.
func appendText(b []byte, tokens []string) []byte {
	b = append(b, '"')
	for _, t := range tokens {
		if plain(t) {
			b = append(b, t...)
			continue
		}
		q := quote(t)
		b = append(b, q[1:len(q)-1]...)
	}
	return append(b, '"')
}

// plain says whether a string stands in JSON as it is.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			return false
		}
	}
	return true
}

func quoteOrNull(s string) string {
	if s == "" {
		return "null"
	}
	return quote(s)
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // what is marshalled here always can be
		return []byte("null")
	}
	return b
}
