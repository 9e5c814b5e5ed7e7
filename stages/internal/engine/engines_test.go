package engine

import (
	"slices"
	"strings"
	"testing"

	"anvil/stages/record"
)

// The tests here are lines of the READMEs under testdata/sse-captures: what a
// client must know about each engine.

// scripted is the answer that the scripted models give, 36 tokens and the end token.
const scripted = " the river stone green moon walks under old bridge and counts slow boats while seven geese carry quiet letters over blue hills toward winter🙂 harbour lights where no clock has ever told"

func replay(t *testing.T, name string) Answer {
	t.Helper()
	c := readCapture(t, name)
	return decode(c.protocol(t), c.head, c.body)
}

func wantKinds(t *testing.T, name string, a Answer, want string, n int) {
	t.Helper()
	if a.ArrivalKinds != strings.Repeat(want, n) {
		t.Errorf("%s: got arrivals %s, want %d of %s", name, a.ArrivalKinds, n, want)
	}
}

// firstAfter is how many bytes of a stream come before its first output ends.
func firstAfter(t *testing.T, name string) (bytes int, before string) {
	t.Helper()
	c := readCapture(t, name)
	a := decode(c.protocol(t), c.head, everyByte(c.body)...)
	n := int(*a.FirstOutput / 1000)
	return n, string(c.body[:n])
}

func TestVLLMSendsErrorsOfItsEngineInsideA200AndThenDone(t *testing.T) {
	a := replay(t, "vllm/0.32.0/err-bad-token-id")
	wantOutcome(t, a, record.OutcomeInBandError)
	if *a.HTTPStatus != 200 || !a.DoneMarker || a.Error.Class != "BadRequestError" || !strings.Contains(a.Error.Message, "999999") {
		t.Errorf("got %+v, done %v", a.Error, a.DoneMarker)
	}
}

func TestVLLMChatBeginsWithARoleThatIsNoOutput(t *testing.T) {
	_, before := firstAfter(t, "vllm/0.32.0/chat-stream")
	if strings.Count(before, "data: ") != 2 || !strings.Contains(before, `"role":"assistant"`) {
		t.Errorf("the first output ends after %q", before)
	}
}

func TestVLLMCompletionsBeginWithText(t *testing.T) {
	if _, before := firstAfter(t, "vllm/0.32.0/completions-stream"); strings.Count(before, "data: ") != 1 {
		t.Errorf("the first output ends after %q", before)
	}
}

func TestVLLMMessageStartIsNoOutput(t *testing.T) {
	if _, before := firstAfter(t, "vllm/0.32.0/messages-stream"); strings.Count(before, "data: ") != 3 || !strings.Contains(before, "message_start") {
		t.Errorf("the first output ends after %q", before)
	}
}

func TestResponsesOpeningEventsAreNoOutput(t *testing.T) {
	for _, name := range []string{"vllm/0.32.0/responses-stream", "llama.cpp/b10434/responses-stream", "ollama/0.17.4/responses-stream"} {
		if _, before := firstAfter(t, name); strings.Count(before, "data: ") != 5 || !strings.Contains(before, "response.in_progress") {
			t.Errorf("%s: the first output ends after %d events", name, strings.Count(before, "data: "))
		}
	}
}

func TestVLLMEventsAreNotTokens(t *testing.T) {
	for name, want := range map[string][2]int64{ // events with output, tokens
		"vllm/0.32.0/chat-stream-to-eos":               {33, 37},
		"vllm/0.32.0/spec-ngram-chat-stream-token-ids": {74, 120},
		"vllm/0.32.0/stream-interval-4-continuous":     {16, 60},
		"vllm/0.32.0/completions-stream":               {6, 8},
		"vllm/0.32.0/messages-stream":                  {3, 6},
		"vllm/0.32.0/responses-stream":                 {2, 6},
	} {
		if a := replay(t, name); int64(len(a.Arrivals)) != want[0] || *a.Usage.Output != want[1] {
			t.Errorf("%s: got %d events and %d tokens, want %v", name, len(a.Arrivals), *a.Usage.Output, want)
		}
	}
}

