package engine

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"anvil/stages/record"
)

func TestEveryOutcomeIsNamed(t *testing.T) {
	good := []timed{at(1, text("a")), at(2, finish("stop"), done)}
	headOnly := func(status int, contentType string) *Head {
		return &Head{Status: status, Header: http.Header{"Content-Type": {contentType}}}
	}
	stream := headOnly(200, "text/event-stream; charset=utf-8")
	for name, tt := range map[string]struct {
		head   *Head
		pieces []timed
		ending EndKind
		class  string // of the ending, then of the error
		want   record.Outcome
		notes  []string
	}{
		"ok":                      {head: stream, pieces: good, ending: EndMark, want: record.OutcomeOK},
		"ok at the body's end":    {head: stream, pieces: []timed{at(1, text("a"), finish("stop"))}, ending: EndClean, want: record.OutcomeOK, notes: []string{"no_done_marker"}},
		"ok though cut after":     {head: stream, pieces: []timed{at(1, text("a"), finish("stop"))}, ending: EndCut, want: record.OutcomeOK, notes: []string{"no_done_marker", "unclean_end"}},
		"truncated":               {head: stream, pieces: []timed{at(1, text("a"), finish("length"), done)}, ending: EndMark, want: record.OutcomeTruncated},
		"truncated and empty":     {head: stream, pieces: []timed{at(1, finish("length"), done)}, ending: EndMark, want: record.OutcomeTruncated},
		"empty":                   {head: stream, pieces: []timed{at(1, finish("stop"), done)}, ending: EndMark, want: record.OutcomeEmpty},
		"content filter":          {head: stream, pieces: []timed{at(1, text("a"), finish("content_filter"), done)}, ending: EndMark, want: record.OutcomeOK, notes: []string{"content_filter"}},
		"a reason nobody knows":   {head: stream, pieces: []timed{at(1, text("a"), finish("because"), done)}, ending: EndMark, want: record.OutcomeOK, notes: []string{"unknown_finish_reason"}},
		"refused":                 {head: headOnly(429, "text/plain"), ending: EndClean, want: record.OutcomeRefusedLoad},
		"http error":              {head: headOnly(404, "text/plain"), ending: EndClean, want: record.OutcomeHTTPError},
		"http error, read enough": {head: headOnly(500, "text/plain"), pieces: []timed{raw(1, strings.Repeat("x", 70<<10))}, ending: EndEnough, want: record.OutcomeHTTPError},
		"http error, cut":         {head: headOnly(500, "text/plain"), ending: EndCut, want: record.OutcomeHTTPError},
		"redirect":                {head: headOnly(302, "text/plain"), ending: EndClean, want: record.OutcomeHTTPError},
		"in-band error":           {head: stream, pieces: []timed{at(1, text("a"), `{"error":"x"}`, done)}, ending: EndMark, want: record.OutcomeInBandError, notes: []string{"cut"}},
		"error in a JSON body":    {head: headOnly(200, "application/json"), pieces: []timed{raw(1, `{"error":{"message":"x"}}`)}, ending: EndClean, want: record.OutcomeInBandError, notes: []string{"malformed", "cut"}},
		"a completion for a stream": {
			head: headOnly(200, "application/json"), pieces: []timed{raw(1, `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`)},
			ending: EndClean, want: record.OutcomeMalformed, notes: []string{"cut"},
		},
		"html page":               {head: headOnly(200, "text/html"), pieces: []timed{raw(1, "<html>hi: there</html>\n")}, ending: EndClean, want: record.OutcomeMalformed, notes: []string{"cut"}},
		"html as a stream":        {head: stream, pieces: []timed{raw(1, "<html>\n<body style=\"a: b\">\n")}, ending: EndClean, want: record.OutcomeMalformed, notes: []string{"cut"}},
		"wrong content type":      {head: headOnly(200, "text/plain"), pieces: good, ending: EndMark, want: record.OutcomeMalformed},
		"no content type":         {head: &Head{Status: 200}, pieces: good, ending: EndMark, want: record.OutcomeOK, notes: []string{"no_content_type"}},
		"bad json":                {head: stream, pieces: []timed{at(1, text("a"), "{", finish("stop"), done)}, ending: EndMark, want: record.OutcomeMalformed},
		"error as a stream":       {head: stream, pieces: []timed{raw(1, "{\"error\": {\"message\": \"x\"}}")}, ending: EndClean, want: record.OutcomeInBandError, notes: []string{"malformed", "cut"}},
		"choice is no object":     {head: stream, pieces: []timed{at(1, `{"choices":["x"]}`, finish("stop"), done)}, ending: EndMark, want: record.OutcomeMalformed},
		"delta is a text":         {head: stream, pieces: []timed{at(1, `{"choices":[{"delta":"x"}]}`, finish("stop"), done)}, ending: EndMark, want: record.OutcomeMalformed},
		"index is no index":       {head: stream, pieces: []timed{at(1, `{"choices":[{"index":-1,"delta":{"content":"x"}}]}`, finish("stop"), done)}, ending: EndMark, want: record.OutcomeMalformed},
		"tool calls are none":     {head: stream, pieces: []timed{at(1, `{"choices":[{"delta":{"tool_calls":"x"}}]}`, finish("stop"), done)}, ending: EndMark, want: record.OutcomeMalformed},
		"choices is no list":      {head: stream, pieces: []timed{at(1, `{"choices":{}}`, finish("stop"), done)}, ending: EndMark, want: record.OutcomeMalformed},
		"not an object":           {head: stream, pieces: []timed{at(1, text("a"), `["x"]`, finish("stop"), done)}, ending: EndMark, want: record.OutcomeMalformed},
		"null is noted":           {head: stream, pieces: []timed{at(1, "null", text("a"), finish("stop"), done)}, ending: EndMark, want: record.OutcomeOK, notes: []string{"null_event"}},
		"something else is noted": {head: stream, pieces: []timed{at(1, `{"ping":1}`, text("a"), finish("stop"), done)}, ending: EndMark, want: record.OutcomeOK, notes: []string{"foreign_event"}},
		"empty data is noted":     {head: stream, pieces: []timed{at(1, "", text("a"), finish("stop"), done)}, ending: EndMark, want: record.OutcomeOK, notes: []string{"empty_event"}},
		"event too large":         {head: stream, pieces: good[:1], ending: EndEventTooLarge, class: "event_too_large", want: record.OutcomeMalformed},
		"body too large":          {head: stream, pieces: good[:1], ending: EndBodyTooLarge, class: "body_too_large", want: record.OutcomeMalformed},
		"no body":                 {head: headOnly(204, ""), ending: EndClean, class: "no_body", want: record.OutcomeMalformed, notes: []string{"cut"}},
		"cut":                     {head: stream, pieces: good[:1], ending: EndCut, class: "reset", want: record.OutcomeCut},
		"cut by a clean end":      {head: stream, pieces: good[:1], ending: EndClean, class: "end_without_finish", want: record.OutcomeCut},
		"cut by [DONE]":           {head: stream, pieces: []timed{at(1, text("a"), done)}, ending: EndMark, class: "done_without_finish", want: record.OutcomeCut},
		"cut without a byte":      {head: stream, ending: EndClean, want: record.OutcomeCut},
		"cut with a wrong choice": {head: stream, pieces: []timed{at(1, text("a"), `{"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}`, done)}, ending: EndMark, want: record.OutcomeCut},
		"ended in an event":       {head: stream, pieces: []timed{at(1, text("a")), raw(2, "data: {")}, ending: EndClean, class: "json", want: record.OutcomeMalformed, notes: []string{"partial_event", "cut"}},
		"ended in a field name":   {head: stream, pieces: []timed{at(1, text("a")), raw(2, "dat")}, ending: EndClean, class: "end_without_finish", want: record.OutcomeCut, notes: []string{"partial_event"}},
		"ended in a whole event":  {head: stream, pieces: []timed{at(1, text("a")), raw(2, "data: {}")}, ending: EndClean, class: "end_without_finish", want: record.OutcomeCut, notes: []string{"partial_event"}},
		"cut in an event":         {head: stream, pieces: []timed{at(1, text("a")), raw(2, "data: {")}, ending: EndCut, class: "eof", want: record.OutcomeCut},
		"ended after the finish":  {head: stream, pieces: []timed{at(1, text("a"), finish("stop")), raw(2, "data: {")}, ending: EndClean, want: record.OutcomeOK, notes: []string{"partial_event", "no_done_marker"}},
		"a head beyond reading":   {head: stream, ending: EndTransport, class: "protocol", want: record.OutcomeTransport},
		"stalled first":           {head: stream, pieces: []timed{at(1, delta(`"role":"assistant"`))}, ending: EndFirstOutput, want: record.OutcomeStalledFirst},
		"stalled before the head": {ending: EndFirstOutput, want: record.OutcomeStalledFirst},
		"stalled mid":             {head: stream, pieces: good[:1], ending: EndGap, want: record.OutcomeStalledMid},
		"total timeout":           {head: stream, pieces: good[:1], ending: EndTotal, want: record.OutcomeTotalTimeout},
		"total before the head":   {ending: EndTotal, want: record.OutcomeTotalTimeout},
		"client abort":            {head: stream, pieces: good[:1], ending: EndAbort, want: record.OutcomeClientAbort},
		"refused connection":      {ending: EndTransport, class: "refused", want: record.OutcomeTransport},
		"http before stall":       {head: headOnly(500, "text/plain"), ending: EndTotal, want: record.OutcomeHTTPError, notes: []string{"total_timeout"}},
		"in-band before malformed": {
			head: stream, pieces: []timed{at(1, "{", `{"error":"x"}`)}, ending: EndGap,
			want: record.OutcomeInBandError, notes: []string{"malformed", "stalled_mid"},
		},
		"malformed before stall": {head: stream, pieces: []timed{at(1, "{")}, ending: EndFirstOutput, want: record.OutcomeMalformed, notes: []string{"stalled_first"}},
		"an encoding not asked":  {head: &Head{Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}, "Content-Encoding": {"br"}}}, ending: EndClean, class: "content_encoding", want: record.OutcomeMalformed, notes: []string{"cut"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := protocolFor(t, "openai-chat", true).NewDecoder(Want{StoreText: true, MaxTokens: 64})
			if tt.head != nil {
				d.Head(*tt.head)
			}
			for _, p := range tt.pieces {
				d.Read(Read{At: p.ms * 1e6}, p.bytes)
			}
			e := Ending{Kind: tt.ending, At: 99e6}
			if tt.ending == EndCut || tt.ending == EndTransport {
				e.Class, e.Message = tt.class, "read: connection reset by peer"
			}
			a := d.End(e)
			wantOutcome(t, a, tt.want)
			if !slices.Equal(a.Notes, tt.notes) && len(a.Notes)+len(tt.notes) > 0 {
				t.Errorf("notes: got %q, want %q", a.Notes, tt.notes)
			}
			if tt.want.Success() != (a.Error == nil) {
				t.Errorf("error: got %+v for %s", a.Error, tt.want)
			}
			if tt.class != "" && (a.Error == nil || a.Error.Class != tt.class) {
				t.Errorf("class: got %+v, want %s", a.Error, tt.class)
			}
			if a.End == nil {
				t.Error("no end")
			}
		})
	}
}

