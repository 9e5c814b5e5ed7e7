package sim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// inBubble runs a test against an engine whose time is virtual.
func inBubble(t *testing.T, cfg Config, test func(*testing.T, *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, pipeClient(t, cfg)) })
}

func TestEveryResponseSaysThatItIsSimulated(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Version = "1.2.3"
	inBubble(t, cfg, func(t *testing.T, c *client) {
		t.Helper()
		for _, path := range []string{"/health", "/ping", "/version", "/v1/models", "/metrics", "/nothing"} {
			status, header, body := c.get(t, path)
			if header.Get("X-Anvil-Simulated") != "true" || header.Get("Server") != "anvil-sim/1.2.3" {
				t.Errorf("%s: headers %v", path, header)
			}
			if want := map[bool]int{true: 404, false: 200}[path == "/nothing"]; status != want {
				t.Errorf("%s: status %d, want %d: %s", path, status, want, body)
			}
		}
		if _, _, body := c.get(t, "/version"); body != `{"version":"anvil-sim 1.2.3"}` {
			t.Errorf("version: %s", body)
		}
		r := c.mustChat(t, "hello", map[string]any{"max_tokens": 3})
		for _, chunk := range r.chunks {
			if chunk.Fingerprint != "anvil-sim-1.2.3" {
				t.Errorf("fingerprint %q", chunk.Fingerprint)
			}
		}
		if whole := c.mustChat(t, "hello", map[string]any{"max_tokens": 3, "stream": false}); whole.chunks[0].Fingerprint != "anvil-sim-1.2.3" {
			t.Errorf("body says %q", whole.body)
		}
	})
}

func TestModelsListsTheServedName(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Model = "glm"
	inBubble(t, cfg, func(t *testing.T, c *client) {
		t.Helper()
		_, _, body := c.get(t, "/v1/models")
		var list struct {
			Data []struct {
				ID    string `json:"id"`
				Owner string `json:"owned_by"`
				Max   int    `json:"max_model_len"`
			} `json:"data"`
		}
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Data) != 1 || list.Data[0].ID != "glm" || list.Data[0].Owner != "anvil-sim" || list.Data[0].Max != Window {
			t.Errorf("models: %s", body)
		}
		if r := c.mustChat(t, "x", map[string]any{"model": "glm", "max_tokens": 1}); r.status != 200 || r.chunks[0].Model != "glm" {
			t.Errorf("asked by name: %d %s", r.status, r.body)
		}
	})
}

