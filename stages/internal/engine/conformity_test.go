package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/stages/internal/engine/jsonview"
	"anvil/stages/record"
)

// A transcript is one story told in one API: two pieces of text, their end by
// itself or at the cap, and an error in mid-stream.
type transcript struct {
	pieces    []string // payloads, each with one piece of text: "Hello", " world"
	end, cap  []string // payloads that end the answer
	failure   string   // payload that reports "boom"
	usage     string   // of the story that ends by itself
	finish    []string
	whole     string // body of the answer that is not streamed
	reasoning string // payload with the thought "hm", "" where the API has none
	tool      []string
}

var transcripts = map[string]transcript{
	"openai-chat": {
		pieces: []string{text("Hello"), text(" world")},
		end:    []string{finish("stop"), usageEvent("3", "2"), done}, cap: []string{finish("length"), done},
		failure: `{"error":{"message":"boom","type":"t"}}`, usage: "3/2/?/? final", finish: []string{"stop"},
		whole:     `{"choices":[{"index":0,"message":{"content":"Hello world"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`,
		reasoning: delta(`"reasoning_content":"hm"`),
		tool:      []string{delta(`"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"a\""}}]`), delta(`"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]`)},
	},
	"openai-completions": {
		pieces:  []string{`{"choices":[{"index":0,"text":"Hello"}]}`, `{"choices":[{"index":0,"text":" world","finish_reason":null}]}`},
		end:     []string{`{"choices":[{"index":0,"text":"","finish_reason":"stop"}]}`, usageEvent("3", "2"), done},
		cap:     []string{`{"choices":[{"index":0,"text":"","finish_reason":"length"}]}`, done},
		failure: `{"error":{"message":"boom"}}`, usage: "3/2/?/? final", finish: []string{"stop"},
		whole: `{"choices":[{"index":0,"text":"Hello world","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`,
	},
	"openai-responses": {
		pieces: []string{`{"type":"response.output_text.delta","delta":"Hello","output_index":0}`, `{"type":"response.output_text.delta","delta":" world","output_index":0}`},
		end: []string{
			`{"type":"response.output_text.done","text":"Hello world"}`,
			`{"type":"response.completed","response":{"status":"completed","error":null,"usage":{"input_tokens":3,"output_tokens":2}}}`,
		},
		cap:     []string{`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`},
		failure: `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"}}}`,
		usage:   "3/2/?/? finish", finish: []string{"completed"},
		whole:     `{"error":null,"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hello"},{"type":"output_text","text":" world"}]}],"usage":{"input_tokens":3,"output_tokens":2}}`,
		reasoning: `{"type":"response.reasoning_summary_text.delta","delta":"hm"}`,
		tool: []string{
			`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"fc1","call_id":"c1","name":"f","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","output_index":1,"item_id":"fc1","delta":"{\"a\":1}"}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc1","call_id":"c1","name":"f","arguments":"{\"a\":1}"}}`,
		},
	},
	"anthropic-messages": {
		pieces: []string{`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" world"}}`},
		end: []string{
			`{"type":"message_start","message":{"model":"m","usage":{"input_tokens":1,"cache_read_input_tokens":2,"output_tokens":1}}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`, `{"type":"message_stop"}`,
		},
		cap:     []string{`{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}`, `{"type":"message_stop"}`},
		failure: `{"type":"error","error":{"type":"overloaded_error","message":"boom"}}`,
		usage:   "3/2/?/2 finish", finish: []string{"end_turn"},
		whole:     `{"type":"message","content":[{"type":"text","text":"Hello world"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"cache_read_input_tokens":2,"output_tokens":2}}`,
		reasoning: `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
		tool: []string{
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c1","name":"f","input":{}}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}`,
		},
	},
	"tgi": {
		pieces:  []string{`{"index":1,"token":{"id":1,"text":"Hello","special":false},"generated_text":null,"details":null}`, `{"index":2,"token":{"id":2,"text":" world","special":false},"generated_text":null,"details":null}`},
		end:     []string{`{"index":3,"token":{"id":0,"text":"</s>","special":true},"generated_text":"Hello world","details":{"finish_reason":"eos_token","generated_tokens":3,"input_length":3}}`},
		cap:     []string{`{"index":2,"token":{"id":0,"text":"","special":false},"generated_text":"Hello world","details":{"finish_reason":"length","generated_tokens":2}}`},
		failure: `{"error":"boom","error_type":"generation"}`, usage: "3/3/?/? finish", finish: []string{"eos_token"},
		whole: `{"generated_text":"Hello world","details":{"finish_reason":"eos_token","generated_tokens":3,"input_length":3}}`,
	},
	"sglang": {
		pieces:  []string{`{"text":"Hello","meta_info":{"finish_reason":null,"prompt_tokens":3,"completion_tokens":1}}`, `{"text":"Hello world","meta_info":{"finish_reason":null,"prompt_tokens":3,"completion_tokens":2}}`},
		end:     []string{`{"text":"Hello world","meta_info":{"finish_reason":{"type":"stop","matched":2},"prompt_tokens":3,"completion_tokens":2,"cached_tokens":1}}`, done},
		cap:     []string{`{"text":"Hello world","meta_info":{"finish_reason":{"type":"length","length":2},"prompt_tokens":3,"completion_tokens":2}}`, done},
		failure: `{"error":{"message":"boom"}}`, usage: "3/2/?/1 continuous", finish: []string{"stop"},
		whole: `{"text":"Hello world","meta_info":{"finish_reason":{"type":"stop"},"prompt_tokens":3,"completion_tokens":2,"cached_tokens":1}}`,
	},
	"triton": {
		pieces:  []string{`{"model_name":"m","model_version":"1","text_output":"Hello"}`, `{"model_name":"m","model_version":"1","text_output":" world"}`},
		failure: `{"error":"boom"}`, usage: "?/?/?/? none (the answer carries no usage)",
		whole: `{"model_name":"m","text_output":"Hello world"}`,
	},
	"ollama": {
		pieces:  []string{`{"model":"m","message":{"role":"assistant","content":"Hello"},"done":false}`, `{"model":"m","message":{"role":"assistant","content":" world"},"done":false}`},
		end:     []string{`{"model":"m","message":{"content":""},"done":true,"done_reason":"stop","prompt_eval_count":3,"eval_count":2}`},
		cap:     []string{`{"model":"m","message":{"content":""},"done":true,"done_reason":"length"}`},
		failure: `{"error":"boom"}`, usage: "3/2/?/? finish", finish: []string{"stop"},
		whole:     `{"model":"m","message":{"content":"Hello world"},"done":true,"done_reason":"stop","prompt_eval_count":3,"eval_count":2}`,
		reasoning: `{"model":"m","message":{"content":"","thinking":"hm"},"done":false}`,
		tool:      []string{`{"model":"m","message":{"content":"","tool_calls":[{"id":"c1","function":{"index":0,"name":"f","arguments":{"a":1}}}]},"done":false}`},
	},
	"llamacpp": {
		pieces:  []string{`{"index":0,"content":"Hello","stop":false}`, `{"index":0,"content":" world","stop":false}`},
		end:     []string{`{"index":0,"content":"","stop":true,"stop_type":"eos","tokens_evaluated":3,"tokens_predicted":2,"timings":{"cache_n":1}}`},
		cap:     []string{`{"index":0,"content":"","stop":true,"stopped_limit":true,"stopped_eos":false}`},
		failure: `{"error":{"message":"boom","type":"server_error","code":500}}`, usage: "3/2/?/1 finish", finish: []string{"eos"},
		whole: `{"content":"Hello world","stop":true,"stop_type":"eos","tokens_evaluated":3,"tokens_predicted":2,"timings":{"cache_n":1}}`,
	},
	"generate-sse": {
		pieces: []string{`{"text":"Hello"}`, `{"token":{"text":" world"}}`}, end: []string{done},
		failure: `{"error":"boom"}`, usage: "?/?/?/? none (the answer carries no usage)",
		whole: `{"text":"Hello world"}`,
	},
}

