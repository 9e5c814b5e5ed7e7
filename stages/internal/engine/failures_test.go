package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"anvil/stages/record"
)

// A timed piece arrives at a moment in milliseconds.
type timed struct {
	ms    int64
	bytes []byte
}

func at(ms int64, payloads ...string) timed { return timed{ms, chat(payloads...)} }

func raw(ms int64, s string) timed { return timed{ms, []byte(s)} }

// answerOf decodes a chat stream that arrives as told and ends cleanly.
func answerOf(t *testing.T, pieces ...timed) Answer {
	t.Helper()
	return answerEnding(t, Ending{Kind: EndClean}, pieces...)
}

func answerEnding(t *testing.T, e Ending, pieces ...timed) Answer {
	t.Helper()
	d := protocolFor(t, "openai-chat", true).NewDecoder(Want{StoreText: true, MaxTokens: 256, Model: "m"})
	d.Head(streamHead())
	for _, p := range pieces {
		d.Read(Read{At: p.ms * 1e6}, p.bytes)
		e.At = max(e.At, p.ms*1e6)
	}
	return d.End(e)
}

// gaps are the differences of successive output arrivals in milliseconds.
func gaps(a Answer) (ms []int64) {
	for _, d := range a.Arrivals[min(1, len(a.Arrivals)):] {
		ms = append(ms, d/1e6)
	}
	return ms
}

func wantOutcome(t *testing.T, a Answer, want record.Outcome) {
	t.Helper()
	if a.Outcome != want {
		t.Errorf("outcome: got %s (%+v), want %s", a.Outcome, a.Error, want)
	}
}

func wantMS(t *testing.T, name string, got *int64, want int64) {
	t.Helper()
	switch {
	case got == nil && want >= 0:
		t.Errorf("%s: got null, want %d ms", name, want)
	case got != nil && *got != want*1e6:
		t.Errorf("%s: got %d ns, want %d ms", name, *got, want)
	}
}

const never = -1

func wantText(t *testing.T, a Answer, want string) {
	t.Helper()
	if a.Text == nil || *a.Text != want || a.Content != want {
		t.Errorf("text: got %q, want %q", a.Content, want)
	}
}

func wantUsage(t *testing.T, a Answer, want string) {
	t.Helper()
	if got := usageText(a); got != want {
		t.Errorf("usage: got %s, want %s", got, want)
	}
}

func wantNote(t *testing.T, a Answer, note string) {
	t.Helper()
	if !slices.Contains(a.Notes, note) {
		t.Errorf("notes: got %q, want %q among them", a.Notes, note)
	}
}

func TestVLLM3768RoleChunkIsNoFirstToken(t *testing.T) {
	a := answerOf(t, at(5, delta(`"role":"assistant"`)), at(200, text("a")), at(214, finish("stop"), done))
	wantMS(t, "first output", a.FirstOutput, 200)
	wantMS(t, "first content", a.FirstContent, 200)
	wantMS(t, "first byte", a.FirstByte, 5)
	wantMS(t, "end", a.End, 214)
	wantOutcome(t, a, record.OutcomeOK)
}

func TestVLLM15106RoleChunkBeforePrefillMakesNoGap(t *testing.T) {
	a := answerOf(t, at(1, delta(`"role":"assistant","content":""`)), at(1300, text("a")), at(1320, text("b")), at(1340, text("c")), at(1341, finish("stop"), done))
	wantMS(t, "first output", a.FirstOutput, 1300)
	if got := gaps(a); !slices.Equal(got, []int64{20, 20}) {
		t.Errorf("gaps: got %v, want 20, 20", got)
	}
}

func TestVLLM5895NoValidTokenIsEmptyAndNeverZero(t *testing.T) {
	a := answerOf(t, at(1, delta(`"role":"assistant","content":""`)), at(9, finish("stop")), at(10, usageEvent("4", "0"), done))
	wantOutcome(t, a, record.OutcomeEmpty)
	wantMS(t, "first output", a.FirstOutput, never)
	wantMS(t, "first content", a.FirstContent, never)
	wantMS(t, "last output", a.LastOutput, never)
	wantUsage(t, a, "4/0/?/? final")
}

