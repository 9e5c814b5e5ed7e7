package scout

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/internal/engine"
	"anvil/stages/internal/kindtest"
	"anvil/stages/internal/prompt"
	"anvil/stages/internal/target"
	"anvil/stages/record"
)

func run(t *testing.T, b *kindtest.Bench) (document, kindtest.Published, error) {
	t.Helper()
	p, err := b.Run(t.Context())
	var doc document
	if err == nil || errors.Is(err, stage.ErrAborted) {
		if err := json.Unmarshal(p.Documents[scoutName], &doc); err != nil {
			t.Fatal(err)
		}
	}
	return doc, p, err
}

// fake is an engine of which each part can be put out of order.
type fake struct {
	health, models, version, chat http.HandlerFunc
}

func (f *fake) mux() *http.ServeMux {
	mux := http.NewServeMux()
	for path, h := range map[string]http.HandlerFunc{
		"/health": f.health, "/v1/models": f.models, "/version": f.version, "/v1/chat/completions": f.chat,
	} {
		if h != nil {
			mux.HandleFunc(path, h)
		}
	}
	return mux
}

func (f *fake) serve(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(f.mux())
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

func say(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func stream(texts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, s := range texts {
			_, _ = w.Write([]byte("data: " + s + "\n\n"))
		}
	}
}

const (
	hello  = `{"model":"m","choices":[{"index":0,"delta":{"content":"hello"}}]}`
	finish = `{"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":1}}`
)

func at(url string) map[string]any { return map[string]any{"base_url": url, "model": "m", "sim": nil} }

func TestScoutOfTheEmbeddedEngine(t *testing.T) {
	b := kindtest.New(t, Kind, nil, map[string]any{"requests": 3, "max_tokens": 8})
	doc, p, err := run(t, b)
	if err != nil {
		t.Fatal(err)
	}
	if !doc.Simulated || doc.Outcomes[record.OutcomeOK]+doc.Outcomes[record.OutcomeTruncated] != 3 || len(doc.Requests) != 3 {
		t.Errorf("simulated %v, outcomes %v", doc.Simulated, doc.Outcomes)
	}
	if doc.Facts.ModelListed == nil || !*doc.Facts.ModelListed || doc.Engine.Version == nil || *doc.Engine.Version == "" {
		t.Errorf("engine %+v facts %+v", doc.Engine, doc.Facts)
	}
	if doc.TokensFrom == nil || *doc.TokensFrom != fromTokenize {
		t.Errorf("bytes per token %v from %v", doc.BytesPerToken, doc.TokensFrom)
	}
	for _, a := range doc.Requests { // 512 tokens asked, by the engine's own count
		if n := a.Usage.Input; n == nil || *n < 490 || *n > 535 {
			t.Errorf("prompt of %v tokens", *n)
		}
	}
	if doc.Canary == nil || !doc.Canary.Passed || len(doc.Canary.Answers) != 3 || len(doc.Prompts) != 6 {
		t.Errorf("canary %+v, %d prompts", doc.Canary, len(doc.Prompts))
	}
	if _, ok := p.Limits["engine.simulated"]; !ok || len(p.Findings) > 0 {
		t.Errorf("limitations %v, findings %v", p.Limits, p.Findings)
	}
}

func TestWhatAnEngineDoesNotOfferIsUnknown(t *testing.T) {
	f := &fake{chat: stream(hello, finish, "[DONE]")}
	b := kindtest.New(t, Kind, at(f.serve(t)), map[string]any{"requests": 1, "canary": "off"})
	doc, p, err := run(t, b)
	if err != nil {
		t.Fatal(err)
	}
	if doc.Facts.Models != nil || doc.Facts.ModelListed != nil || doc.Engine.Version != nil || doc.ContextWindow != nil {
		t.Errorf("facts %+v", doc.Facts)
	}
	if doc.Facts.Unknown["models"] != engine.NotOffered || doc.Facts.Unknown["version"] != engine.NotOffered {
		t.Errorf("reasons %v", doc.Facts.Unknown)
	}
	if doc.Canary != nil || len(p.Findings) > 0 {
		t.Errorf("canary %+v, findings %v", doc.Canary, p.Findings)
	}
	// 512 tokens of 4 bytes were sent, the server counts 100.
	if doc.TokensFrom == nil || *doc.TokensFrom != fromUsage || *doc.BytesPerToken < 20 || *doc.BytesPerToken > 21 {
		t.Errorf("bytes per token %v from %v", doc.BytesPerToken, doc.TokensFrom)
	}
}

func TestGates(t *testing.T) {
	list := say(200, `{"data":[{"id":"other","max_model_len":4096}]}`)
	cases := []struct {
		name string
		fake fake
		with map[string]any
		want string // code of the finding
		text string
	}{
		{"requests fail", fake{chat: say(500, "broken")}, map[string]any{}, "gate.min_ok", "0 of 2"},
		{"a half may fail", fake{chat: say(500, "broken")}, map[string]any{"gate": map[string]any{"min_ok": 0}}, "", ""},
		{"another model is served", fake{models: list, chat: stream(hello, finish, "[DONE]")}, map[string]any{"gate": map[string]any{"model_listed": true}}, "gate.model_listed", "other"},
		{"no list of models", fake{chat: stream(hello, finish, "[DONE]")}, map[string]any{"gate": map[string]any{"model_listed": true}}, "gate.model_listed", "not offered"},
		{"no output", fake{chat: stream(finish, "[DONE]")}, map[string]any{"gate": map[string]any{"min_ok": 0, "max_first_output": "1s"}}, "gate.max_first_output", "no request"},
		{"late output", fake{chat: stream(hello, finish, "[DONE]")}, map[string]any{"gate": map[string]any{"max_first_output": "1ns"}}, "gate.max_first_output", "wants"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			with := map[string]any{"canary": "off"}
			maps.Copy(with, tc.with)
			b := kindtest.New(t, Kind, at(tc.fake.serve(t)), with)
			_, p, err := run(t, b)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "" && len(p.Findings) == 0 {
				return
			}
			if len(p.Findings) != 1 || p.Findings[0].Code != tc.want || !strings.Contains(p.Findings[0].Text, tc.text) {
				t.Errorf("findings %v, want %s with %q", p.Findings, tc.want, tc.text)
			}
		})
	}
}