func TestALateFailureYieldsToAnEarlierOne(t *testing.T) {
	a := Answer{Outcome: record.OutcomeTruncated}
	a.Fail(record.OutcomeCanaryFailed)
	a.Fail(record.OutcomeLengthMismatch)
	if a.Outcome != record.OutcomeCanaryFailed || !slices.Equal(a.Notes, []string{"length_mismatch"}) {
		t.Errorf("got %s, %q", a.Outcome, a.Notes)
	}
}

func TestRedirectsTellTheOriginAlone(t *testing.T) {
	for location, want := range map[string]string{
		"http://user:pw@other:1234/v1/chat?token=secret": "redirected to http://other:1234; redirects are not followed",
		"/v1/chat/completions":                           "redirected to the same origin; redirects are not followed",
		"":                                               "HTTP 307 Temporary Redirect",
		"http://[::1":                                    "redirected to an unreadable address; redirects are not followed",
	} {
		f := httpFault(Head{Status: 307, Header: http.Header{"Location": {location}}}, nil)
		if f.message != want {
			t.Errorf("%s: got %q, want %q", location, f.message, want)
		}
	}
}

func TestNothingAfterTheEndMarkCounts(t *testing.T) {
	a := answerOf(t, at(1, text("a"), finish("stop"), done, text("b"), `{"error":"late"}`), at(2, text("c")))
	wantOutcome(t, a, record.OutcomeOK)
	wantText(t, a, "a")
	wantMS(t, "end", a.End, 1)
	if len(a.Arrivals) != 1 {
		t.Errorf("arrivals: got %v", a.Arrivals)
	}
}

