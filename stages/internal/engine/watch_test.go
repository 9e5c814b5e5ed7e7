package engine

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func streamHead() Head {
	return Head{Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}}
}

// chat writes a chat stream from payloads.
func chat(payloads ...string) []byte {
	var b strings.Builder
	for _, p := range payloads {
		b.WriteString("data: " + p + "\n\n")
	}
	return []byte(b.String())
}

func delta(fields string) string {
	return `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1789665664,"model":"m","choices":[{"index":0,"delta":{` + fields + `},"logprobs":null,"finish_reason":null}]}`
}

func text(s string) string { return delta(fmt.Sprintf(`"content":%q`, s)) }

func finish(reason string) string {
	return `{"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

func usageEvent(in, out string) string {
	return `{"model":"m","choices":[],"usage":{"prompt_tokens":` + in + `,"completion_tokens":` + out + `}}`
}

const done = "[DONE]"

func TestWatcherTellsTheEndOnceAndForAll(t *testing.T) {
	p := protocolFor(t, "openai-chat", true)
	before := chat(text("a"), finish("stop"), done)
	w := p.NewWatcher(Limits{})
	w.Reset(streamHead())
	s := w.Feed(append(append([]byte{}, before...), "data: after\n\n"...))
	if s.End != EndMark || s.Outputs != 1 {
		t.Errorf("got %+v, want the mark and one output", s)
	}
	if s = w.Feed(before); s.End != EndMark || s.Outputs != 0 {
		t.Errorf("after the end: got %+v", s)
	}
}

func TestWatcherIsNotResetByWhatIsNoOutput(t *testing.T) {
	p := protocolFor(t, "openai-chat", true)
	for name, body := range map[string]string{
		"comment":           ": ping\n\n",
		"role":              string(chat(delta(`"role":"assistant"`))),
		"role and empty":    string(chat(delta(`"role":"assistant","content":""`))),
		"null content":      string(chat(delta(`"content":null`))),
		"finish":            string(chat(finish("stop"))),
		"usage":             string(chat(usageEvent("1", "2"))),
		"null":              "data: null\n\n",
		"empty data":        "data:\n\n",
		"progress":          string(chat(`{"prompt_progress":{"total":9}}`)),
		"malformed":         "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]\n\n",
		"half an event":     "data: " + text("x"),
		"unknown field":     "date: " + text("x") + "\n\n",
		"another event":     "event: ping\ndata: {}\n\n",
		"empty reasoning":   string(chat(delta(`"reasoning_content":""`))),
		"empty tool call":   string(chat(delta(`"tool_calls":[{"index":0,"function":{"arguments":""}}]`))),
		"content as number": string(chat(delta(`"content":5`))),
	} {
		w := p.NewWatcher(Limits{})
		w.Reset(streamHead())
		if s := w.Feed([]byte(body)); s.Outputs != 0 || s.End != EndNone {
			t.Errorf("%s: got %+v, want nothing", name, s)
		}
	}
	for name, fields := range map[string]string{
		"content": `"content":"x"`, "blank": `"content":" "`, "reasoning_content": `"reasoning_content":"x"`, "reasoning": `"reasoning":"x"`,
		"thinking": `"thinking":"x"`, "refusal": `"refusal":"x"`, "tool name": `"tool_calls":[{"index":0,"function":{"name":"f"}}]`,
		"tool arguments": `"tool_calls":[{"index":0,"function":{"arguments":"{"}}]`, "parts": `"content":[{"type":"text","text":"x"}]`,
	} {
		w := p.NewWatcher(Limits{})
		w.Reset(streamHead())
		if s := w.Feed(chat(delta(fields))); s.Outputs != 1 {
			t.Errorf("%s: got %+v, want one output", name, s)
		}
	}
}

func TestWatcherHoldsTheLimits(t *testing.T) {
	p := protocolFor(t, "openai-chat", true)
	long := strings.Repeat("x", 1000)
	for name, tt := range map[string]struct {
		limits Limits
		head   Head
		body   string
		want   EndKind
	}{
		"event":               {limits: Limits{MaxEvent: 500}, head: streamHead(), body: string(chat(text(long))), want: EndEventTooLarge},
		"event without end":   {limits: Limits{MaxEvent: 500}, head: streamHead(), body: "data: " + long, want: EndEventTooLarge},
		"event within":        {limits: Limits{MaxEvent: 5000}, head: streamHead(), body: string(chat(text(long))), want: EndNone},
		"body":                {limits: Limits{MaxBody: 500}, head: streamHead(), body: string(chat(text("a"), text(long))), want: EndBodyTooLarge},
		"comments count":      {limits: Limits{MaxBody: 500}, head: streamHead(), body: ":" + long, want: EndBodyTooLarge},
		"end within the body": {limits: Limits{MaxBody: 20}, head: streamHead(), body: "data: [DONE]\n\n" + long, want: EndMark},
		"body at the limit":   {limits: Limits{MaxBody: 1000}, head: streamHead(), body: ":" + long[:999], want: EndNone},
		"error body":          {limits: Limits{MaxError: 500}, head: Head{Status: 500}, body: long, want: EndEnough},
		"short error body":    {limits: Limits{MaxError: 5000}, head: Head{Status: 500}, body: long, want: EndNone},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pieces := range [][][]byte{{[]byte(tt.body)}, everyByte([]byte(tt.body))} {
				w := p.NewWatcher(tt.limits)
				w.Reset(tt.head)
				got := EndNone
				for _, b := range pieces {
					if got = w.Feed(b).End; got != EndNone {
						break
					}
				}
				if got != tt.want {
					t.Errorf("%d pieces: got %d, want %d", len(pieces), got, tt.want)
				}
			}
		})
	}
}

func TestWatcherAllocatesNothing(t *testing.T) {
	for _, name := range []string{
		"vllm/0.32.0/chat-stream", "vllm/0.32.0/tools-stream", "vllm/0.32.0/responses-stream", "vllm/0.32.0/messages-stream",
		"llama.cpp/b10434/native-completion-stream", "ollama/0.17.4/api-chat-stream", "vllm/0.32.0/reasoning-chat-stream-continuous-usage",
	} {
		c := readCapture(t, name)
		w := c.protocol(t).NewWatcher(Limits{MaxEvent: 1 << 20, MaxBody: 1 << 20})
		run := func() {
			w.Reset(c.head)
			for b := c.body; len(b) > 0; {
				n := min(len(b), 300)
				w.Feed(b[:n])
				b = b[n:]
			}
		}
		run()
		if n := testing.AllocsPerRun(50, run); n != 0 {
			t.Errorf("%s: got %v allocations an answer, want 0", name, n)
		}
	}
}

func BenchmarkWatcher(b *testing.B) {
	body := chat(text(" word"))
	p := protocolFor(b, "openai-chat", true)
	w := p.NewWatcher(Limits{MaxEvent: 1 << 20})
	w.Reset(streamHead())
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if w.Feed(body).Outputs != 1 {
			b.Fatal("no output")
		}
	}
}

func BenchmarkDecoder(b *testing.B) {
	c := readCapture(b, "vllm/0.32.0/chat-stream-to-eos")
	p := c.protocol(b)
	b.SetBytes(int64(len(c.body)))
	b.ReportAllocs()
	for b.Loop() {
		decode(p, c.head, c.body)
	}
}
