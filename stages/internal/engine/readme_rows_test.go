package engine

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"anvil/stages/record"
)

// More lines of the READMEs under testdata/sse-captures, each by the capture where
// there is one and else by the events that the README tells of.

// chosen is a chat event of one choice.
func chosen(index, rest string) string {
	return `{"model":"m","choices":[{"index":` + index + `,` + rest + `}]}`
}

func TestVLLMTokenIDsAreNoOutputAndChangeNothing(t *testing.T) {
	a := replay(t, "vllm/0.32.0/chat-stream-return-token-ids")
	wantOutcome(t, a, record.OutcomeTruncated)
	wantText(t, a, " the river stone green moon walks")
	wantUsage(t, a, "38/6/?/0 final")
	wantKinds(t, "token ids", a, "c", 6)
	_, before := firstAfter(t, "vllm/0.32.0/chat-stream-return-token-ids")
	if !strings.Contains(before, `"prompt_token_ids":[526,`) || strings.Count(before, "data: ") != 2 {
		t.Errorf("the first output ends after %q: the ids of the prompt are none", before)
	}
	if len(a.Notes) > 0 {
		t.Errorf("notes %q", a.Notes)
	}
	// Without the option the fields are there with null; LiteLLM drops them.
	for _, name := range []string{"vllm/0.32.0/chat-stream-metrics", "litellm/1.108.7/chat-stream-return-token-ids"} {
		if a := replay(t, name); a.Outcome != record.OutcomeTruncated || !strings.HasPrefix(a.Content, " the river stone") || len(a.Notes) > 0 {
			t.Errorf("%s: %s, %q, notes %q", name, a.Outcome, a.Content, a.Notes)
		}
	}
	// Several tokens an event, the bytes of a character without text among them.
	wantUsage(t, replay(t, "vllm/0.32.0/spec-ngram-chat-stream-token-ids"), "38/120/?/0 final")
}

func TestVLLMPerRequestMetricsStandBesideTheUsage(t *testing.T) {
	c := readCapture(t, "vllm/0.32.0/per-request-metrics-nonstream")
	whole := decode(c.protocol(t), c.head, c.body)
	wantOutcome(t, whole, record.OutcomeTruncated)
	wantUsage(t, whole, "24/8/?/0 body")
	wantText(t, whole, " the river stone green moon walks under old")
	// In a stream they come in the usage event: no output, and no event of ours.
	a := answerOf(t, at(1, text("a"), text("b")), at(2, finish("stop"),
		`{"model":"m","choices":[],"usage":{"prompt_tokens":24,"completion_tokens":2},"metrics":{"time_to_first_token_ms":15.1,"generation_time_ms":74.3,`+
			`"queue_time_ms":0.03,"mean_itl_ms":10.6,"tokens_per_second":89.4,"speculative_decoding":null}}`, done))
	wantOutcome(t, a, record.OutcomeOK)
	wantUsage(t, a, "24/2/?/? final")
	wantKinds(t, "metrics", a, "c", 2)
	wantMS(t, "first output", a.FirstOutput, 1)
	if len(a.Notes) > 0 {
		t.Errorf("notes %q", a.Notes)
	}
}

func TestVLLMWithoutReasoningIsSilentWhileItThinks(t *testing.T) {
	a := answerOf(t, at(10, delta(`"role":"assistant","content":""`)), at(900, text("yes")), at(910, finish("stop"),
		`{"choices":[],"usage":{"prompt_tokens":38,"completion_tokens":51,"completion_tokens_details":{"reasoning_tokens":12}}}`, done))
	wantOutcome(t, a, record.OutcomeOK)
	wantMS(t, "first output", a.FirstOutput, 900)
	wantMS(t, "first content", a.FirstContent, 900)
	wantUsage(t, a, "38/51/12/? final") // counted though nobody saw them
	wantText(t, a, "yes")
	if *a.Reasoning != "" || a.ArrivalKinds != "c" {
		t.Errorf("reasoning %q, arrivals %s", *a.Reasoning, a.ArrivalKinds)
	}
}

