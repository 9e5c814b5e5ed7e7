package measure

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"anvil/stages/record"
)

// answering streams the events to every chat.
func answering(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, strings.Join(events, "")+done)
	}
}

func usage(output, reasoning int) string {
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":%d,"+
		"\"completion_tokens_details\":{\"reasoning_tokens\":%d}}}\n\n", output, reasoning)
}

// tokenizer counts n tokens of any text and keeps what it was asked.
func tokenizer(n int, asked chan<- string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Prompt string `json:"prompt"`
		}
		_ = json.NewDecoder(r.Body).Decode(&q)
		asked <- q.Prompt
		_, _ = fmt.Fprintf(w, `{"count":%d}`, n)
	}
}

// flexible-inference-bench #66: 50 blanks that the model made one by one and the
// tokenizer joins. inference-perf #564: a tokenizer that adds its mark to whatever
// it is asked; the whole text is counted once, and no chunk.
func TestTheTokenizerCountsEachTextOnce(t *testing.T) {
	blanks := strings.Repeat(" \n", 25)
	letters := make([]string, 20)
	for i := range letters {
		letters[i] = delta("x")
	}
	for _, tt := range []struct {
		name      string
		chat      http.HandlerFunc
		tokens    int
		text      string
		disagrees string
	}{
		{"blanks that are joined", answering(delta(blanks), usage(50, 0)), 4, blanks, "in 2 of 2 answers; 100 tokens by usage, 8 by the tokenizer (-92)"},
		{"a mark is added", answering(delta("one two three"), usage(3, 0)), 4, "one two three", ""},
		{"one token a chunk, no usage", answering(append(letters, event(0, `"content":""`), `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n")...), 21, strings.Repeat("x", 20), ""},
		{"thoughts are counted apart", answering(event(0, `"reasoning_content":"hm hm hm"`), delta("yes"), usage(90, 85)), 5, "yes", ""},
	} {
		asked := make(chan string, 8)
		s := serverWith(t, map[string]http.HandlerFunc{"/v1/chat/completions": tt.chat, "POST /tokenize": tokenizer(tt.tokens, asked)})
		p, err := newBench(t, map[string]any{"base_url": s.URL + "/v1", "sim": nil}, map[string]any{"load": closed(1, 2), "max_tokens": 64}).run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(asked) != 2 {
			t.Errorf("%s: the tokenizer was asked %d times, want once an answer", tt.name, len(asked))
		}
		for _, a := range p.attempts {
			if q := <-asked; q != tt.text || a.EngineTokens == nil || *a.EngineTokens != tt.tokens || a.Outcome != record.OutcomeOK {
				t.Errorf("%s: asked %q, engine_tokens %v, %s", tt.name, q, a.EngineTokens, a.Outcome)
			}
		}
		if got := p.Limits["tokens.disagree"]; (got != "") != (tt.disagrees != "") || !strings.Contains(got, tt.disagrees) {
			t.Errorf("%s: limitation %q, want %q", tt.name, got, tt.disagrees)
		}
		if c := p.measurement.Tokens; c.Counted != 2 || c.Reason != nil {
			t.Errorf("%s: %+v", tt.name, c)
		}
	}
}

// What is not counted is null, with its reason, and costs one question at most.
func TestTextsThatAreNotCountedHaveAReason(t *testing.T) {
	var asked atomic.Int64
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, tt := range []struct {
		name     string
		endpoint map[string]any
		with     map[string]any
		tokenize http.HandlerFunc
		want     string
		asked    int64
	}{
		{"no tokenizer", nil, nil, answer(404, ""), "offers no /tokenize", 1},
		{"a broken one", nil, nil, answer(500, "no"), "/tokenize answers with status 500", 1},
		{"an absurd one", nil, nil, answer(200, `{"count": 99}`), "/tokenize counts 99 tokens in a text of 1 bytes", 1},
		{"another's", nil, nil, answer(200, "<html>"), "no JSON object", 1},
		{"no engine", map[string]any{"engine": "none"}, nil, answer(404, ""), "no engine to ask", 0},
		{"no text", nil, map[string]any{"store_text": false}, answer(404, ""), "no text is stored", 0},
	} {
		asked.Store(0)
		s := serverWith(t, map[string]http.HandlerFunc{"/v1/chat/completions": answering(delta("a"), usage(1, 0)), "POST /tokenize": tt.tokenize})
		endpoint := map[string]any{"base_url": s.URL + "/v1", "sim": nil}
		with := map[string]any{"load": closed(1, 4), "max_tokens": 8}
		maps.Copy(endpoint, tt.endpoint)
		maps.Copy(with, tt.with)
		p, err := newBench(t, endpoint, with).run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := p.measurement.Tokens
		if c.Reason == nil || !strings.Contains(*c.Reason, tt.want) || c.Counted != 0 || p.attempts[0].EngineTokens != nil {
			t.Errorf("%s: %+v, reason %v", tt.name, c, c.Reason)
		}
		if asked.Load() != tt.asked {
			t.Errorf("%s: asked %d times, want %d", tt.name, asked.Load(), tt.asked)
		}
	}
}

// The embedded engine counts by its own tokenizer: the two agree.
func TestTheEmbeddedEnginesCountsAgree(t *testing.T) {
	p, err := newBench(t, nil, map[string]any{"load": closed(2, 6), "max_tokens": 40}).run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c := p.measurement.Tokens; c.Counted != 6 || c.Compared != 6 || c.Difference != 0 {
		t.Errorf("%+v, %q", c, p.Limits["tokens.disagree"])
	}
}