// A gate decides whether it is also a finding; the limitation stands either way.
func TestCanaryThatIsNotAnsweredIsAFindingAndALimitation(t *testing.T) {
	var n atomic.Int64
	f := &fake{chat: func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) > 2 {
			say(500, "broken")(w, r)
			return
		}
		stream(hello, finish, "[DONE]")(w, r)
	}}
	at := at(f.serve(t))
	for gate, want := range map[bool]int{true: 1, false: 0} {
		n.Store(0)
		_, p, err := run(t, kindtest.New(t, Kind, at, map[string]any{"gate": map[string]any{"canary": gate}}))
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Findings) != want || want == 1 && p.Findings[0].Code != "gate.canary" {
			t.Errorf("gate %v: findings %v", gate, p.Findings)
		}
		if text := p.Limits["canary.failed"]; !strings.HasPrefix(text, "3 of 3 canaries failed") {
			t.Errorf("gate %v: limitations %v", gate, p.Limits)
		}
	}
}

func TestWaitsUntilTheEndpointIsReady(t *testing.T) {
	var n atomic.Int64
	f := &fake{
		health: func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1) < 4 {
				say(503, "loading")(w, r)
			}
		},
		chat: stream(hello, finish, "[DONE]"),
	}
	b := kindtest.New(t, Kind, at(f.serve(t)), map[string]any{"requests": 1, "canary": "off", "ready": map[string]any{"interval": "10ms"}})
	doc, _, err := run(t, b)
	if err != nil {
		t.Fatal(err)
	}
	if doc.Ready.Probes != 4 || doc.Ready.Status != 200 {
		t.Errorf("ready %+v, want 4 probes", doc.Ready)
	}
}

func TestEndpointThatNeverAnswersFailsTheStage(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	url := s.URL + "/v1"
	s.Close()
	b := kindtest.New(t, Kind, at(url), map[string]any{"ready": map[string]any{"timeout": "50ms", "interval": "10ms"}})
	_, _, err := run(t, b)
	if !errors.Is(err, errNotReady) && (err == nil || !strings.Contains(err.Error(), errNotReady.Error())) {
		t.Fatalf("error %v", err)
	}
	for _, part := range []string{"endpoint target", url[:len(url)-3], "is the server running"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

func TestStopWhileWaitingIsAborted(t *testing.T) {
	f := &fake{health: say(503, "loading")}
	b := kindtest.New(t, Kind, at(f.serve(t)), map[string]any{})
	close(b.Stop)
	if _, err := b.Run(context.Background()); !errors.Is(err, stage.ErrAborted) {
		t.Errorf("error %v, want aborted", err)
	}
}

// Whoever waits is told what for, also where a probe hangs, and who gives up is
// told what the last probe said.
func TestWaitingSaysWhatFor(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	dead := gone.URL + "/v1"
	gone.Close()
	hung := make(chan struct{})
	t.Cleanup(func() { close(hung) })
	hanging := (&fake{health: func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hung:
		case <-r.Context().Done():
		}
	}}).serve(t)
	for _, tt := range []struct{ name, url, want string }{
		{"nobody listens", dead, "connection refused"},
		{"a server that loads", (&fake{health: say(503, "loading")}).serve(t), "answered 503"},
		{"a probe that hangs", hanging, "no answer from"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := kindtest.New(t, Kind, at(tt.url), map[string]any{})
			var e engine.Endpoint
			raw, err := json.Marshal(b.With["endpoint"])
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(raw, &e); err != nil {
				t.Fatal(err)
			}
			open, err := target.Open(t.Context(), b.Env, stage.Inputs{}, e, target.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			told := make(chan error, 1)
			v := vigil{
				prober: &prober{open, open.Asker()}, timeout: time.Minute, interval: time.Hour, word: 50 * time.Millisecond,
				say: func(why error) {
					if strings.Contains(why.Error(), tt.want) { // not before the first probe has ended
						told <- why
						close(stop)
					}
				},
			}
			_, err = v.wait(t.Context(), stop)
			why := <-told
			root := strings.TrimSuffix(tt.url, "/v1")
			for _, text := range []string{why.Error(), err.Error()} {
				if !strings.Contains(text, tt.want) || !strings.Contains(text, root) {
					t.Errorf("%q does not say %q of %s", text, tt.want, root)
				}
			}
			err = scout{}.notReady(b.Env, err)
			if !errors.Is(err, stage.ErrAborted) || !strings.Contains(err.Error(), root) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want aborted, with the address and %q", err, tt.want)
			}
		})
	}
}