func (tt transcript) stream(p *Protocol, parts ...[]string) []byte {
	var b strings.Builder
	for _, payload := range slices.Concat(parts...) {
		if p.Adapter.Framing() == Lines {
			b.WriteString(payload + "\n")
			continue
		}
		b.WriteString("data: " + payload + "\n\n")
	}
	return []byte(b.String())
}

func headFor(p *Protocol) Head {
	return Head{Status: 200, Header: http.Header{"Content-Type": {p.contentTypes()[0]}}}
}

// TestAdaptersTellTheSameStory: every adapter passes the same transcript.
func TestAdaptersTellTheSameStory(t *testing.T) {
	for _, a := range All() {
		t.Run(a.API(), func(t *testing.T) {
			tt, ok := transcripts[a.API()]
			if !ok {
				t.Fatal("no transcript")
			}
			p := protocolFor(t, a.API(), true)
			body := tt.stream(p, tt.pieces, tt.end)
			for _, pieces := range [][][]byte{{body}, everyByte(body)} {
				got := decode(p, headFor(p), pieces...)
				checkStory(t, tt, got)
				if got.ArrivalKinds != "cc" {
					t.Errorf("arrivals: got %q, want cc", got.ArrivalKinds)
				}
				if outputs, _ := watch(p, headFor(p), pieces...); outputs != 2 {
					t.Errorf("the watcher saw %d outputs, want 2", outputs)
				}
			}
			checkEndings(t, p, tt)
			w := protocolFor(t, a.API(), false)
			checkStory(t, transcript{usage: bodyUsage(tt.usage), finish: tt.finish}, decode(w, headFor(w), []byte(tt.whole)))
		})
	}
}