func TestVLLMUsageComesWhenAsked(t *testing.T) {
	wantUsage(t, replay(t, "vllm/0.32.0/chat-stream"), "38/12/?/0 final")
	wantUsage(t, replay(t, "vllm/0.32.0/chat-stream-nousage"), "?/?/?/? none (the answer carries no usage)")
	wantUsage(t, replay(t, "vllm/0.32.0/chat-stream-continuous-usage"), "38/12/?/0 continuous")
	wantUsage(t, replay(t, "vllm/0.32.0/stream-interval-4-forced-usage"), "38/30/?/0 continuous")
}

func TestVLLMCachedTokensStandInTheDetails(t *testing.T) {
	wantUsage(t, replay(t, "vllm/0.32.0/prefix-cache-first"), "282/2/?/0 final")
	wantUsage(t, replay(t, "vllm/0.32.0/prefix-cache-second"), "282/2/?/256 final")
	wantUsage(t, replay(t, "vllm/0.32.0/prefix-cache-after-reset"), "282/2/?/0 final")
}

func TestTheScriptedAnswerIsTheSameOnEveryEngine(t *testing.T) {
	for name, tokens := range map[string]int64{
		"vllm/0.32.0/chat-stream-to-eos": 37,
		"vllm/0.32.0/chat-nonstream":     37, "llama.cpp/b10434/scripted-chat-stream-to-eos": 37, "ollama/0.17.4/chat-stream-to-eos": 37,
		"ollama/0.17.4/api-chat-stream-to-eos": 37, "transformers-serve/5.19.0/chat-stream-to-eos": 37,
		"llama-cpp-python/0.3.36/scripted-chat-nonstream-to-eos": 36, // which does not count the end token
	} {
		a := replay(t, name)
		if a.Content != scripted || *a.Usage.Output != tokens {
			t.Errorf("%s: got %d tokens of %q", name, *a.Usage.Output, a.Content)
		}
		wantOutcome(t, a, record.OutcomeOK)
	}
}

func TestVLLMReasoningHasItsOwnNameAndCount(t *testing.T) {
	a := replay(t, "vllm/0.32.0/reasoning-chat-stream")
	wantUsage(t, a, "38/51/12/0 final")
	if len(*a.Reasoning) != 59 || !strings.HasPrefix(a.ArrivalKinds, "rrrrrrrrrrrrc") {
		t.Errorf("got %q, %s", *a.Reasoning, a.ArrivalKinds)
	}
	litellm := replay(t, "litellm/1.108.7/reasoning-chat-stream") // renamed there
	if *litellm.Reasoning != *a.Reasoning || litellm.Content != a.Content {
		t.Errorf("through LiteLLM: got %q, %q", *litellm.Reasoning, litellm.Content)
	}
	cut := replay(t, "vllm/0.32.0/reasoning-chat-stream-cut")
	wantOutcome(t, cut, record.OutcomeTruncated)
	wantMS(t, "first content", cut.FirstContent, never)
}

func TestToolCallsOfRealEngines(t *testing.T) {
	for name, arguments := range map[string]string{
		"vllm/0.32.0/tools-stream": `{"city": "Oslo", "days": 3}`, "vllm/0.32.0/tools-stream-named": `{"city": "Oslo", "days": 3}`,
		"vllm/0.32.0/tools-nonstream": `{"city": "Oslo", "days": 3}`, "litellm/1.108.7/tools-stream": `{"city": "Oslo", "days": 3}`,
		"ollama/0.17.4/tools-stream": `{"city":"Oslo","days":3}`, "ollama/0.17.4/api-chat-tools-stream": `{"city":"Oslo","days":3}`,
	} {
		a := replay(t, name)
		wantOutcome(t, a, record.OutcomeOK)
		if len(a.ToolCalls) != 1 || a.ToolCalls[0].Name != "get_weather" || a.ToolCalls[0].Arguments != arguments || a.ToolCalls[0].ID == "" {
			t.Errorf("%s: got %+v", name, a.ToolCalls)
		}
		wantMS(t, name, a.FirstContent, never)
	}
	// Ollama sends a call whole, at the end: one output, not one a token.
	wantKinds(t, "ollama", replay(t, "ollama/0.17.4/tools-stream"), "t", 1)
}