func TestChoicesAreKeptApart(t *testing.T) {
	second := `{"choices":[{"index":1,"delta":{"content":"SECOND"}}]}`
	a := answerOf(t, at(1, text("a"), second), at(2, text("b"), second),
		at(3, `{"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}`, finish("stop"), done))
	wantText(t, a, "ab")
	wantOutcome(t, a, record.OutcomeOK)
	if a.Choices != 2 || !slices.Equal(a.FinishReasons, []string{"stop", "length"}) || a.ArrivalKinds != "cccc" {
		t.Errorf("got %d choices, %q, %s", a.Choices, a.FinishReasons, a.ArrivalKinds)
	}
}

func TestThinkTagsAreOutputAndNotVisible(t *testing.T) {
	for name, tt := range map[string]struct {
		pieces []string
		kinds  string
		first  int64 // index of the event with the first visible content
	}{
		"in events of their own": {[]string{"<think>", "hm", "</think>", "\n\n", "yes"}, "rrrrc", 4},
		"cut in the tags":        {[]string{"<th", "ink>hm</thi", "nk>\nyes", "!"}, "rrcc", 2},
		"blanks before":          {[]string{"\n ", "<think>hm</think>", "yes"}, "rrc", 2},
		"never closed":           {[]string{"<think>", "hm"}, "rr", never},
		"opened by the prompt":   {[]string{"hm", " hm", "</think>", "yes"}, "rrrc", 3},
		"mentioned in the text":  {[]string{"use ", "<think>x</think>", " tags"}, "ccc", 0},
		"only like a tag":        {[]string{"<thin", " ice"}, "cc", 0},
		"at once":                {[]string{"<think>hm</think>yes"}, "c", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var pieces []timed
			for i, s := range tt.pieces {
				pieces = append(pieces, at(int64(10*i), text(s)))
			}
			a := answerOf(t, append(pieces, at(1000, finish("stop"), done))...)
			if a.ArrivalKinds != tt.kinds {
				t.Errorf("kinds: got %s, want %s", a.ArrivalKinds, tt.kinds)
			}
			wantMS(t, "first output", a.FirstOutput, 0)
			wantMS(t, "first content", a.FirstContent, max(tt.first*10, never))
			wantText(t, a, strings.Join(tt.pieces, ""))
			if tagged := tt.kinds[0] == 'r' || name == "at once"; slices.Contains(a.Notes, "think_tags") != tagged {
				t.Errorf("notes: got %q", a.Notes)
			}
		})
	}
}

