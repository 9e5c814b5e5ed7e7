package engine

import (
	"math"
	"strings"
	"testing"
)

func logprobsOf(t *testing.T, api, body string) []Logprob {
	t.Helper()
	base := "http://127.0.0.1:1/v1"
	p, err := Open(Endpoint{API: api, BaseURL: &base})
	if err != nil {
		t.Fatal(err)
	}
	d := p.NewDecoder(Want{Logprobs: true})
	head := Head{Status: 200, Header: map[string][]string{"Content-Type": {"text/event-stream"}}}
	if strings.HasPrefix(body, "{") {
		head.Header.Set("Content-Type", "application/json")
	}
	d.Head(head)
	d.Read(Read{At: 1}, []byte(body))
	return d.End(Ending{Kind: EndClean, At: 2}).Logprobs
}

func TestLogprobsOfRealEngines(t *testing.T) {
	for name, want := range map[string]struct {
		n     int
		first string
		p     float64
	}{
		"vllm/0.32.0/chat-stream-logprobs":      {4, " the", -0.00010752100206445903},
		"ollama/0.17.4/chat-stream-logprobs":    {3, " the", -0.00010610548633849248},
		"llama.cpp/b10434/chat-stream-logprobs": {4, "p", -2.1212711334228516},
		"litellm/1.108.7/chat-stream-logprobs":  {3, " the", -0.00010752100206445903},
	} {
		got := logprobsOf(t, "openai-chat", string(readCapture(t, name).body))
		if len(got) != want.n || got[0].Token != want.first || *got[0].Logprob != want.p {
			t.Errorf("%s: %v, want %d beginning with %q %v", name, got, want.n, want.first, want.p)
		}
	}
}

// Completions have lists side by side; the first token of an echo has no value.
func TestLogprobsOfCompletions(t *testing.T) {
	body := `data: {"choices":[{"index":0,"text":"h e","logprobs":{"token_logprobs":[null,-6.5],"tokens":["h"," e"]}}]}` + "\n\n" +
		`data: {"choices":[{"index":0,"text":"","finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	got := logprobsOf(t, "openai-completions", body)
	if len(got) != 2 || got[0].Token != "h" || got[0].Logprob != nil || got[1].Token != " e" || *got[1].Logprob != -6.5 {
		t.Errorf("got %v", got)
	}
}

func TestOddLogprobsAreNull(t *testing.T) {
	for _, odd := range []string{`1`, `"x"`, `[]`, `{"content":null}`, `{"content":[{"token":7,"logprob":1}]}`, `{"tokens":"x"}`} {
		body := `data: {"choices":[{"index":0,"delta":{"content":"a"},"logprobs":` + odd + `,"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
		if got := logprobsOf(t, "openai-chat", body); got != nil {
			t.Errorf("%s: %v", odd, got)
		}
	}
	body := `data: {"choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a","logprob":"-inf"},{"token":"b","logprob":1e999}]}}]}` + "\n\n"
	for _, l := range logprobsOf(t, "openai-chat", body) {
		if l.Logprob != nil && math.IsInf(*l.Logprob, 0) || l.Token == "a" && l.Logprob != nil {
			t.Errorf("token %q: %v", l.Token, *l.Logprob)
		}
	}
}

func TestLogprobsAreAskedForInTheWordsOfTheAPI(t *testing.T) {
	for _, a := range All() {
		want := map[string]string{"openai-chat": `"logprobs":true`, "openai-completions": `"logprobs":1`}[a.API()]
		base := "http://127.0.0.1:1/v1"
		p, err := Open(Endpoint{API: a.API(), BaseURL: &base})
		if err != nil {
			t.Fatal(err)
		}
		for asked, expect := range map[bool]string{true: want, false: ""} {
			body, err := p.Body(Request{Prompt: "x", MaxTokens: 1, Logprobs: asked})
			if err != nil {
				t.Fatal(err)
			}
			if has := strings.Contains(string(body), "logprobs"); has != (expect != "") || !strings.Contains(string(body), expect) {
				t.Errorf("%s, asked %v: %s", a.API(), asked, body)
			}
		}
		if p.HasLogprobs() != (want != "") {
			t.Errorf("%s: HasLogprobs %v", a.API(), p.HasLogprobs())
		}
	}
}
