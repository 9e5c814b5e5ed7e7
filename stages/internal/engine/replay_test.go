package engine

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const captures = "../../../testdata/sse-captures"

// A capture is an answer of a real engine as it came over the wire.
type capture struct {
	name    string // engine/version/name
	method  string
	path    string
	request map[string]any
	head    Head
	body    []byte
	edited  bool // the middle was cut out by hand: text and counts mean nothing
}

// readCapture reads one, less the half events around a mark of the editor.
func readCapture(tb testing.TB, name string) capture {
	tb.Helper()
	base := filepath.Join(captures, name)
	c := capture{name: name, head: Head{Status: 200, Header: http.Header{}}}
	body, err := os.ReadFile(base + ".body")
	if err != nil {
		tb.Fatal(err)
	}
	c.body, c.edited = withoutMark(body)
	request, err := os.ReadFile(base + ".request")
	if err != nil {
		tb.Fatal(err)
	}
	line, rest, _ := strings.Cut(string(request), "\n")
	c.method, c.path, _ = strings.Cut(line, " ")
	c.path, _, _ = strings.Cut(c.path, " ")
	_ = json.Unmarshal([]byte(rest), &c.request) // requests cut by hand are none
	c.readHead(base)
	return c
}

func (c *capture) readHead(base string) {
	if b, err := os.ReadFile(base + ".headers"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				c.head.Header.Add(name, strings.TrimSpace(value))
			}
		}
	}
	if b, err := os.ReadFile(base + ".status"); err == nil {
		c.head.Status, _ = strconv.Atoi(strings.TrimSpace(string(b)))
	}
}

// withoutMark takes out an editor's mark with the two half events around it.
func withoutMark(body []byte) (rest []byte, edited bool) {
	if !bytes.Contains(body, []byte("middle cut")) {
		return body, false
	}
	for line := range bytes.Lines(body) {
		payload, isData := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		if len(payload) == 0 || isData && (json.Valid(payload) || string(payload) == "[DONE]") {
			rest = append(rest, line...)
		}
	}
	return rest, true
}

// allCaptures lists those of requests that an adapter makes.
func allCaptures(tb testing.TB) (list []capture) {
	tb.Helper()
	bodies, err := filepath.Glob(filepath.Join(captures, "*", "*", "*.body"))
	if err != nil || len(bodies) < 200 {
		tb.Fatalf("%d captures, %v", len(bodies), err)
	}
	for _, b := range bodies {
		name, _ := filepath.Rel(captures, strings.TrimSuffix(b, ".body"))
		if _, err := os.Stat(filepath.Join(captures, name+".request")); err != nil {
			continue
		}
		if c := readCapture(tb, name); c.api() != "" {
			list = append(list, c)
		}
	}
	return list
}

// api is the adapter whose request a capture's is.
func (c capture) api() string {
	if c.method != "POST" {
		return ""
	}
	switch c.path {
	case "/v1/chat/completions", "/v1/chat/completions/":
		return "openai-chat"
	case "/v1/completions":
		return "openai-completions"
	case "/v1/responses":
		return "openai-responses"
	case "/v1/messages":
		return "anthropic-messages"
	case "/completion":
		return "llamacpp"
	case "/api/chat", "/api/generate":
		return "ollama"
	}
	return ""
}

// streams tells whether the capture's request asked for a stream.
func (c capture) streams() bool {
	stream, said := c.request["stream"].(bool)
	if c.api() == "ollama" && !said {
		return true
	}
	if c.request == nil {
		return strings.HasPrefix(c.head.Header.Get("Content-Type"), "text/event-stream")
	}
	return stream
}

func (c capture) protocol(tb testing.TB) *Protocol {
	tb.Helper()
	p := protocolFor(tb, c.api(), c.streams())
	if model, ok := c.request["model"].(string); ok {
		p.Model = model
	}
	return p
}

func protocolFor(tb testing.TB, api string, stream bool) *Protocol {
	tb.Helper()
	base, model := "http://127.0.0.1:1/v1", "m"
	e := Endpoint{Name: "target", BaseURL: &base, API: api, Model: &model, IncludeUsage: true}
	if !stream {
		e.ExtraBody = json.RawMessage(`{"stream": false}`)
	}
	p, err := Open(e)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// decode feeds the pieces, one a microsecond, and ends the body cleanly.
func decode(p *Protocol, head Head, pieces ...[]byte) Answer {
	return decodeEnding(p, head, Ending{Kind: EndClean, At: int64(len(pieces)+1) * 1000}, pieces...)
}

func decodeEnding(p *Protocol, head Head, e Ending, pieces ...[]byte) Answer {
	d := p.NewDecoder(Want{StoreText: true})
	d.Head(head)
	for i, b := range pieces {
		d.Read(Read{At: int64(i+1) * 1000}, b)
	}
	return d.End(e)
}

// said is what an answer says, without its times.
type said struct {
	Outcome   string   `json:"outcome"`
	Class     string   `json:"class,omitempty"`
	Message   string   `json:"message,omitempty"`
	Notes     []string `json:"notes,omitempty"`
	Finish    []string `json:"finish,omitempty"`
	Done      bool     `json:"done,omitempty"`
	Model     string   `json:"model,omitempty"`
	Usage     string   `json:"usage"`
	Text      string   `json:"text,omitempty"`
	Reasoning string   `json:"reasoning,omitempty"`
	Tools     []string `json:"tools,omitempty"`
	Choices   int      `json:"choices,omitempty"`
	Kinds     string   `json:"kinds,omitempty"`
}

func says(a Answer) said {
	s := said{
		Outcome: string(a.Outcome), Notes: a.Notes, Finish: a.FinishReasons, Done: a.DoneMarker,
		Usage: usageText(a), Choices: a.Choices, Kinds: a.ArrivalKinds,
	}
	if a.Error != nil {
		s.Class, s.Message = a.Error.Class, a.Error.Message
	}
	if a.Model != nil {
		s.Model = *a.Model
	}
	if a.Text != nil {
		s.Text, s.Reasoning = *a.Text, *a.Reasoning
	}
	for _, c := range a.ToolCalls {
		s.Tools = append(s.Tools, c.Name+" "+c.Arguments)
	}
	return s
}

// usageText is "in/out/reasoning/cached source", ? for unknown, and the reason.
func usageText(a Answer) string {
	n := func(v *int64) string {
		if v == nil {
			return "?"
		}
		return strconv.FormatInt(*v, 10)
	}
	u := a.Usage
	s := n(u.Input) + "/" + n(u.Output) + "/" + n(u.Reasoning) + "/" + n(u.Cached) + " " + u.Source
	if u.Reason != nil {
		s += " (" + *u.Reason + ")"
	}
	return s
}

func readCaptureBody(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join(captures, name+".body"))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}