func TestPromptsAreDisjointFromMeasuresUnlessSameAs(t *testing.T) {
	plain := kindtest.New(t, Kind, nil, map[string]any{})
	own, problems := plain.Resolve()
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	same := kindtest.New(t, Kind, nil, map[string]any{"same_as": "measure"})
	same.Peers["measure"] = stage.Peer{ID: "measure", Of: "measure", Kind: "measure", With: map[string]any{
		"workload": map[string]any{"source": "synthetic", "context_tokens": json.Number("512"), "cache_mode": "unique", "shared_prefix_tokens": json.Number("0"), "seed": nil, "response_words": json.Number("0"), "controlled_output": "observe", "canaries": false},
		"sampling": map[string]any{"temperature": json.Number("0.5"), "thinking": "default"},
	}}
	matched, problems := same.Resolve()
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	first := func(raw json.RawMessage) string {
		var c config
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		source, err := c.Workload.Open(nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		return c.Workload.Stream + " " + source.At(0).Text[:16]
	}
	if a, b := first(own), first(matched); a[:5] != "scout" || b[:7] != "measure" || a[6:] == b[8:] {
		t.Errorf("scout's own begins %q, the matched one %q", a, b)
	}
	for id, want := range map[string]string{"nothing": "no stage", "scout": "is a scout stage"} {
		b := kindtest.New(t, Kind, nil, map[string]any{"same_as": id})
		b.Peers["scout"] = stage.Peer{ID: "scout", Kind: "scout"}
		if _, problems := b.Resolve(); len(problems) != 1 || !strings.Contains(problems[0].Message, want) {
			t.Errorf("same_as %s: problems %v, want %q", id, problems, want)
		}
	}
}

func TestCanaryKeepsLogprobs(t *testing.T) {
	for _, api := range []string{"openai-chat", "openai-completions"} {
		doc, _, err := run(t, kindtest.New(t, Kind, map[string]any{"api": api}, map[string]any{"requests": 1}))
		if err != nil {
			t.Fatal(err)
		}
		c := doc.Canary
		if c.Reason != nil || len(c.Logprobs) != 3 {
			t.Fatalf("%s: reason %v, logprobs of %d answers", api, c.Reason, len(c.Logprobs))
		}
		for i, ps := range c.Logprobs {
			var text strings.Builder
			for _, p := range ps {
				text.WriteString(p.Token)
			}
			if text.String() != *c.Answers[i].Text || len(ps) == 0 || ps[0].Logprob == nil {
				t.Errorf("%s: tokens spell %q, the answer is %q", api, text.String(), *c.Answers[i].Text)
			}
		}
	}
}

func TestLogprobsThatDoNotComeHaveAReason(t *testing.T) {
	plain := stream(hello, finish, "[DONE]")
	picky := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"logprobs"`) {
			say(400, `{"error":{"message":"logprobs: unknown field"}}`)(w, r)
			return
		}
		plain(w, r)
	}
	cases := []struct {
		name, want string
		chat       http.HandlerFunc
		with       map[string]any
	}{
		{"a server that refuses the field", "refuses to be asked for them: 400 logprobs: unknown field", picky, map[string]any{}},
		{"a server that leaves them out", "no answer holds any", plain, map[string]any{}},
		{"the plan does not want them", "not asked for", picky, map[string]any{"canary": map[string]any{"logprobs": false}}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			f := &fake{chat: tc.chat}
			doc, p, err := run(t, kindtest.New(t, Kind, at(f.serve(t)), tc.with))
			if err != nil {
				t.Fatal(err)
			}
			c := doc.Canary
			if c.Logprobs != nil || c.Reason == nil || !strings.Contains(*c.Reason, tc.want) {
				t.Errorf("logprobs %v, reason %v", c.Logprobs, c.Reason)
			}
			if !c.Passed || len(c.Answers) != 3 || len(p.Findings) > 0 {
				t.Errorf("passed %v, %d answers, findings %v", c.Passed, len(c.Answers), p.Findings)
			}
		})
	}
}

// compressing serves everything in gzip to whoever accepts it.
func compressing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		next.ServeHTTP(zipped{w, z}, r)
	})
}

type zipped struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (z zipped) Write(b []byte) (int, error) { return z.z.Write(b) }

// Compression is asked of what is measured. What the endpoint says of itself is
// read all the same.
func TestCompressionHidesNoFacts(t *testing.T) {
	mux := http.NewServeMux()
	for path, h := range map[string]http.HandlerFunc{
		"/health": say(200, ""), "/version": say(200, `{"version":"1.2.3"}`), "/tokenize": say(200, `{"count":200}`),
		"/v1/models":           say(200, `{"data":[{"id":"m","max_model_len":2048,"owned_by":"vllm"}]}`),
		"/v1/chat/completions": stream(hello, finish, "[DONE]"),
	} {
		mux.HandleFunc(path, h)
	}
	s := httptest.NewServer(compressing(mux))
	t.Cleanup(s.Close)
	for _, compression := range []bool{false, true} {
		e := at(s.URL + "/v1")
		e["compression"] = compression
		b := kindtest.New(t, Kind, e, map[string]any{"requests": 1, "canary": "off", "gate": map[string]any{"model_listed": true}})
		doc, p, err := run(t, b)
		if err != nil {
			t.Fatal(err)
		}
		if doc.Facts.Version == nil || *doc.Facts.Version != "1.2.3" || doc.ContextWindow == nil || *doc.ContextWindow != 2048 || len(p.Findings) > 0 {
			t.Errorf("compression %v: unknown %v, findings %v", compression, doc.Facts.Unknown, p.Findings)
		}
		if doc.TokensFrom == nil || *doc.TokensFrom != fromTokenize || doc.Outcomes[record.OutcomeOK] != 1 {
			t.Errorf("compression %v: tokens from %v, outcomes %v", compression, doc.TokensFrom, doc.Outcomes)
		}
	}
}

// The matched scout sends what the measurement will, whatever that is: rows of a
// dataset too.
func TestSameAsSendsTheRowsOfADataset(t *testing.T) {
	asked := make(chan string, 8)
	f := &fake{chat: func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Messages []struct{ Content string }
		}
		_ = json.NewDecoder(r.Body).Decode(&body)
		asked <- body.Messages[0].Content
		stream(hello, finish, "[DONE]")(w, r)
	}}
	const rows = `{"id":"a","prompt":"first row"}` + "\n" + `{"id":"b","prompt":"second row"}` + "\n" + `{"id":"c","prompt":"third row"}` + "\n"
	b := kindtest.New(t, Kind, at(f.serve(t)), map[string]any{"same_as": "measure", "requests": 2, "canary": "off"})
	b.Peers["measure"] = stage.Peer{ID: "measure", Of: "measure", Kind: "measure", With: map[string]any{
		"workload": map[string]any{"source": "dataset", "file": "d.jsonl", "format": "anvil", "order": "file", "epochs": json.Number("1"), "seed": nil},
	}}
	b.Files["/workload/file"] = kindtest.Artifact(prompt.RowSchema, "d.jsonl", []byte(rows))
	doc, _, err := run(t, b)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := <-asked, <-asked; a != "first row" || b != "second row" || len(asked) > 0 {
		t.Errorf("sent %q and %q, and %d more", a, b, len(asked))
	}
	if len(doc.Prompts) != 2 || doc.Prompts[0] != digest.FromBytes([]byte("first row")) {
		t.Errorf("prompts %v", doc.Prompts)
	}
}

func TestSamplingOfSameAsThatTheScoutsAPILacksIsAProblem(t *testing.T) {
	for api, want := range map[string]int{"openai-chat": 0, "generate-sse": 1} {
		b := kindtest.New(t, Kind, map[string]any{"api": api}, map[string]any{"same_as": "measure"})
		b.Peers["measure"] = stage.Peer{ID: "measure", Of: "measure", Kind: "measure", With: map[string]any{
			"endpoint": map[string]any{"api": "openai-chat"},
			"workload": map[string]any{"source": "synthetic", "context_tokens": json.Number("16")},
			"sampling": map[string]any{"top_p": json.Number("0.5")},
		}}
		if _, problems := b.Resolve(); len(problems) != want || want > 0 && problems[0].Pointer != "/same_as" {
			t.Errorf("%s: problems %v, want %d", api, problems, want)
		}
	}
}