func TestVLLM50868CharactersSurviveEveryCut(t *testing.T) {
	const want = "é中😀"
	body := chat(text(want), finish("stop"), done)
	p := protocolFor(t, "openai-chat", true)
	for i := range body {
		if a := decode(p, streamHead(), body[:i], body[i:]); a.Content != want || a.Outcome != record.OutcomeOK {
			t.Fatalf("cut at %d: got %q, %s", i, a.Content, a.Outcome)
		}
	}
}

func TestVLLM51172NoBlankIsLostAtACut(t *testing.T) {
	body := string(chat(text(" a  b "), text("\n\n c"), finish("stop"), done))
	p := protocolFor(t, "openai-chat", true)
	for _, cutAfter := range []string{"data:", "a ", `\n`, `\`, `"content":"`} {
		i := strings.Index(body, cutAfter) + len(cutAfter)
		if a := decode(p, streamHead(), []byte(body[:i]), []byte(body[i:])); a.Content != " a  b \n\n c" {
			t.Errorf("cut after %q: got %q", cutAfter, a.Content)
		}
	}
}

func TestVLLM57519ErrorAfterTokensIsAFailure(t *testing.T) {
	a := answerOf(t, at(1, text("a"), text("b")), at(2, `{"error":{"message":"boom","type":"InternalServerError","code":500}}`, done))
	wantOutcome(t, a, record.OutcomeInBandError)
	wantNote(t, a, "cut")
	if a.Error.Class != "InternalServerError" || a.Error.Message != "boom" {
		t.Errorf("error: got %+v", a.Error)
	}
	wantText(t, a, "ab")
}

func TestSGLang38868ErrorAsFirstEventIsAFailureWithoutTokens(t *testing.T) {
	a := answerOf(t, at(1, `{"error":{"message":"full"}}`, done))
	wantOutcome(t, a, record.OutcomeInBandError)
	wantUsage(t, a, "?/?/?/? none (the answer carries no usage)")
}

func TestErrorCountsWhateverItsType(t *testing.T) {
	for name, payload := range map[string]string{
		"object": `{"error":{"message":"boom"}}`, "string": `{"error":"boom"}`, "number": `{"error":500}`, "list": `{"error":["boom"]}`,
		"true": `{"error":true}`, "beside choices": `{"choices":[],"error":{"message":"boom"}}`, "object: error": `{"object":"error","message":"boom"}`,
	} {
		for _, tail := range [][]string{{done}, {}, {finish("stop"), done}} {
			a := answerOf(t, at(1, append([]string{text("a"), payload}, tail...)...))
			if a.Outcome != record.OutcomeInBandError {
				t.Errorf("%s, then %q: got %s", name, tail, a.Outcome)
			}
		}
	}
	for name, payload := range map[string]string{"null": `{"error":null,"choices":[]}`, "empty": `{"error":"","choices":[]}`, "false": `{"error":false,"choices":[]}`} {
		if a := answerOf(t, at(1, text("a"), payload, finish("stop"), done)); a.Outcome != record.OutcomeOK {
			t.Errorf("%s: got %s, want ok", name, a.Outcome)
		}
	}
	for name, event := range map[string]string{
		"event with data": "event: error\ndata: {\"message\":\"boom\"}\n\n", "event with text": "event: error\ndata: boom\n\n", "event alone": "event: error\n\n",
	} {
		if a := answerOf(t, at(1, text("a")), raw(2, event), at(3, done)); a.Outcome != record.OutcomeInBandError {
			t.Errorf("%s: got %s", name, a.Outcome)
		}
	}
}

func TestSGLang37986CommentsAreNoEvents(t *testing.T) {
	a := answerOf(t, raw(1, ": ping\n\n"), raw(2, ": ping\n\n"+string(chat(text("a")))+": ping\n\n"), raw(3, ":\n"), at(4, text("b")), at(5, finish("stop"), done), raw(6, ": ping\n\n"))
	wantOutcome(t, a, record.OutcomeOK)
	wantText(t, a, "ab")
	if len(a.Arrivals) != 2 || a.Coalesced != "00" {
		t.Errorf("arrivals: got %v, %s", a.Arrivals, a.Coalesced)
	}
}