func TestVLLMStopStringsHoldTextBack(t *testing.T) {
	a := replay(t, "vllm/0.32.0/chat-stream-stop-token-ids")
	wantOutcome(t, a, record.OutcomeOK)
	wantUsage(t, a, "38/4/?/0 final") // the stop token is counted
	wantText(t, a, " the river stone")
}

func TestVLLMRepetitionIsAFinishReasonOfItsOwn(t *testing.T) {
	a := answerOf(t, at(1, text("a"), finish("repetition"), done))
	wantOutcome(t, a, record.OutcomeOK)
	wantNote(t, a, "unknown_finish_reason")
}

func TestVLLMAnswersUnderItsFirstServedName(t *testing.T) {
	c := readCapture(t, "vllm/0.32.0/stream-interval-4-continuous")
	d := c.protocol(t).NewDecoder(Want{Model: "alias"})
	d.Head(c.head)
	d.Read(Read{At: 1}, c.body)
	wantNote(t, d.End(Ending{Kind: EndClean}), "model_differs")
}

func TestVLLMRefusesInEveryShape(t *testing.T) {
	for name, want := range map[string]string{
		"vllm/0.32.0/err-no-api-key":                     "Unauthorized",
		"vllm/0.32.0/err-bad-model":                      "no-such-model",
		"vllm/0.32.0/err-too-long":                       "maximum context length",
		"vllm/0.32.0/chat-stream-http-get-slash":         "redirects are not followed",
		"vllm/0.32.0/err-max-tokens-zero":                "max_tokens must be at least 1",
		"litellm/1.108.7/err-upstream-down":              "InternalServerError",
		"llama.cpp/2026-08/err-no-api-key":               "Invalid API Key",
		"llama.cpp/2025-02/chat-stream-n2":               "Only one completion choice",
		"ollama/0.17.4/err-bad-model":                    "not found",
		"ollama/0.17.4/api-chat-bad-model":               "not found",
		"transformers-serve/5.19.0/err-bad-json":         "JSON decode error",
		"transformers-serve/5.19.0/err-bad-model":        "pinned",
		"llama-cpp-python/0.3.36/err-too-long-nonstream": "maximum context length is 1024",
	} {
		a := replay(t, name)
		if a.Outcome != record.OutcomeHTTPError || !strings.Contains(a.Error.Message, want) {
			t.Errorf("%s: got %s, %+v; want %q", name, a.Outcome, a.Error, want)
		}
	}
}

func TestVLLMMessagesPromptIsTheSumOfThree(t *testing.T) {
	wantUsage(t, replay(t, "vllm/0.32.0/messages-stream"), "38/6/?/0 finish")
	p := protocolFor(t, "anthropic-messages", true)
	story := func(start, delta string) Answer {
		return decode(p, streamHead(), chat(`{"type":"message_start","message":{"usage":{`+start+`}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{`+delta+`}}`, `{"type":"message_stop"}`))
	}
	// vLLM: message_start tells the whole prompt, message_delta its parts.
	wantUsage(t, story(`"input_tokens":282,"output_tokens":0`, `"input_tokens":26,"cache_read_input_tokens":256,"cache_creation_input_tokens":0,"output_tokens":2`), "282/2/?/256 finish")
	// llama.cpp: message_start tells the parts, message_delta nothing of the prompt.
	wantUsage(t, story(`"input_tokens":1,"cache_read_input_tokens":80,"output_tokens":0`, `"output_tokens":2`), "81/2/?/80 finish")
	// LiteLLM: message_start says 0, message_delta the truth.
	wantUsage(t, story(`"input_tokens":0,"output_tokens":0`, `"input_tokens":38,"output_tokens":2`), "38/2/?/? finish")
	// Ollama: message_start holds an estimate.
	wantUsage(t, story(`"input_tokens":13,"output_tokens":0`, `"input_tokens":38,"output_tokens":2`), "38/2/?/? finish")
}