func bodyUsage(s string) string {
	for _, source := range []string{"final", "finish", "continuous"} {
		s = strings.Replace(s, source, "body", 1)
	}
	return s
}

func checkStory(t *testing.T, tt transcript, got Answer) {
	t.Helper()
	wantOutcome(t, got, record.OutcomeOK)
	wantText(t, got, "Hello world")
	wantUsage(t, got, tt.usage)
	if !slices.Equal(got.FinishReasons, tt.finish) && len(tt.finish)+len(got.FinishReasons) > 0 {
		t.Errorf("finish reasons: got %q, want %q", got.FinishReasons, tt.finish)
	}
	if len(tt.finish) == 0 {
		wantNote(t, got, "no_finish_reason")
	}
}

// checkEndings: the other ways in which the story ends.
func checkEndings(t *testing.T, p *Protocol, tt transcript) {
	t.Helper()
	say := func(parts ...[]string) Answer { return decode(p, headFor(p), tt.stream(p, parts...)) }
	if tt.cap != nil {
		wantOutcome(t, say(tt.pieces, tt.cap), record.OutcomeTruncated)
		wantOutcome(t, say(tt.cap), record.OutcomeTruncated)
		wantOutcome(t, say(tt.pieces), record.OutcomeCut)
	}
	failed := say(tt.pieces[:1], []string{tt.failure}, tt.end)
	wantOutcome(t, failed, record.OutcomeInBandError)
	if failed.Error != nil && failed.Error.Message != "boom" {
		t.Errorf("message: got %q, want boom", failed.Error.Message)
	}
	cut := decodeEnding(p, headFor(p), Ending{Kind: EndCut}, tt.stream(p, tt.pieces))
	wantOutcome(t, cut, record.OutcomeCut)
	if p.Adapter.API() != "generate-sse" { // there, everything is text
		wantOutcome(t, say(tt.pieces[:1], []string{"{"}, tt.end), record.OutcomeMalformed)
	}
	if tt.reasoning != "" {
		thought := say([]string{tt.reasoning}, tt.pieces, tt.end)
		if thought.ArrivalKinds != "rcc" || *thought.Reasoning != "hm" {
			t.Errorf("reasoning: got %s, %q", thought.ArrivalKinds, *thought.Reasoning)
		}
	}
	if tt.tool != nil {
		called := say(tt.tool, tt.end)
		if len(called.ToolCalls) != 1 || called.ToolCalls[0].Name != "f" || called.ToolCalls[0].Arguments != `{"a":1}` || called.ToolCalls[0].ID != "c1" {
			t.Errorf("tool calls: got %+v", called.ToolCalls)
		}
		wantMS(t, "first content of a tool call", called.FirstContent, never)
	}
	empty := decode(p, headFor(p), tt.stream(p, tt.end))
	if tt.end != nil && empty.Outcome != record.OutcomeEmpty && p.Adapter.API() != "sglang" { // its end repeats the text
		t.Errorf("without output: got %s, want empty", empty.Outcome)
	}
}