func TestVLLMTwoChoicesInterleaveAndUsageCountsBoth(t *testing.T) {
	said := func(index, content string) string {
		return chosen(index, `"delta":{"content":"`+content+`"},"finish_reason":null`)
	}
	a := answerOf(t, at(1, chosen("0", `"delta":{"role":"assistant","content":""}`), chosen("1", `"delta":{"role":"assistant","content":""}`)),
		at(2, said("0", "a"), said("1", "x")), at(3, said("1", "y"), said("0", "b")),
		at(4, chosen("1", `"delta":{},"finish_reason":"length"`), said("0", "c")), at(5, chosen("0", `"delta":{},"finish_reason":"stop"`), usageEvent("38", "7"), done))
	wantOutcome(t, a, record.OutcomeOK) // of choice 0
	wantText(t, a, "abc")
	wantUsage(t, a, "38/7/?/? final") // both answers, the prompt once
	if a.Choices != 2 || !slices.Equal(a.FinishReasons, []string{"stop", "length"}) {
		t.Errorf("got %d choices, finish reasons %q", a.Choices, a.FinishReasons)
	}
	// Where choice 0 never ended the answer is cut, however the other one ended.
	cut := answerOf(t, at(1, said("0", "a"), said("1", "x")), at(2, chosen("1", `"delta":{},"finish_reason":"stop"`), usageEvent("38", "2"), done))
	wantOutcome(t, cut, record.OutcomeCut)
}

func TestVLLMSeveralPromptsComeInAnyOrder(t *testing.T) {
	p := protocolFor(t, "openai-completions", true)
	said := func(index, s, finish string) string {
		return `{"model":"m","choices":[{"index":` + index + `,"text":"` + s + `","finish_reason":` + finish + `}]}`
	}
	a := decode(p, streamHead(), chat(said("2", "z", "null"), said("0", "a", "null"), said("1", "m", `"stop"`), said("0", "b", `"length"`), said("2", "z", `"stop"`),
		usageEvent("30", "5"), done)) // prompt_tokens is the sum of the three
	wantOutcome(t, a, record.OutcomeTruncated)
	wantText(t, a, "ab")
	wantUsage(t, a, "30/5/?/? final")
	if a.Choices != 3 || !slices.Equal(a.FinishReasons, []string{"length", "stop", "stop"}) {
		t.Errorf("got %d choices, finish reasons %q", a.Choices, a.FinishReasons)
	}
}

func TestStopStringsHoldTextBackAndAreCounted(t *testing.T) {
	// vLLM: held back by the length of the stop string less one, so that events
	// break inside words and the first has no text; stop_reason holds the string.
	a := answerOf(t, at(1, delta(`"role":"assistant","content":""`), text("")), at(5, text(" the ri"), text("ver st")), at(9, text("one ")),
		at(9, chosen("0", `"delta":{"content":"gr"},"finish_reason":"stop","stop_reason":"een moon"`), usageEvent("38", "5"), done))
	wantOutcome(t, a, record.OutcomeOK)
	wantText(t, a, " the river stone gr")
	wantUsage(t, a, "38/5/?/? final") // those of the stop string are among them
	wantMS(t, "first output", a.FirstOutput, 5)
	wantKinds(t, "held back", a, "c", 4)
	// Ollama: 8 words, and " bridge", which is counted and not shown.
	for _, name := range []string{"ollama/0.17.4/chat-stream-stop", "ollama/0.17.4/api-chat-stream-stop"} {
		a := replay(t, name)
		wantOutcome(t, a, record.OutcomeOK)
		wantText(t, a, " the river stone green moon walks under old")
		wantKinds(t, name, a, "c", 8)
		if *a.Usage.Input != 38 || *a.Usage.Output != 9 || !slices.Equal(a.FinishReasons, []string{"stop"}) {
			t.Errorf("%s: usage %s, finish %q", name, usageText(a), a.FinishReasons)
		}
	}
	// llama.cpp: stopped at "e", which is in the last token and not in the text.
	lcpp := replay(t, "llama.cpp/2025-02/chat-stream-stop")
	wantOutcome(t, lcpp, record.OutcomeOK)
	wantUsage(t, lcpp, "81/11/?/? finish")
	if strings.Contains(lcpp.Content, "e") || !strings.HasSuffix(lcpp.Content, "gr") {
		t.Errorf("llama.cpp: %q holds the stop string, or not what stands before it", lcpp.Content)
	}
}