func TestBadRequestsAreRefusedWithTheirField(t *testing.T) {
	user := `"messages":[{"role":"user","content":"x"}]`
	cases := []struct {
		name, path, body string
		status           int
		param            any
	}{
		{"no JSON", "chat/completions", `{"messages":`, 400, nil},
		{"trailing data", "chat/completions", `{` + user + `} {}`, 400, nil},
		{"array", "chat/completions", `[]`, 400, nil},
		{"null", "chat/completions", `null`, 400, nil},
		{"empty", "chat/completions", ``, 400, nil},
		{"no messages", "chat/completions", `{}`, 400, "messages"},
		{"empty messages", "chat/completions", `{"messages":[]}`, 400, "messages"},
		{"messages of the wrong type", "chat/completions", `{"messages":"x"}`, 400, "messages"},
		{"no role", "chat/completions", `{"messages":[{"content":"x"}]}`, 400, "messages[0].role"},
		{"content of the wrong type", "chat/completions", `{"messages":[{"role":"user","content":7}]}`, 400, "messages[0].content"},
		{"image", "chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 400, "messages[0].content"},
		{"another model", "chat/completions", `{"model":"no-such",` + user + `}`, 404, "model"},
		{"model of the wrong type", "chat/completions", `{"model":7,` + user + `}`, 400, "model"},
		{"max_tokens text", "chat/completions", `{"max_tokens":"many",` + user + `}`, 400, "max_tokens"},
		{"max_tokens zero", "chat/completions", `{"max_tokens":0,` + user + `}`, 400, "max_tokens"},
		{"max_tokens negative", "chat/completions", `{"max_tokens":-1,` + user + `}`, 400, "max_tokens"},
		{"max_tokens fraction", "chat/completions", `{"max_tokens":1.5,` + user + `}`, 400, "max_tokens"},
		{"max_tokens beyond the window", "chat/completions", `{"max_tokens":1000000000,` + user + `}`, 400, "max_tokens"},
		{"max_completion_tokens zero", "chat/completions", `{"max_completion_tokens":0,` + user + `}`, 400, "max_completion_tokens"},
		{"min above max", "chat/completions", `{"max_tokens":3,"min_tokens":4,` + user + `}`, 400, "min_tokens"},
		{"temperature", "chat/completions", `{"temperature":-1,` + user + `}`, 400, "temperature"},
		{"top_p", "chat/completions", `{"top_p":0,` + user + `}`, 400, "top_p"},
		{"n", "chat/completions", `{"n":2,` + user + `}`, 400, "n"},
		{"stream", "chat/completions", `{"stream":"yes",` + user + `}`, 400, "stream"},
		{"stop", "chat/completions", `{"stop":7,` + user + `}`, 400, "stop"},
		{"top_logprobs", "chat/completions", `{"logprobs":true,"top_logprobs":21,` + user + `}`, 400, "top_logprobs"},
		{"no prompt", "completions", `{}`, 400, "prompt"},
		{"empty prompt", "completions", `{"prompt":""}`, 400, "prompt"},
		{"two prompts", "completions", `{"prompt":["a","b"]}`, 400, "prompt"},
		{"prompt beyond the window", "completions", `{"prompt":"` + strings.Repeat("! ", Window+1) + `"}`, 400, "input_tokens"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, DefaultConfig(), func(t *testing.T, c *client) {
				t.Helper()
				r := c.mustPost(t, "/v1/"+tc.path, tc.body)
				var got struct {
					Error struct {
						Message, Type string
						Param         any
						Code          int
					}
				}
				if err := json.Unmarshal([]byte(r.body), &got); err != nil {
					t.Fatalf("body %q: %v", r.body, err)
				}
				if r.status != tc.status || got.Error.Code != tc.status || got.Error.Param != tc.param || got.Error.Message == "" || got.Error.Type == "" {
					t.Errorf("got %d %s, want %d with param %v", r.status, r.body, tc.status, tc.param)
				}
				if m := c.scrape(t); m["vllm:prompt_tokens_total"] != 0 {
					t.Error("a bad request was counted as work")
				}
			})
		})
	}
}

func TestUnknownAndNullMembersAreIgnored(t *testing.T) {
	inBubble(t, DefaultConfig(), func(t *testing.T, c *client) {
		t.Helper()
		r := c.mustChat(t, "x", map[string]any{
			"max_tokens": 2, "no_such_field": map[string]any{"a": 1}, "temperature": nil, "top_p": nil, "stop": nil,
			"min_tokens": nil, "logprobs": nil, "seed": nil, "reasoning_effort": nil, "chat_template_kwargs": nil, "user": 7,
		})
		if r.status != 200 || r.usage.Completion != 2 {
			t.Errorf("got %d %s", r.status, r.body)
		}
	})
}

func TestBodyBeyondTheLimitIsRefused(t *testing.T) {
	inBubble(t, DefaultConfig(), func(t *testing.T, c *client) {
		t.Helper()
		r := c.mustPost(t, "/v1/completions", `{"prompt":"`+strings.Repeat("a", maxBody)+`"}`)
		if r.status != 413 {
			t.Errorf("got status %d, want 413", r.status)
		}
	})
}