func TestToolCallsAreAssembled(t *testing.T) {
	call := func(fields string) string { return delta(`"tool_calls":[{` + fields + `}]`) }
	for name, tt := range map[string]struct {
		payloads []string
		want     []record.ToolCall
	}{
		"in pieces": {
			[]string{call(`"index":0,"id":"c1","function":{"name":"f","arguments":""}`), call(`"index":0,"function":{"arguments":"{\"a\""}`), call(`"index":0,"function":{"arguments":":1}"}`)},
			[]record.ToolCall{{Index: 0, ID: "c1", Name: "f", Arguments: `{"a":1}`}},
		},
		"two at once": {
			[]string{call(`"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}`), call(`"index":1,"id":"c2","function":{"name":"g","arguments":"[]"}`)},
			[]record.ToolCall{{Index: 0, ID: "c1", Name: "f", Arguments: "{}"}, {Index: 1, ID: "c2", Name: "g", Arguments: "[]"}},
		},
		"two under one index": {
			[]string{call(`"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}`), call(`"index":0,"id":"c2","function":{"name":"g","arguments":"[]"}`)},
			[]record.ToolCall{{Index: 0, ID: "c1", Name: "f", Arguments: "{}"}, {Index: 0, ID: "c2", Name: "g", Arguments: "[]"}},
		},
		"id and name repeated": {
			[]string{call(`"index":0,"id":"c1","function":{"name":"f","arguments":"{"}`), call(`"index":0,"id":"c1","function":{"name":"f","arguments":"}"}`)},
			[]record.ToolCall{{Index: 0, ID: "c1", Name: "f", Arguments: "{}"}},
		},
		"arguments as an object": {
			[]string{call(`"function":{"name":"f","arguments":{"a":[1]}}`)},
			[]record.ToolCall{{Name: "f", Arguments: `{"a":[1]}`}},
		},
		"the old form": {
			[]string{delta(`"function_call":{"name":"f","arguments":"{}"}`)},
			[]record.ToolCall{{Name: "f", Arguments: `{}`}},
		},
		"the old form as a twin": {
			[]string{delta(`"function_call":{"name":"f","arguments":"{}"},"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]`)},
			[]record.ToolCall{{ID: "c1", Name: "f", Arguments: `{}`}},
		},
	} {
		a := answerOf(t, at(1, append(tt.payloads, finish("tool_calls"), done)...))
		if !slices.Equal(a.ToolCalls, tt.want) {
			t.Errorf("%s: got %+v, want %+v", name, a.ToolCalls, tt.want)
		}
		wantMS(t, name, a.FirstContent, never)
	}
}