func TestLlamaCPP2025CutsAPromptInSilence(t *testing.T) {
	a := replay(t, "llama.cpp/2025-02/err-too-long")
	if *a.HTTPStatus != 200 || a.Error != nil {
		t.Errorf("status %d, error %+v", *a.HTTPStatus, a.Error)
	}
	wantOutcome(t, a, record.OutcomeTruncated)
	wantUsage(t, a, "712/4/?/? finish") // where 15,048 were sent: only the count tells
}

func TestLlamaCPP2025GeneratesPastItsContextForEver(t *testing.T) {
	c := readCapture(t, "llama.cpp/2025-02/gen-past-context") // its middle was cut out: 8 of 5,700 events
	for kind, want := range map[EndKind]record.Outcome{EndTotal: record.OutcomeTotalTimeout, EndAbort: record.OutcomeClientAbort, EndCut: record.OutcomeCut} {
		a := decodeEnding(c.protocol(t), c.head, Ending{Kind: kind, At: 60e9, Class: "eof"}, c.body)
		wantOutcome(t, a, want)
		wantUsage(t, a, "?/?/?/? none (the answer carries no usage)") // events are not tokens
		if len(a.Arrivals) != 8 || len(a.FinishReasons) > 0 || a.DoneMarker || *a.End != 60e9 {
			t.Errorf("%s: %d events, finish %q, done %v, end %d", want, len(a.Arrivals), a.FinishReasons, a.DoneMarker, *a.End)
		}
	}
}

func TestOllamaSendsNothingOfAToolCallThatTheCapCut(t *testing.T) {
	a := answerOf(t, at(700, chosen("0", `"delta":{"role":"assistant","content":""},"finish_reason":"length"`), usageEvent("160", "20"), done))
	native := protocolFor(t, "ollama", true)
	b := decode(native, headFor(native), []byte(`{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"length","prompt_eval_count":160,"eval_count":20}`+"\n"))
	for _, a := range []Answer{a, b} {
		wantOutcome(t, a, record.OutcomeTruncated) // no success that shows anything
		if len(a.ToolCalls) > 0 || len(a.Arrivals) > 0 || *a.Usage.Output != 20 {
			t.Errorf("calls %+v, %d events, usage %s", a.ToolCalls, len(a.Arrivals), usageText(a))
		}
		wantMS(t, "first output", a.FirstOutput, never)
	}
}

func TestOllamaRefusesWhatWaitsForALoadWith503(t *testing.T) {
	head := Head{Status: 503, Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}}
	for _, tc := range []struct{ api, body string }{
		{"ollama", `{"error":"server busy, please try again.  maximum pending requests exceeded"}`},
		{"openai-chat", `{"error":{"message":"server busy, please try again.  maximum pending requests exceeded","type":"api_error","param":null,"code":null}}`},
	} {
		a := decode(protocolFor(t, tc.api, true), head, []byte(tc.body))
		wantOutcome(t, a, record.OutcomeRefusedLoad)
		if !strings.HasPrefix(a.Error.Message, "server busy") || a.Error.RetryAfterS != nil || *a.HTTPStatus != 503 {
			t.Errorf("%s: status %d, %+v", tc.api, *a.HTTPStatus, a.Error)
		}
	}
}

func TestLiteLLMGivesTheSecondChoiceNoFinish(t *testing.T) {
	said := func(index, content string) string { return chosen(index, `"delta":{"content":"`+content+`"}`) }
	a := answerOf(t, at(1, chosen("0", `"delta":{"role":"assistant","content":""}`)), at(2, said("0", "a"), said("1", "x")), at(3, said("1", "y"), said("0", "b")),
		at(4, chosen("0", `"delta":{},"finish_reason":"stop"`), `{"choices":[{"index":0,"delta":{}}],"usage":{"prompt_tokens":38,"completion_tokens":4}}`, done))
	wantOutcome(t, a, record.OutcomeOK)
	wantText(t, a, "ab")
	wantUsage(t, a, "38/4/?/? final")
	if a.Choices != 2 || a.FinishReasons[0] != "stop" {
		t.Errorf("got %d choices, finish reasons %q", a.Choices, a.FinishReasons)
	}
}