func TestAdaptersAreNamedAndProven(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range All() {
		if seen[a.API()] {
			t.Errorf("two adapters are named %s", a.API())
		}
		seen[a.API()] = true
		if a.Proof().Source == "" {
			t.Errorf("%s: nothing stands behind it", a.API())
		}
		if found, ok := Find(a.API()); !ok || found.API() != a.API() {
			t.Errorf("%s is not found", a.API())
		}
	}
	if _, ok := Find("telepathy"); ok {
		t.Error("an adapter that does not exist is found")
	}
}

func TestBodiesAreWhatTheAPIsAsk(t *testing.T) {
	zero, top, seed, least, eos, effort := 0.0, 0.9, int64(7), 3, true, "high"
	full := Request{
		Messages: []Message{{Role: "system", Text: "be <brief>"}, {Role: "user", Text: "hi & bye"}}, MaxTokens: 2048,
		Sampling: Sampling{Temperature: &zero, TopP: &top, Seed: &seed, Stop: Stops{"X"}, MinTokens: &least, IgnoreEOS: &eos, ReasoningEffort: &effort, Thinking: "enabled"},
	}
	bare := Request{Prompt: "hi", MaxTokens: 8, Sampling: Sampling{Thinking: "default"}}
	want := map[string][2]string{
		"openai-chat": {
			`{"chat_template_kwargs":{"enable_thinking":true,"thinking":true},"ignore_eos":true,"max_tokens":2048,"messages":[{"content":"be <brief>","role":"system"},{"content":"hi & bye","role":"user"}],"min_tokens":3,"model":"m","reasoning_effort":"high","seed":7,"stop":["X"],"stream":true,"stream_options":{"include_usage":true},"temperature":0,"top_p":0.9}`,
			`{"max_tokens":8,"messages":[{"content":"hi","role":"user"}],"model":"m","stream":true,"stream_options":{"include_usage":true}}`,
		},
		"openai-completions": {
			`{"ignore_eos":true,"max_tokens":2048,"min_tokens":3,"model":"m","prompt":"be <brief>\n\nhi & bye","seed":7,"stop":["X"],"stream":true,"stream_options":{"include_usage":true},"temperature":0,"top_p":0.9}`,
			`{"max_tokens":8,"model":"m","prompt":"hi","stream":true,"stream_options":{"include_usage":true}}`,
		},
		"openai-responses": {
			`{"input":[{"content":"be <brief>","role":"system"},{"content":"hi & bye","role":"user"}],"max_output_tokens":2048,"model":"m","reasoning":{"effort":"high"},"stream":true,"temperature":0,"top_p":0.9}`,
			`{"input":[{"content":"hi","role":"user"}],"max_output_tokens":8,"model":"m","stream":true}`,
		},
		"anthropic-messages": {
			`{"max_tokens":2048,"messages":[{"content":"hi & bye","role":"user"}],"model":"m","stop_sequences":["X"],"stream":true,"system":"be <brief>","temperature":0,"thinking":{"budget_tokens":1024,"type":"enabled"},"top_p":0.9}`,
			`{"max_tokens":8,"messages":[{"content":"hi","role":"user"}],"model":"m","stream":true}`,
		},
		"tgi": {
			`{"inputs":"be <brief>\n\nhi & bye","parameters":{"details":true,"do_sample":false,"max_new_tokens":2048,"seed":7,"stop":["X"],"top_p":0.9}}`,
			`{"inputs":"hi","parameters":{"details":true,"max_new_tokens":8}}`,
		},
		"sglang": {
			`{"sampling_params":{"ignore_eos":true,"max_new_tokens":2048,"min_new_tokens":3,"sampling_seed":7,"stop":["X"],"temperature":0,"top_p":0.9},"stream":true,"text":"be <brief>\n\nhi & bye"}`,
			`{"sampling_params":{"max_new_tokens":8},"stream":true,"text":"hi"}`,
		},
		"triton": {
			`{"max_tokens":2048,"random_seed":7,"stop_words":["X"],"stream":true,"temperature":0,"text_input":"be <brief>\n\nhi & bye","top_p":0.9}`,
			`{"max_tokens":8,"stream":true,"text_input":"hi"}`,
		},
		"ollama": {
			`{"messages":[{"content":"be <brief>","role":"system"},{"content":"hi & bye","role":"user"}],"model":"m","options":{"num_predict":2048,"seed":7,"stop":["X"],"temperature":0,"top_p":0.9},"stream":true,"think":"high"}`,
			`{"messages":[{"content":"hi","role":"user"}],"model":"m","options":{"num_predict":8},"stream":true}`,
		},
		"llamacpp": {
			`{"ignore_eos":true,"n_predict":2048,"prompt":"be <brief>\n\nhi & bye","seed":7,"stop":["X"],"stream":true,"temperature":0,"top_p":0.9}`,
			`{"n_predict":8,"prompt":"hi","stream":true}`,
		},
		"generate-sse": {
			`{"max_tokens":2048,"prompt":"be <brief>\n\nhi & bye","stream":true}`,
			`{"max_tokens":8,"prompt":"hi","stream":true}`,
		},
	}
	for _, a := range All() {
		p := protocolFor(t, a.API(), true)
		for i, r := range []Request{full, bare} {
			got, err := p.Body(r)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want[a.API()][i], string(got)); d != "" {
				t.Errorf("%s body %d (-want +got):\n%s", a.API(), i, d)
			}
			if again, _ := p.Body(r); string(again) != string(got) {
				t.Errorf("%s: the same request gives other bytes", a.API())
			}
		}
		if n := a.Unsent(bare.Sampling); n != nil {
			t.Errorf("%s: %q are unsent though nothing is set", a.API(), n)
		}
		checkUnsent(t, a, full, want[a.API()][0])
	}
}