func TestRefusalsAreOutputOfTheirOwnKind(t *testing.T) {
	a := answerOf(t, at(1, delta(`"refusal":"no"`)), at(2, finish("stop"), done))
	if a.ArrivalKinds != "f" || a.Outcome != record.OutcomeOK {
		t.Errorf("got %s, %s", a.ArrivalKinds, a.Outcome)
	}
	wantMS(t, "first content", a.FirstContent, never)
}

func TestTextIsStoredUpToItsBound(t *testing.T) {
	piece := strings.Repeat("é", 1<<18)
	a := answerOf(t, at(1, text("x"), text(piece), text(piece), text("end"), finish("stop"), done))
	if !a.TextTruncated || len(*a.Text) != maxText-1 || !strings.HasSuffix(*a.Text, "é") || len(a.Content) != 1+len(piece)*2+3 {
		t.Errorf("truncated %v, %d stored, %d whole", a.TextTruncated, len(*a.Text), len(a.Content))
	}
	if a.TextSHA256 != sum(a.Content) {
		t.Error("the digest is not of the whole text")
	}
}

func TestMessagesAreBounded(t *testing.T) {
	a := answerOf(t, at(1, `{"error":{"message":"`+strings.Repeat("ü", 5000)+`","type":"`+strings.Repeat("t", 900)+`"}}`))
	if n := len([]rune(a.Error.Message)); n != maxMessage || len(a.Error.Class) != maxName {
		t.Errorf("message of %d characters, class of %d", n, len(a.Error.Class))
	}
}

func TestAnotherModelsNameIsNoted(t *testing.T) {
	a := answerOf(t, at(1, `{"model":"other","choices":[{"index":0,"delta":{"content":"a"}}]}`, finish("stop"), done))
	wantNote(t, a, "model_differs")
	if *a.Model != "other" {
		t.Errorf("model: got %q", *a.Model)
	}
}

func TestAnswersThatWereNotStreamedHaveNoFirstStamps(t *testing.T) {
	p := protocolFor(t, "openai-chat", false)
	body := []byte(`{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi","reasoning":"hm","refusal":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`)
	json := Head{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}}
	a := decode(p, json, body[:10], body[10:])
	wantOutcome(t, a, record.OutcomeOK)
	wantText(t, a, "hi")
	wantUsage(t, a, "3/2/?/? body")
	if a.FirstOutput != nil || a.FirstContent != nil || a.LastOutput != nil || len(a.Arrivals) != 0 || a.DoneMarker || *a.Reasoning != "hm" {
		t.Errorf("got %+v", a)
	}
	for name, tt := range map[string]struct {
		head Head
		body string
		end  EndKind
		want record.Outcome
	}{
		"error":     {json, `{"error":{"message":"x"}}`, EndClean, record.OutcomeInBandError},
		"cut":       {json, `{"choices":[`, EndCut, record.OutcomeCut},
		"bad json":  {json, `{"choices":[`, EndClean, record.OutcomeMalformed},
		"no choice": {json, `{}`, EndClean, record.OutcomeMalformed},
		"empty":     {json, `{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}`, EndClean, record.OutcomeEmpty},
		"truncated": {json, `{"choices":[{"message":{"content":"x"},"finish_reason":"length"}]}`, EndClean, record.OutcomeTruncated},
		"a stream":  {streamHead(), string(chat(text("a"), finish("stop"), done)), EndClean, record.OutcomeMalformed},
		"no reason": {json, `{"choices":[{"message":{"content":"x"}}]}`, EndClean, record.OutcomeCut},
	} {
		if a := decodeEnding(p, tt.head, Ending{Kind: tt.end}, []byte(tt.body)); a.Outcome != tt.want {
			t.Errorf("%s: got %s, want %s", name, a.Outcome, tt.want)
		}
	}
}