// Streamed or whole, in events of one token or of seven, with usage in every
// event or at the end: it is the same answer and the same counts.
func TestSameAnswerInEveryForm(t *testing.T) {
	form := func(perEvent int, extra map[string]any) (out *reply) {
		cfg := DefaultConfig()
		cfg.ReasoningTokens, cfg.TokensPerEvent, cfg.Seed = 10, perEvent, 5
		inBubble(t, cfg, func(t *testing.T, c *client) { t.Helper(); out = c.mustChat(t, "tell me of the river", extra) })
		return out
	}
	want := form(1, nil)
	if want.finish != "stop" || CountTokens(want.content)+10 != want.usage.Completion || want.usage.CompletionDetails.Reasoning != 10 || CountTokens(want.reasoning) != 10 {
		t.Fatalf("finish %q, usage %+v, %q %q", want.finish, want.usage, want.reasoning, want.content)
	}
	for name, got := range map[string]*reply{
		"seven tokens an event": form(7, nil),
		"not streamed":          form(1, map[string]any{"stream": false}),
		"continuous usage":      form(1, map[string]any{"stream_options": map[string]any{"include_usage": true, "continuous_usage_stats": true}}),
		"content in parts": form(1, map[string]any{"messages": []any{map[string]any{"role": "user", "content": []any{
			map[string]any{"type": "text", "text": "tell me "}, map[string]any{"type": "text", "text": "of the river"},
		}}}}),
	} {
		if got.content != want.content || got.reasoning != want.reasoning || got.finish != want.finish {
			t.Errorf("%s: %q %q %s", name, got.reasoning, got.content, got.finish)
		}
		if diff := cmp.Diff(want.usage, got.usage); diff != "" {
			t.Errorf("%s: usage (-want +got):\n%s", name, diff)
		}
	}
	if n := len(form(7, nil).events); n != 1+2+(want.usage.Completion-10+6)/7+3 {
		t.Errorf("%d events of seven tokens", n)
	}
}

func TestUsageComesOnlyAsAsked(t *testing.T) {
	inBubble(t, DefaultConfig(), func(t *testing.T, c *client) {
		t.Helper()
		for _, tc := range []struct {
			options map[string]any
			want    int // events with usage, of 1 role, 3 tokens, 1 finish, 1 usage
		}{
			{nil, 0},
			{map[string]any{"include_usage": false}, 0},
			{map[string]any{"include_usage": true}, 1},
			{map[string]any{"include_usage": true, "continuous_usage_stats": true}, 6},
		} {
			r := c.mustChat(t, "x", map[string]any{"max_tokens": 3, "stream_options": tc.options})
			n, last := 0, 0
			for _, chunk := range r.chunks {
				if chunk.Usage != nil {
					n++
					last = chunk.Usage.Completion
				}
			}
			if n != tc.want || n > 0 && last != 3 {
				t.Errorf("%v: %d events with usage, the last of %d tokens", tc.options, n, last)
			}
			if !r.done || r.finish != "length" {
				t.Errorf("%v: done %v, finish %q", tc.options, r.done, r.finish)
			}
		}
	})
}

func TestCachedTokensAreNullWithoutACache(t *testing.T) {
	cfg := DefaultConfig()
	cfg.PrefixCache = false
	inBubble(t, cfg, func(t *testing.T, c *client) {
		t.Helper()
		for range 2 {
			if u := c.mustChat(t, strings.Repeat("x ", 100), map[string]any{"max_tokens": 1}).usage; u.Details != nil {
				t.Errorf("cached tokens %d, want null", u.Details.Cached)
			}
		}
	})
}

func TestCompletionsSpeakOfText(t *testing.T) {
	cfg := DefaultConfig()
	cfg.ReasoningTokens = 50
	inBubble(t, cfg, func(t *testing.T, c *client) {
		t.Helper()
		r := c.mustPost(t, "/v1/completions", map[string]any{"prompt": "once upon a time", "stream": true, "stream_options": map[string]any{"include_usage": true}})
		if r.usage.Completion != defaultCompletion || r.usage.Prompt != CountTokens("once upon a time") || r.finish != "length" || r.reasoning != "" {
			t.Errorf("usage %+v, finish %q", r.usage, r.finish)
		}
		if !strings.Contains(r.body, `"object":"text_completion"`) || !strings.Contains(r.events[0], `"text":"`) {
			t.Errorf("first event %s", r.events[0])
		}
		ids := c.mustPost(t, "/v1/completions", map[string]any{"prompt": []int{1, 2, 3}, "max_tokens": 2})
		if ids.status != 200 || ids.usage.Prompt != 3 || ids.usage.Completion != 2 {
			t.Errorf("token ids: %d %s", ids.status, ids.body)
		}
	})
}