// checkUnsent: a switch is either in the body or named as unsent.
func checkUnsent(t *testing.T, a Adapter, r Request, body string) {
	t.Helper()
	marks := map[string][]string{
		"temperature": {`"temperature"`, `"do_sample"`}, "top_p": {`"top_p"`}, "seed": {`seed"`}, "stop": {`"stop":`, `"stop_`}, "min_tokens": {`"min_`},
		"ignore_eos": {`"ignore_eos"`}, "reasoning_effort": {`"high"`}, "thinking": {`"thinking"`, `"think"`},
	}
	unsent := a.Unsent(r.Sampling)
	for name, m := range marks {
		sent := slices.ContainsFunc(m, func(s string) bool { return strings.Contains(body, s) })
		if sent == slices.Contains(unsent, name) {
			t.Errorf("%s: %s is sent %v, and named unsent %v", a.API(), name, sent, !sent)
		}
	}
}

func TestExtraBodyIsMergedLast(t *testing.T) {
	base, model := "http://h/v1", "m"
	e := Endpoint{BaseURL: &base, Model: &model, IncludeUsage: true, MaxTokensField: "max_completion_tokens"}
	for extra, want := range map[string]string{
		`{}`: `{"max_completion_tokens":8,"messages":[{"content":"hi","role":"user"}],"model":"m","stream":true,"stream_options":{"include_usage":true}}`,
		`{"stream_options":{"continuous_usage_stats":true},"model":"other","n":2,"x":1.50,"max_completion_tokens":null}`: `{"max_completion_tokens":null,"messages":[{"content":"hi","role":"user"}],"model":"other","n":2,"stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true},"x":1.50}`,
		`{"stream":false}`: `{"max_completion_tokens":8,"messages":[{"content":"hi","role":"user"}],"model":"m","stream":false}`,
	} {
		e.ExtraBody = json.RawMessage(extra)
		p, err := Open(e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Body(Request{Prompt: "hi", MaxTokens: 8})
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", extra, got, err, want)
		}
		if p.Stream != !strings.Contains(extra, "false") {
			t.Errorf("%s: streamed %v", extra, p.Stream)
		}
	}
}