func TestResponsesThatTheCapCut(t *testing.T) {
	wantOutcome(t, replay(t, "vllm/0.32.0/responses-stream"), record.OutcomeTruncated) // response.completed, incomplete inside
	for _, name := range []string{"llama.cpp/b10434/responses-stream", "ollama/0.17.4/responses-stream"} {
		c := readCapture(t, name) // status completed though max_output_tokens cut it
		d := c.protocol(t).NewDecoder(Want{MaxTokens: 5})
		d.Head(c.head)
		d.Read(Read{At: 1}, c.body)
		a := d.End(Ending{Kind: EndClean})
		wantOutcome(t, a, record.OutcomeOK)
		wantNote(t, a, "completed_at_cap")
	}
}

func TestLiteLLMEndsResponsesWithADoneThatTheAPIHasNot(t *testing.T) {
	p := protocolFor(t, "openai-responses", true)
	tt := transcripts["openai-responses"]
	body := strings.ReplaceAll(string(tt.stream(p, tt.pieces, tt.end, []string{done})), "event: ", "")
	wantOutcome(t, decode(p, streamHead(), []byte(body)), record.OutcomeOK)
}

func TestAnEngineThatDiesInMidStream(t *testing.T) {
	// vLLM: error event, [DONE], no usage, an orderly close.
	a := answerOf(t, at(1, text("a")), at(2, `{"error":{"message":"EngineCore encountered an issue","type":"InternalServerError","code":500}}`, done))
	wantOutcome(t, a, record.OutcomeInBandError)
	// LiteLLM: error event, no [DONE].
	a = answerOf(t, at(1, text("a")), at(2, `{"error":{"message":"upstream died","code":"500"}}`))
	wantOutcome(t, a, record.OutcomeInBandError)
	// Ollama, OpenAI-like: an event with empty content and no model, then an orderly close.
	a = answerOf(t, at(1, text("a")), at(2, `{"model":"","choices":[{"index":0,"delta":{"content":""},"finish_reason":null}]}`))
	wantOutcome(t, a, record.OutcomeCut)
	// Ollama, native: a last line with the error.
	p := protocolFor(t, "ollama", true)
	a = decode(p, headFor(p), []byte(`{"message":{"content":"a"},"done":false}`+"\n"+`{"error":"llama runner process has terminated"}`+"\n"))
	wantOutcome(t, a, record.OutcomeInBandError)
	// llama.cpp, SIGKILL: the last chunk is missing.
	a = answerEnding(t, Ending{Kind: EndCut, Class: "eof"}, at(1, text("a")))
	wantOutcome(t, a, record.OutcomeCut)
	// vLLM and llama.cpp, SIGTERM: silence until the client's own limit.
	a = answerEnding(t, Ending{Kind: EndGap, At: 9e9}, at(1, text("a")))
	wantOutcome(t, a, record.OutcomeStalledMid)
}

func TestLlamaCPPMayFailAfterItsFirstEvent(t *testing.T) {
	a := replay(t, "llama.cpp/2026-08/bytes-chat-stream")
	wantOutcome(t, a, record.OutcomeInBandError)
	if a.DoneMarker || len(a.Arrivals) != 0 {
		t.Errorf("done %v, arrivals %v", a.DoneMarker, a.Arrivals)
	}
}

func TestLlamaCPPUsagePlaces(t *testing.T) {
	wantUsage(t, replay(t, "llama.cpp/2025-02/chat-stream"), "81/12/?/? finish")
	wantUsage(t, replay(t, "llama.cpp/2025-02/chat-stream-nousage"), "81/8/?/? finish") // asked for or not
	wantUsage(t, replay(t, "llama.cpp/2026-08/chat-stream"), "81/12/?/0 final")
	wantUsage(t, replay(t, "llama.cpp/2026-08/chat-stream-nousage"), "?/?/?/? none (the answer carries no usage)")
	wantUsage(t, replay(t, "llama.cpp/2026-08/completions-stream"), "10/8/?/0 finish")
	wantUsage(t, replay(t, "llama.cpp/b10434/prefix-cache-second"), "748/2/?/747 final")
}