func TestTokenizeAgreesWithUsage(t *testing.T) {
	inBubble(t, DefaultConfig(), func(t *testing.T, c *client) {
		t.Helper()
		messages := []any{
			map[string]any{"role": "system", "content": "Be brief."},
			map[string]any{"role": "user", "content": "Übergröße, 12,345 metres?\n\n  No."},
		}
		count := func(body map[string]any) (n int, tokens []int, strs []string) {
			var got struct {
				Count  int      `json:"count"`
				Max    int      `json:"max_model_len"`
				Tokens []int    `json:"tokens"`
				Strs   []string `json:"token_strs"`
			}
			r := c.mustPost(t, "/tokenize", body)
			if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.status != 200 || got.Max != Window {
				t.Fatalf("%d %s: %v", r.status, r.body, err)
			}
			return got.Count, got.Tokens, got.Strs
		}
		chat := c.mustPost(t, "/v1/chat/completions", map[string]any{"messages": messages, "max_tokens": 2})
		n, ids, strs := count(map[string]any{"messages": messages, "return_token_strs": true})
		if n != chat.usage.Prompt || len(ids) != n || len(strs) != n {
			t.Errorf("chat: count %d, %d ids, %d strings; usage says %d", n, len(ids), len(strs), chat.usage.Prompt)
		}
		answer := c.mustChat(t, "speak", nil)
		if n, _, _ := count(map[string]any{"prompt": answer.content}); n != answer.usage.Completion {
			t.Errorf("answer: count %d, usage says %d", n, answer.usage.Completion)
		}
		if r := c.mustPost(t, "/tokenize", `{"model":"other","prompt":"x"}`); r.status != 404 {
			t.Errorf("another model: status %d", r.status)
		}
		if r := c.mustPost(t, "/tokenize", `{}`); r.status != 400 {
			t.Errorf("nothing to count: status %d", r.status)
		}
	})
}

func TestLengthIsAsTheRequestSays(t *testing.T) {
	cfg := DefaultConfig()
	cfg.ReasoningTokens, cfg.TokensPerEvent = 8, 16
	inBubble(t, cfg, func(t *testing.T, c *client) {
		t.Helper()
		for _, tc := range []struct {
			extra      map[string]any
			completion int // -1: whatever comes naturally
			reasoning  int
			finish     string
		}{
			{map[string]any{}, -1, 8, "stop"},
			{map[string]any{"max_tokens": 12}, 12, 8, "length"},
			{map[string]any{"max_tokens": 8}, 8, 8, "length"},
			{map[string]any{"max_tokens": 3}, 3, 3, "length"},
			{map[string]any{"max_tokens": 99999, "max_completion_tokens": 10}, 10, 8, "length"},
			{map[string]any{"max_tokens": 300, "ignore_eos": true}, 300, 8, "length"},
			{map[string]any{"min_tokens": 400, "max_tokens": 4000}, 400, 8, "stop"},
			{map[string]any{"ignore_eos": true}, defaultEndless, 8, "length"},
			{map[string]any{"max_tokens": 12, "reasoning_effort": "none"}, 12, 0, "length"},
			{map[string]any{"max_tokens": 12, "reasoning_effort": "high"}, 12, 8, "length"},
			{map[string]any{"max_tokens": 12, "chat_template_kwargs": map[string]any{"enable_thinking": false}}, 12, 0, "length"},
			{map[string]any{"max_tokens": 12, "chat_template_kwargs": map[string]any{"thinking": false}}, 12, 0, "length"},
		} {
			r := c.mustChat(t, "how long", tc.extra)
			natural := r.usage.Completion >= 16 && r.usage.Completion <= 176+8
			if r.usage.Completion != tc.completion && (tc.completion >= 0 || !natural) || r.usage.CompletionDetails.Reasoning != tc.reasoning || r.finish != tc.finish {
				t.Errorf("%v: %+v %+v, finish %q", tc.extra, r.usage, r.usage.CompletionDetails, r.finish)
			}
			if got := CountTokens(r.content) + CountTokens(r.reasoning); got != r.usage.Completion {
				t.Errorf("%v: text has %d tokens, usage says %d", tc.extra, got, r.usage.Completion)
			}
		}
	})
}