func TestStopIsAStringOrAList(t *testing.T) {
	for in, want := range map[string]string{`null`: `[]`, `"a"`: `["a"]`, `["a","b"]`: `["a" "b"]`, `[]`: `[]`} {
		var s Sampling
		if err := json.Unmarshal([]byte(`{"stop":`+in+`}`), &s); err != nil || fmt.Sprintf("%q", []string(s.Stop)) != want {
			t.Errorf("%s: got %q, %v", in, s.Stop, err)
		}
	}
	var s Sampling
	if json.Unmarshal([]byte(`{"stop":5}`), &s) == nil {
		t.Error("a number is taken for a stop string")
	}
}

func TestMessagesOfADatasetGoOutAsTheyAre(t *testing.T) {
	raw := json.RawMessage(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,x"}}]}`)
	p := protocolFor(t, "openai-chat", true)
	got, err := p.Body(Request{Messages: []Message{{Role: "user", Text: "x", Raw: raw}}})
	if err != nil || !strings.Contains(string(got), string(raw)) {
		t.Errorf("got %s, %v", got, err)
	}
}

// The cap that counts is the one that goes out: every adapter knows where its own
// stands, and extra_body is merged over it.
func TestTheCapThatGoesOutIsKnown(t *testing.T) {
	for _, a := range All() {
		p := protocolFor(t, a.API(), true)
		body, err := p.Body(Request{Prompt: "hi", MaxTokens: 77})
		if err != nil {
			t.Fatal(err)
		}
		v, _ := jsonview.Parse(body)
		var over []byte
		for _, path := range a.Cap() {
			if v.At(path...).Missing() {
				continue
			}
			if n, _ := v.At(path...).Int(); n != 77 {
				t.Errorf("%s: %v is %s, want the cap", a.API(), path, v.At(path...).Raw())
			}
			over = []byte("%s")
			for _, name := range path {
				over = bytes.Replace(over, []byte("%s"), []byte(`{"`+name+`":%s}`), 1)
			}
		}
		if over == nil {
			t.Fatalf("%s: no cap in %s", a.API(), body)
		}
		for value, want := range map[string]int{"900": 900, "null": 0, "-1": 0, `"many"`: 0} {
			p.Endpoint.ExtraBody = bytes.Replace(over, []byte("%s"), []byte(value), 1)
			if got := p.Cap(77); got != want {
				t.Errorf("%s: %s: cap %d, want %d", a.API(), p.Endpoint.ExtraBody, got, want)
			}
		}
		p.Endpoint.ExtraBody = json.RawMessage(`{"other":1}`)
		if got := p.Cap(77); got != 77 {
			t.Errorf("%s: cap %d, want what was asked", a.API(), got)
		}
	}
}

func TestCountsAreHeldAgainstTheCapThatGoesOut(t *testing.T) {
	p := protocolFor(t, "openai-chat", true)
	p.Endpoint.ExtraBody = json.RawMessage(`{"max_tokens":500}`)
	d := p.NewDecoder(Want{MaxTokens: 8})
	d.Head(streamHead())
	d.Read(Read{At: 1}, chat(text("a"), `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":300}}`, done))
	if a := d.End(Ending{Kind: EndMark, At: 2}); a.Usage.Output == nil || *a.Usage.Output != 300 {
		t.Errorf("output tokens %v, reason %v; want the server's 300", a.Usage.Output, a.Usage.Reason)
	}
}
