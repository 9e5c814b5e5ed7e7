package engine

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/stages/record"
)

// The type of the last event of a response says how it ended, also where the
// object in it does not (streams.md 5).
func TestTheLastEventOfAResponseIsBelieved(t *testing.T) {
	for _, tt := range []struct {
		name, end string
		want      record.Outcome
		finish    string
	}{
		{"failed", `{"type":"response.failed","response":{"id":"r"}}`, record.OutcomeInBandError, "failed"},
		{"failed, nothing else", `{"type":"response.failed"}`, record.OutcomeInBandError, "failed"},
		{"failed, no error", `{"type":"response.failed","response":{"status":"failed","error":null}}`, record.OutcomeInBandError, "failed"},
		{"failed, called completed", `{"type":"response.failed","response":{"status":"completed"}}`, record.OutcomeInBandError, "failed"},
		{"completed, called failed", `{"type":"response.completed","response":{"status":"failed"}}`, record.OutcomeInBandError, "failed"},
		{"completed", `{"type":"response.completed","response":{"id":"r"}}`, record.OutcomeOK, "completed"},
		{"completed, nothing else", `{"type":"response.completed"}`, record.OutcomeOK, "completed"},
		{"incomplete", `{"type":"response.incomplete","response":{"id":"r"}}`, record.OutcomeTruncated, "incomplete"},
		{"incomplete, called completed", `{"type":"response.incomplete","response":{"status":"completed"}}`, record.OutcomeTruncated, "incomplete"},
		{"completed, called incomplete", `{"type":"response.completed","response":{"status":"incomplete"}}`, record.OutcomeTruncated, "incomplete"},
		{"a reason of its own", `{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}`, record.OutcomeTruncated, "max_output_tokens"},
		{"filtered", `{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}`, record.OutcomeOK, "content_filter"},
	} {
		a := decode(protocolFor(t, "openai-responses", true), streamHead(), []byte("data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n"), []byte("data: "+tt.end+"\n\n"))
		if a.Outcome != tt.want {
			t.Errorf("%s: got %s (%+v), want %s", tt.name, a.Outcome, a.Error, tt.want)
		}
		if diff := cmp.Diff([]string{tt.finish}, a.FinishReasons); diff != "" {
			t.Errorf("%s: finish reasons %s", tt.name, diff)
		}
	}
}

// Ollama's calls are whole, and none of them bears an id in most versions.
func TestToolCallsOfOllamaStayApart(t *testing.T) {
	const f, g = `"name":"f","arguments":{"a":1}`, `"name":"g","arguments":{"b":2}`
	line := func(calls string) []byte {
		return []byte(`{"message":{"role":"assistant","content":"","tool_calls":[` + calls + `]},"done":false}` + "\n")
	}
	want := []record.ToolCall{{Index: 0, Name: "f", Arguments: `{"a":1}`}, {Index: 1, Name: "g", Arguments: `{"b":2}`}}
	for name, lines := range map[string][][]byte{
		"an index, two lines": {line(`{"function":{"index":0,` + f + `}}`), line(`{"function":{"index":1,` + g + `}}`)},
		"an index, one line":  {line(`{"function":{"index":0,` + f + `}},{"function":{"index":1,` + g + `}}`)},
		"none, two lines":     {line(`{"function":{` + f + `}}`), line(`{"function":{` + g + `}}`)},
		"none, one line":      {line(`{"function":{` + f + `}},{"function":{` + g + `}}`)},
	} {
		lines = append(lines, []byte(`{"message":{"content":""},"done":true,"done_reason":"stop"}`+"\n"))
		a := decode(protocolFor(t, "ollama", true), Head{Status: 200, Header: http.Header{"Content-Type": {"application/x-ndjson"}}}, lines...)
		if a.Outcome != record.OutcomeOK {
			t.Errorf("%s: %s %+v", name, a.Outcome, a.Error)
		}
		if diff := cmp.Diff(want, a.ToolCalls); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