func TestLlamaCPPNativeEndsWithStopAndHasNoDone(t *testing.T) {
	for _, name := range []string{"llama.cpp/2025-02/native-completion-stream", "llama.cpp/2026-08/native-completion-stream", "llama.cpp/b10434/native-completion-stream"} {
		a := replay(t, name)
		wantOutcome(t, a, record.OutcomeTruncated)
		if !a.DoneMarker || !slices.Equal(a.FinishReasons, []string{"limit"}) {
			t.Errorf("%s: done %v, %q", name, a.DoneMarker, a.FinishReasons)
		}
	}
}

func TestLlamaCPPTwoChoicesInterleaveAndAreCountedOnce(t *testing.T) {
	a := replay(t, "llama.cpp/2026-08/chat-stream-n2")
	if a.Choices != 2 || len(a.FinishReasons) != 2 || len(a.Arrivals) != 6 {
		t.Errorf("got %d choices, %q, %d arrivals", a.Choices, a.FinishReasons, len(a.Arrivals))
	}
	wantText(t, a, "p2and")
}

func TestLlamaCPPReasoningFormatNoneLeavesTags(t *testing.T) {
	a := replay(t, "llama.cpp/2026-08/reasoning-chat-stream-none")
	wantNote(t, a, "think_tags")
	wantMS(t, "first content", a.FirstContent, never)
	wantKinds(t, "none", a, "r", 20)
}

func TestLlamaCPPProgressIsNoOutput(t *testing.T) {
	a := answerOf(t, at(5, `{"choices":[{"index":0,"delta":{"role":"assistant","content":null}}],"prompt_progress":{"total":1048,"cache":0,"processed":512,"time_ms":4}}`),
		at(967, text("a")), at(970, finish("stop"), done))
	wantMS(t, "first output", a.FirstOutput, 967)
	wantOutcome(t, a, record.OutcomeOK)
}

func TestLlamaCPPSeveralPromptsBeginWithNull(t *testing.T) {
	a := answerOf(t, at(1, "null", `{"choices":[{"index":0,"text":"a"}]}`, `{"choices":[{"index":1,"text":"b","finish_reason":"stop"}]}`, finish("stop"), done))
	wantOutcome(t, a, record.OutcomeOK)
	wantNote(t, a, "null_event")
	if a.Choices != 2 || a.Content != "a" {
		t.Errorf("got %d choices, %q", a.Choices, a.Content)
	}
}

func TestLlamaCPPPythonNeverTellsUsageInAStream(t *testing.T) {
	a := replay(t, "llama-cpp-python/0.3.36/chat-stream")
	wantUsage(t, a, "?/?/?/? none (the answer carries no usage)")
	wantOutcome(t, a, record.OutcomeTruncated)
}

func TestLlamaCPPPythonADisplacedStreamIsCutThoughItSaysDone(t *testing.T) {
	a := answerOf(t, at(1, delta(`"role":"assistant"`), text("a"), text("b")), at(2, done))
	wantOutcome(t, a, record.OutcomeCut)
	if !a.DoneMarker || a.Error.Class != "done_without_finish" {
		t.Errorf("done %v, %+v", a.DoneMarker, a.Error)
	}
}

func TestLlamaCPPPythonAPromptTooLongIsAnEmptyBody(t *testing.T) {
	a := answerOf(t)
	wantOutcome(t, a, record.OutcomeCut)
	wantMS(t, "first byte", a.FirstByte, never)
}