func TestLlamaCPP24013PingsBeforeTheFirstToken(t *testing.T) {
	var pieces []timed
	for s := int64(1); s < 30; s++ {
		pieces = append(pieces, raw(s*1000, ": ping\n\n"))
	}
	a := answerOf(t, append(slices.Clone(pieces), at(30_000, text("a"), finish("stop"), done))...)
	wantMS(t, "first content", a.FirstContent, 30_000)
	a = answerEnding(t, Ending{Kind: EndFirstOutput, At: 10_000e6}, pieces[:10]...)
	wantOutcome(t, a, record.OutcomeStalledFirst)
	wantMS(t, "first output", a.FirstOutput, never)
	wantMS(t, "end", a.End, 10_000)
}

func TestVLLM18692UsageBesideTheFinishReasonIsKept(t *testing.T) {
	a := answerOf(t, at(1, text("a")), at(2, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2}}`, done))
	wantUsage(t, a, "7/2/?/? finish")
	wantOutcome(t, a, record.OutcomeOK)
}

func TestShellGPT457EmptyChoicesAreNoOutput(t *testing.T) {
	a := answerOf(t, at(1, `{"choices":[]}`), at(2, text("a")), at(3, `{"choices":[]}`), at(4, text("b")), at(5, finish("stop")), at(6, usageEvent("3", "2"), done))
	wantOutcome(t, a, record.OutcomeOK)
	wantUsage(t, a, "3/2/?/? final")
	if a.ArrivalKinds != "cc" {
		t.Errorf("arrivals: got %q", a.ArrivalKinds)
	}
}

func TestAIPerf368EventsOfOneReadAreCoalesced(t *testing.T) {
	for _, n := range []int{1, 2, 16, 200} {
		var pieces []timed
		want := ""
		for w := range 3 {
			var payloads []string
			for i := range n {
				s := fmt.Sprintf("%d.%d ", w, i)
				want += s
				payloads = append(payloads, text(s))
			}
			pieces = append(pieces, at(int64(10*(w+1)), payloads...))
		}
		a := answerOf(t, append(pieces, at(40, finish("stop"), done))...)
		wantText(t, a, want)
		mark := "1"
		if n == 1 {
			mark = "0"
		}
		if len(a.Arrivals) != 3*n || a.Coalesced != strings.Repeat(mark, 3*n) {
			t.Errorf("%d events a read: %d arrivals, coalesced %.20s", n, len(a.Arrivals), a.Coalesced)
		}
	}
}

func TestDelaysAreNullWithUserStampsAlsoWithoutOutput(t *testing.T) {
	p := protocolFor(t, "openai-chat", true)
	for name, body := range map[string][]byte{"no output": chat(finish("stop"), done), "output": chat(text("a"), finish("stop"), done)} {
		if a := decode(p, streamHead(), body); a.ClientDelay != nil {
			t.Errorf("%s: client delay %v, want null", name, a.ClientDelay)
		}
	}
}

func TestSuccessiveReadsWithAnEqualStampAreOneArrival(t *testing.T) {
	empty, delay := int64(7), int64(3)
	d := protocolFor(t, "openai-chat", true).NewDecoder(Want{})
	d.Head(streamHead())
	d.Read(Read{At: 10, Delay: &delay}, chat(text("a")))
	d.Read(Read{At: 20, SeenEmpty: &empty, Delay: &delay}, chat(text("b")))
	d.Read(Read{At: 20, SeenEmpty: &empty, Delay: &delay}, chat(text("c")))
	d.Read(Read{At: 30, SeenEmpty: &empty, Delay: &delay}, chat(text("d"), finish("stop"), done))
	a := d.End(Ending{Kind: EndMark})
	if a.Coalesced != "0110" || !slices.Equal(a.Arrivals, []int64{10, 10, 0, 10}) || !slices.Equal(a.ClientDelay, []int64{3, 3, 3, 3}) {
		t.Errorf("got %s, %v, %v", a.Coalesced, a.Arrivals, a.ClientDelay)
	}
	if a.SeenEmpty[0] != nil || a.SeenEmpty[1] == nil || *a.SeenEmpty[2] != 7 || a.SeenEmpty[3] != nil {
		t.Errorf("seen empty: got %v, want the bound of coalesced arrivals alone", a.SeenEmpty)
	}
	if *a.End != 30 || a.Text != nil || a.Content != "abcd" {
		t.Errorf("end %d, text %v, content %q", *a.End, a.Text, a.Content)
	}
}

func TestArrivalIsTheReadThatDeliversTheLastByte(t *testing.T) {
	body := chat(text("a"))
	n := len(body)
	for name, tt := range map[string]struct {
		pieces []timed
		want   int64
	}{
		"in one":                {[]timed{{5, body}}, 5},
		"over three":            {[]timed{{1, body[:3]}, {2, body[3:9]}, {3, body[9:]}}, 3},
		"blank line comes late": {[]timed{{1, body[:n-1]}, {9, body[n-1:]}}, 9},
		"cr lf cut between":     {[]timed{raw(1, "data: "+text("a")+"\r\n\r"), raw(9, "\n")}, 1},
		"no blank line at all":  {[]timed{raw(4, "data: "+text("a")+"\n")}, 4},
	} {
		a := answerOf(t, tt.pieces...)
		wantMS(t, name, a.FirstOutput, tt.want)
	}
}

func TestNMVLLM142TextIsNeverDoubled(t *testing.T) {
	soFar := func(s string) string { return fmt.Sprintf(`{"text":%q,"meta_info":{"finish_reason":null}}`, s) }
	last := `{"text":"one two three","meta_info":{"finish_reason":{"type":"stop"},"prompt_tokens":3,"completion_tokens":3}}`
	texts := []string{soFar("one"), soFar("one two"), soFar("one two three"), last}
	for _, api := range []string{"sglang", "generate-sse"} {
		p := protocolFor(t, api, true)
		for name, between := range map[string]string{"nul": "\x00", "newline": "\n", "nothing": ""} {
			a := decode(p, streamHead(), []byte(strings.Join(texts, between)))
			if a.Outcome != record.OutcomeMalformed || strings.Contains(a.Content, "oneone") {
				t.Errorf("%s, %s between: got %s, %q", api, name, a.Outcome, a.Content)
			}
		}
		for _, pieces := range [][][]byte{{chat(texts...)}, everyByte(chat(texts...))} {
			if a := decode(p, streamHead(), pieces...); a.Content != "one two three" || a.Outcome != record.OutcomeOK {
				t.Errorf("%s as events: got %s, %q", api, a.Outcome, a.Content)
			}
		}
	}
}

// A token that begins with the one before is no whole so far.
func TestTokensThatBeginAlikeAreAllKept(t *testing.T) {
	p := protocolFor(t, "generate-sse", true)
	for want, events := range map[string][]string{
		"110":    {`{"token":{"text":"1"}}`, `{"token":{"text":"10"}}`},
		"\n\n\n": {`{"token":"\n"}`, `{"token":"\n\n"}`},
		"aab":    {"a", "ab"},
	} {
		if a := decode(p, streamHead(), chat(events...)); a.Content != want || a.Outcome != record.OutcomeOK {
			t.Errorf("%q: got %s, %q, want %q", events, a.Outcome, a.Content, want)
		}
	}
}

func TestEndpoints497ABadFrameKeepsItsNeighbours(t *testing.T) {
	a := answerOf(t, raw(1, string(chat(text("good ")))+"data: {\"choices\": [{]}\n\n"+string(chat(text("too"), finish("stop"), done))))
	wantOutcome(t, a, record.OutcomeMalformed)
	wantText(t, a, "good too")
	if a.Error.Class != "json" {
		t.Errorf("class: got %s", a.Error.Class)
	}
}

func TestPerfAnalyzer440AnEventCutInItsJSONIsThere(t *testing.T) {
	a := answerOf(t, at(1, text("a"), `{"choices":[{"index":0,"delta":{"content":"b`, finish("stop"), done))
	wantOutcome(t, a, record.OutcomeMalformed)
	a = answerOf(t, at(1, text("a")), raw(2, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\n"))
	wantOutcome(t, a, record.OutcomeMalformed)
	wantNote(t, a, "cut")
	// No line end either: the server ended the body inside the JSON. Where only
	// the close of the connection says so, it was cut.
	half := []timed{at(1, text("a")), raw(2, "data: {\"choi")}
	a = answerOf(t, half...)
	wantOutcome(t, a, record.OutcomeMalformed)
	wantNote(t, a, "cut")
	wantOutcome(t, answerEnding(t, Ending{Kind: EndClean, Open: true}, half...), record.OutcomeCut)
	a = answerEnding(t, Ending{Kind: EndCut, Class: "reset"}, at(1, text("a")), raw(2, "data: {\"choices\":[{"))
	wantOutcome(t, a, record.OutcomeCut)
	if a.Error.Class != "reset" {
		t.Errorf("class: got %s", a.Error.Class)
	}
}

func TestLMCache2970CharactersByteByByte(t *testing.T) {
	const want = "中😀"
	var pieces []timed
	for i, b := range everyByte(chat(text(want), finish("stop"), done)) {
		pieces = append(pieces, timed{int64(i), b})
	}
	a := answerOf(t, pieces...)
	wantOutcome(t, a, record.OutcomeOK)
	wantText(t, a, want)
}

func TestPegainfer142FinishReasonErrorIsAFailure(t *testing.T) {
	for _, reason := range []string{"error", "abort"} {
		a := answerOf(t, at(1, text("a"), text("b"), text("c"), text("d"), text("e"), finish(reason), done))
		wantOutcome(t, a, record.OutcomeInBandError)
		if !slices.Equal(a.FinishReasons, []string{reason}) {
			t.Errorf("finish reasons: got %q", a.FinishReasons)
		}
	}
}

func TestGuideLLM737ReasoningIsOutputAndNotContent(t *testing.T) {
	a := answerOf(t, at(1000, delta(`"reasoning_content":"hm"`)), at(2000, text("a")), at(2001, finish("stop"), done))
	wantMS(t, "first output", a.FirstOutput, 1000)
	wantMS(t, "first content", a.FirstContent, 2000)
	if a.ArrivalKinds != "rc" || *a.Reasoning != "hm" {
		t.Errorf("got %s, %q", a.ArrivalKinds, *a.Reasoning)
	}
}

func TestInferencePerf559ReasoningAloneHasNoContentStamp(t *testing.T) {
	a := answerOf(t, at(1000, delta(`"reasoning":"hm"`)), at(2000, finish("length"), done))
	wantMS(t, "first output", a.FirstOutput, 1000)
	wantMS(t, "first content", a.FirstContent, never)
	wantOutcome(t, a, record.OutcomeTruncated)
}

func TestEvalscope1700ReasoningUnderEveryName(t *testing.T) {
	for name, tt := range map[string]struct{ fields, want string }{
		"reasoning":         {`"reasoning":"x"`, "x"},
		"reasoning_content": {`"reasoning_content":"x"`, "x"},
		"thinking":          {`"thinking":"x"`, "x"},
		"both equal":        {`"reasoning":"x","reasoning_content":"x"`, "x"},
		"both different":    {`"reasoning":"x","reasoning_content":"y"`, "yx"},
	} {
		a := answerOf(t, at(1, delta(tt.fields)), at(2, text("a"), finish("stop"), done))
		wantMS(t, name, a.FirstOutput, 1)
		if *a.Reasoning != tt.want || a.ArrivalKinds != "rc" {
			t.Errorf("%s: got %q, %s", name, *a.Reasoning, a.ArrivalKinds)
		}
	}
}

func TestPerfAnalyzer433ReasoningTokensAreKeptApart(t *testing.T) {
	a := answerOf(t, at(1, delta(`"reasoning":"x"`), text("a"), finish("stop"),
		`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":231,"completion_tokens_details":{"reasoning_tokens":80}}}`, done))
	wantUsage(t, a, "9/231/80/? final")
}

func TestSGLang36272ToolCallsAreOutputWithTheServersCount(t *testing.T) {
	call := func(arguments string, tokens int) string {
		return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":%q}}]}}],"usage":{"prompt_tokens":5,"completion_tokens":%d}}`, arguments, tokens)
	}
	a := answerOf(t, at(10, call(`{"a"`, 1)), at(330, call(`:1}`, 17)), at(331, finish("tool_calls"), done))
	if a.ArrivalKinds != "tt" || !slices.Equal(gaps(a), []int64{320}) {
		t.Errorf("got %s, gaps %v", a.ArrivalKinds, gaps(a))
	}
	wantUsage(t, a, "5/17/?/? continuous")
	wantMS(t, "first content", a.FirstContent, never)
	if len(a.ToolCalls) != 1 || a.ToolCalls[0].Arguments != `{"a":1}` {
		t.Errorf("tool calls: got %+v", a.ToolCalls)
	}
}

func TestAIPerf804ToolCallsAloneAreCountedByUsageOrNotAtAll(t *testing.T) {
	call := delta(`"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]`)
	a := answerOf(t, at(1, call, finish("tool_calls"), usageEvent("9", "40"), done))
	wantUsage(t, a, "9/40/?/? final")
	wantOutcome(t, a, record.OutcomeOK)
	a = answerOf(t, at(1, call, finish("tool_calls"), done))
	wantUsage(t, a, "?/?/?/? none (the answer carries no usage)")
}

func TestSGLang24266TheRequestedMaximumIsNeverCredited(t *testing.T) {
	var payloads []string
	for range 10 {
		payloads = append(payloads, text("a"))
	}
	a := answerOf(t, at(1, append(payloads, finish("stop"), done)...))
	if a.Usage.Output != nil {
		t.Errorf("output tokens: got %d, want null", *a.Usage.Output)
	}
}

func TestVLLM44708TheActualPromptCountIsKept(t *testing.T) {
	a := answerOf(t, at(1, text("a"), finish("stop"), usageEvent("138", "1"), done))
	wantUsage(t, a, "138/1/?/? final")
}

func TestInferencePerf410AChunkIsNotAToken(t *testing.T) {
	var pieces []timed
	for i := range int64(10) {
		pieces = append(pieces, at(i*20+20, text("four ")))
	}
	a := answerOf(t, append(pieces, at(201, finish("stop"), usageEvent("1", "40"), done))...)
	if len(a.Arrivals) != 10 || *a.Usage.Output != 40 {
		t.Errorf("got %d events, usage %s", len(a.Arrivals), usageText(a))
	}
}

func TestFlexibleInferenceBench66BlanksAreOutput(t *testing.T) {
	var payloads []string
	for range 25 {
		payloads = append(payloads, text(" \n"))
	}
	a := answerOf(t, at(1, append(payloads, finish("stop"), usageEvent("1", "50"), done)...))
	wantOutcome(t, a, record.OutcomeOK)
	wantText(t, a, strings.Repeat(" \n", 25))
	wantUsage(t, a, "1/50/?/? final")
}

func TestEvalscope212AbsurdUsageIsUnknown(t *testing.T) {
	a := answerOf(t, at(1, text("a"), finish("stop"), usageEvent("5", "84000"), done))
	wantUsage(t, a, "5/?/?/? final (output tokens: more than was asked for and than the answer can hold)")
}

func TestGuideLLM979HTTPErrorsKeepTheirMessage(t *testing.T) {
	p := protocolFor(t, "openai-chat", true)
	a := decode(p, Head{Status: 400}, []byte(`{"error":{"message":"Unrecognized request argument supplied: ignore_eos","type":"invalid_request_error"}}`))
	wantOutcome(t, a, record.OutcomeHTTPError)
	if a.Error.Class != "http_400" || !strings.Contains(a.Error.Message, "ignore_eos") || *a.HTTPStatus != 400 || a.Text != nil {
		t.Errorf("got %+v, text %v", a.Error, a.Text)
	}
	one := true
	for _, eos := range []*bool{nil, &one} {
		body, err := p.Body(Request{Prompt: "x", Sampling: Sampling{IgnoreEOS: eos}})
		if err != nil || strings.Contains(string(body), "ignore_eos") != (eos != nil) {
			t.Errorf("ignore_eos %v: %s, %v", eos, body, err)
		}
	}
}

func TestVLLMOmni7130HangsEndByTheirLimit(t *testing.T) {
	five := []timed{at(1, text("a")), at(2, text("b")), at(3, text("c")), at(4, text("d")), at(5, text("e"))}
	a := answerEnding(t, Ending{Kind: EndGap, At: 2005e6}, five...)
	wantOutcome(t, a, record.OutcomeStalledMid)
	wantText(t, a, "abcde")
	wantMS(t, "last output", a.LastOutput, 5)
	wantMS(t, "end", a.End, 2005)
	a = answerEnding(t, Ending{Kind: EndTotal, At: 9000e6}, five...)
	wantOutcome(t, a, record.OutcomeTotalTimeout)
}

func TestGenAIBench100BufferedEventsAreOneArrival(t *testing.T) {
	var payloads []string
	for range 200 {
		payloads = append(payloads, text("x"))
	}
	a := answerOf(t, at(50, append(payloads, finish("stop"), usageEvent("1", "200"), done)...))
	if strings.Trim(a.Coalesced, "1") != "" || *a.FirstOutput != *a.LastOutput {
		t.Errorf("coalesced %.10s, first %d, last %d", a.Coalesced, *a.FirstOutput, *a.LastOutput)
	}
}

func TestFastDeploy8113BurstsHoldMoreTokensThanEvents(t *testing.T) {
	var pieces []timed
	for i := range int64(10) {
		pieces = append(pieces, at(200*(i+1), text("ten tokens of text here ")))
	}
	a := answerOf(t, append(pieces, at(2001, finish("stop"), usageEvent("1", "100"), done))...)
	if len(a.Arrivals) != 10 || *a.Usage.Output != 100 || gaps(a)[0] != 200 {
		t.Errorf("got %d events, %s, gaps %v", len(a.Arrivals), usageText(a), gaps(a))
	}
}

func TestTokenomics16EveryGoodStatusInTwoHundredsCounts(t *testing.T) {
	p := protocolFor(t, "openai-chat", true)
	good := chat(text(strings.Repeat("x", 1<<20)), finish("stop"), done)
	head := streamHead()
	head.Status = 201
	if a := decode(p, head, good); a.Outcome != record.OutcomeOK {
		t.Errorf("201: got %s, %+v", a.Outcome, a.Error)
	}
	head.Status = 204
	if a := decode(p, head); a.Outcome != record.OutcomeMalformed {
		t.Errorf("204: got %s", a.Outcome)
	}
}

func TestInferencePerf452UsageEventsInBetweenAreNoOutput(t *testing.T) {
	a := answerOf(t, at(1, text("a")), at(2, usageEvent("1", "1")), at(3, text("b")), at(4, usageEvent("1", "2")), at(5, finish("stop"), done))
	if a.ArrivalKinds != "cc" || !slices.Equal(gaps(a), []int64{2}) {
		t.Errorf("got %s, gaps %v", a.ArrivalKinds, gaps(a))
	}
	wantUsage(t, a, "1/2/?/? final")
}

func TestLMEval3244TruncatedThoughtHasNoContent(t *testing.T) {
	a := answerOf(t, at(1, delta(`"content":"","reasoning":"hm"`)), at(2, finish("length"),
		`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":256,"completion_tokens_details":{"reasoning_tokens":256}}}`, done))
	wantOutcome(t, a, record.OutcomeTruncated)
	wantMS(t, "first content", a.FirstContent, never)
	wantUsage(t, a, "1/256/256/? final")
}

func TestInferenceX357RefusedLoadKeepsRetryAfter(t *testing.T) {
	p := protocolFor(t, "openai-chat", true)
	for _, status := range []int{429, 503, 529} {
		h := Head{Status: status, Header: map[string][]string{"Retry-After": {"7"}}}
		a := decode(p, h, []byte("busy"))
		wantOutcome(t, a, record.OutcomeRefusedLoad)
		if a.Error.RetryAfterS == nil || *a.Error.RetryAfterS != 7 || a.Error.Message != "busy" {
			t.Errorf("%d: got %+v", status, a.Error)
		}
	}
}

func TestRetryAfterDatesCountFromTheAnswersOwnClock(t *testing.T) {
	h := map[string][]string{"Retry-After": {"Mon, 30 Nov 2026 10:00:30 GMT"}, "Date": {"Mon, 30 Nov 2026 10:00:00 GMT"}}
	if got := retryAfter(h); got == nil || *got != 30 {
		t.Errorf("got %v, want 30", got)
	}
	for _, bad := range []string{"-1", "soon", "NaN", "1e300", ""} {
		if got := retryAfter(map[string][]string{"Retry-After": {bad}}); got != nil {
			t.Errorf("%q: got %v, want null", bad, *got)
		}
	}
}

func TestJSONOfEveryAnswerIsValid(t *testing.T) {
	a := answerOf(t, raw(1, "data: {\"choices\":[{\"delta\":{\"content\":\"\\ud800 \xff <script>\\u001b[31m \\u202e\"},\"finish_reason\":\"st\xffop\"}],\"model\":\"m\xff\"}\n\n"), raw(2, "data: {\"error\":\"\xff\\u0000\"}\n\n"))
	var attempt record.Attempt
	a.Put(&attempt)
	b, err := json.Marshal(attempt)
	if err != nil {
		t.Fatal(err)
	}
	var back record.Attempt
	if err := json.Unmarshal(b, &back); err != nil || *back.Text != "\ufffd \ufffd <script>\x1b[31m \u202e" {
		t.Errorf("got %q, %v", *back.Text, err)
	}
	wantNote(t, a, "invalid_utf8")
}
