package derive_test

import (
	"strings"
	"testing"

	"anvil/stages/record"
)

// called is an answer of one tool call alone.
func called(name, arguments string) record.Attempt {
	a := answered(0, "i", "", 0, 5)
	a.ToolCalls = []record.ToolCall{{Name: name, Arguments: arguments}}
	return a
}

func TestToolCallKeepsUnlikeArgumentsApart(t *testing.T) {
	for _, tt := range []struct {
		want, got string
		verdict   record.Verdict
		score     float64
	}{
		{`"007"`, `"7"`, "fail", 0},
		{`"1.10"`, `"1.1"`, "fail", 0},
		{`[1]`, `["1"]`, "fail", 0},
		{`{"b":true}`, `{"b":"true"}`, "fail", 0},
		{`7`, `"7"`, "fail", 0},
		{`7`, `7.0`, "pass", 1},
		{`{"b":[1]}`, `{"b":[1e0]}`, "pass", 1},
	} {
		row := `{"id":"i","prompt":"p","expected":{"name":"f","arguments":{"a":` + tt.want + `}}}`
		g := judge(t, `{"type":"tool_call"}`, row, called("f", `{"a":`+tt.got+`}`))
		if g.Verdict != tt.verdict || *g.Score != tt.score {
			t.Errorf("%s for %s: %s, score %v (%s), want %s, %v", tt.got, tt.want, g.Verdict, *g.Score, g.Reason, tt.verdict, tt.score)
		}
	}
	g := judge(t, `{"type":"tool_call"}`, `{"id":"i","prompt":"p","expected":{"name":"f","arguments":{"a":2}}}`, called("f", `{"a":1,"a":2}`))
	if g.Verdict != record.Fail || !strings.Contains(g.Reason, "duplicate key") {
		t.Errorf("an argument twice: %s (%s)", g.Verdict, g.Reason)
	}
}

func TestToolCallByNameAloneTakesAnyArguments(t *testing.T) {
	for arguments, want := range map[string]record.Verdict{"": "pass", " ": "pass", "{}": "pass", `{"a":1}`: "pass", `{"a":`: "fail"} {
		if g := judge(t, `{"type":"tool_call","name":"f"}`, `{"id":"i","prompt":"p"}`, called("f", arguments)); g.Verdict != want {
			t.Errorf("arguments %q: %s (%s), want %s", arguments, g.Verdict, g.Reason, want)
		}
	}
	for wanted, want := range map[string]record.Verdict{`{}`: "pass", `{"a":1}`: "fail"} {
		row := `{"id":"i","prompt":"p","expected":{"name":"f","arguments":` + wanted + `}}`
		if g := judge(t, `{"type":"tool_call"}`, row, called("f", "")); g.Verdict != want {
			t.Errorf("no arguments for %s: %s (%s), want %s", wanted, g.Verdict, g.Reason, want)
		}
	}
}