func TestLlamaCPPPythonRepeatsIdAndNameOfATool(t *testing.T) {
	piece := func(arguments string) string {
		return delta(`"tool_calls":[{"index":0,"id":"call__0_f","type":"function","function":{"name":"f","arguments":"` + arguments + `"}}],"function_call":{"name":"f","arguments":"` + arguments + `"}`)
	}
	a := answerOf(t, at(1, piece("{"), piece("}"), finish("tool_calls"), done))
	if !slices.Equal(a.ToolCalls, []record.ToolCall{{ID: "call__0_f", Name: "f", Arguments: "{}"}}) {
		t.Errorf("got %+v", a.ToolCalls)
	}
}

func TestOllamaNativeIsLinesThatEndWithDone(t *testing.T) {
	a := replay(t, "ollama/0.17.4/api-chat-stream")
	wantUsage(t, a, "38/12/?/? finish")
	wantOutcome(t, a, record.OutcomeTruncated)
	if !a.DoneMarker {
		t.Error("no end mark")
	}
	a = replay(t, "ollama/0.17.4/api-chat-thinking-stream")
	if !strings.HasPrefix(a.ArrivalKinds, "rrrrrrrrrrrrc") || len(*a.Reasoning) != 58 {
		t.Errorf("got %s, %q", a.ArrivalKinds, *a.Reasoning)
	}
}

func TestOllamaUsageIsZerosUntilTheEnd(t *testing.T) {
	a := answerOf(t,
		at(1, `{"choices":[{"index":0,"text":"a","finish_reason":null}],"usage":{"prompt_tokens":0,"completion_tokens":0}}`),
		at(2, `{"choices":[{"index":0,"text":"","finish_reason":"stop"}],"usage":{"prompt_tokens":0,"completion_tokens":0}}`, usageEvent("26", "2"), done))
	wantUsage(t, a, "26/2/?/? final")
}

func TestOllamaIgnoresACapAndTheCountIsStillBelieved(t *testing.T) {
	c := readCapture(t, "ollama/0.17.4/chat-stream-max-completion-tokens")
	d := c.protocol(t).NewDecoder(Want{MaxTokens: 5})
	d.Head(c.head)
	d.Read(Read{At: 1}, c.body)
	wantUsage(t, d.End(Ending{Kind: EndClean}), "38/37/?/? final")
}

func TestOllamaLoadIsNoAnswer(t *testing.T) {
	p := protocolFor(t, "ollama", true)
	a := decode(p, headFor(p), []byte(`{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"load"}`+"\n"))
	wantOutcome(t, a, record.OutcomeEmpty)
	wantNote(t, a, "unknown_finish_reason")
}

func TestTransformersServeEndsWithoutDone(t *testing.T) {
	a := replay(t, "transformers-serve/5.19.0/chat-stream-to-eos")
	wantOutcome(t, a, record.OutcomeOK)
	wantNote(t, a, "no_done_marker")
	wantUsage(t, a, "38/37/?/? finish")
	if a.DoneMarker {
		t.Error("an end mark that was never sent")
	}
}

func TestTransformersServeSendsAnErrorAsAString(t *testing.T) {
	a := answerOf(t, at(1, delta(`"role":"assistant"`)), at(2, `{"error": "max_new_tokens must be greater than 0, but is 0."}`))
	wantOutcome(t, a, record.OutcomeInBandError)
	if !strings.Contains(a.Error.Message, "max_new_tokens") {
		t.Errorf("got %+v", a.Error)
	}
}

func TestLiteLLMUsageEventHasAChoiceInIt(t *testing.T) {
	a := replay(t, "litellm/1.108.7/chat-stream")
	wantUsage(t, a, "38/12/0/0 final")
	wantKinds(t, "litellm", a, "c", 12)
}

func TestLiteLLMWrapsErrorsAndCodesAreStrings(t *testing.T) {
	a := replay(t, "litellm/1.108.7/err-bad-model")
	if a.Outcome != record.OutcomeHTTPError || *a.HTTPStatus != 400 || !strings.Contains(a.Error.Message, "no-such-model") {
		t.Errorf("got %s, %+v", a.Outcome, a.Error)
	}
}