func TestStopStringsEndTheAnswerBeforeThem(t *testing.T) {
	inBubble(t, DefaultConfig(), func(t *testing.T, c *client) {
		t.Helper()
		full := c.mustChat(t, "speak", map[string]any{"stream": false})
		words := strings.Fields(full.content)
		stop := words[4] + " " + words[5]
		r := c.mustChat(t, "speak", map[string]any{"stop": []string{"never said", stop}})
		if want, _, _ := strings.Cut(full.content, stop); r.content != want || r.finish != "stop" {
			t.Errorf("got %q, finish %q, want %q", r.content, r.finish, want)
		}
		if !strings.Contains(r.body, fmt.Sprintf(`"stop_reason":%q`, stop)) {
			t.Errorf("no stop_reason in %s", r.events[len(r.events)-3])
		}
	})
}

func TestLogprobsTellHowManyTokensAnEventHolds(t *testing.T) {
	cfg := DefaultConfig()
	cfg.TokensPerEvent = 3
	inBubble(t, cfg, func(t *testing.T, c *client) {
		t.Helper()
		r := c.mustChat(t, "speak", map[string]any{"max_tokens": 8, "logprobs": true, "top_logprobs": 2, "return_token_ids": true})
		var counts, ids []int
		for _, chunk := range r.chunks {
			for _, choice := range chunk.Choices {
				var p struct {
					Content []struct {
						Token string `json:"token"`
						Top   []any  `json:"top_logprobs"`
					} `json:"content"`
				}
				if err := json.Unmarshal(choice.Logprobs, &p); err != nil {
					t.Fatal(err)
				}
				text := ""
				for _, entry := range p.Content {
					text += entry.Token
					if len(entry.Top) != 2 {
						t.Errorf("%d alternatives, want 2", len(entry.Top))
					}
				}
				if text != choice.Delta.Content {
					t.Errorf("logprobs of %q beside %q", text, choice.Delta.Content)
				}
				if text != "" {
					counts, ids = append(counts, len(p.Content)), append(ids, len(choice.TokenIDs))
				}
			}
		}
		want := []int{3, 3, 2}
		if !cmp.Equal(counts, want) || !cmp.Equal(ids, want) {
			t.Errorf("logprobs %v, ids %v, want %v", counts, ids, want)
		}
	})
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":"x"}],"max_tokens":3,"stream":true,"stop":["a"],"logprobs":true}`), true)
	f.Add([]byte(`{"prompt":[1,2],"min_tokens":1,"logprobs":1}`), false)
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"one JSON object with exactly these keys: a"}]}]}`), true)
	f.Fuzz(func(t *testing.T, src []byte, chat bool) {
		b, failure := parseBody(src)
		if failure != nil {
			return
		}
		r, failure := parseRequest(b, chat)
		if failure != nil {
			if failure.status != 400 || !json.Valid(failure.body()) {
				t.Fatalf("status %d, body %s", failure.status, failure.body())
			}
			return
		}
		if r.limits.maxTokens < 1 || r.limits.maxTokens+r.prompt.chain.tokens > Window {
			t.Fatalf("%d tokens of prompt and %d of answer", r.prompt.chain.tokens, r.limits.maxTokens)
		}
		r.limits.maxTokens = min(r.limits.maxTokens, 64)
		a := DefaultConfig().answer(task{question: readQuestion(r.prompt.all, r.prompt.last), limits: r.limits})
		if len(a.content)+len(a.reasoning) > r.limits.maxTokens {
			t.Fatalf("%d tokens, at most %d were asked for", len(a.content)+len(a.reasoning), r.limits.maxTokens)
		}
	})
}
