package derive_test

import (
	"testing"

	"anvil/stages/record"
)

// truncated is a request that ended among its thoughts.
func truncated() record.Attempt {
	a := answered(0, "i", "", 0, 64)
	a.Outcome, a.FinishReasons = record.OutcomeTruncated, []string{"length"}
	a.T.FirstContent = nil
	a.Reasoning = new("still thinking")
	return a
}

// Design 8: no answer is unscorable with the outcome as its reason, whatever a
// grader would have looked at.
func TestWithoutContentEveryGraderIsUnscorable(t *testing.T) {
	for _, grader := range []string{
		`{"type":"tool_call","name":"f"}`, `{"type":"length","min":1,"unit":"tokens"}`, `{"type":"finish_reason","in":["stop"]}`,
		`{"type":"latency","metric":"e2e_ms","at_most":1e9}`, `{"type":"equals","value":"x"}`,
		`{"type":"all","of":[{"id":"a","type":"tool_call","name":"f"}]}`,
	} {
		a := truncated()
		for _, text := range []*string{a.Text, nil} {
			a.Text = text
			if g := judge(t, grader, `{"id":"i","prompt":"p"}`, a); g.Verdict != record.Unscorable {
				t.Errorf("%s, text stored %v: %s (%s), want unscorable", grader, text != nil, g.Verdict, g.Reason)
			}
		}
	}
	if g := judge(t, `{"type":"tool_call","name":"f"}`, `{"id":"i","prompt":"p"}`, truncated()); g.Reason != "truncated" {
		t.Errorf("reason %q, want the outcome", g.Reason)
	}
	if g := judge(t, `{"type":"contains","any":["thinking"],"field":"reasoning"}`, `{"id":"i","prompt":"p"}`, truncated()); g.Verdict != record.Pass {
		t.Errorf("a grader of the reasoning: %s (%s)", g.Verdict, g.Reason)
	}
	a := answered(0, "i", "I would call", 0, 64)
	a.Outcome = record.OutcomeTruncated
	if g := judge(t, `{"type":"tool_call","name":"f"}`, `{"id":"i","prompt":"p"}`, a); g.Verdict != record.Fail {
		t.Errorf("text and no call: %s (%s), want fail", g.Verdict, g.Reason)
	}
}

func TestWhatNeedsNoTextIsJudgedWithoutOne(t *testing.T) {
	a := answered(0, "i", "four words are here", 0, 5)
	a.Text = nil // store_text: false
	for grader, want := range map[string]record.Verdict{
		`{"type":"length","min":5,"max":5,"unit":"tokens"}`:   "pass",
		`{"type":"length","max":4,"unit":"tokens"}`:           "fail",
		`{"type":"length","min":1,"unit":"words"}`:            "unscorable",
		`{"type":"finish_reason","in":["stop"]}`:              "pass",
		`{"type":"tool_call","name":"f"}`:                     "fail",
		`{"type":"contains","any":["x"],"field":"reasoning"}`: "unscorable",
	} {
		if g := judge(t, grader, `{"id":"i","prompt":"p"}`, a); g.Verdict != want {
			t.Errorf("%s: %s (%s), want %s", grader, g.Verdict, g.Reason, want)
		}
	}
}

func TestToolCallsAreSearchedAsTheyWereSent(t *testing.T) {
	for _, text := range []string{"a<b", "x & y", "<tag>"} {
		g := judge(t, `{"type":"contains","any":["`+text+`"],"field":"tool_calls"}`, `{"id":"i","prompt":"p"}`, called("f", text))
		if g.Verdict != record.Pass {
			t.Errorf("%q: %s (%s)", text, g.Verdict, g.Reason)
		}
	}
}

func TestWhiteSpaceIsTheSameOnBothSides(t *testing.T) {
	judgeAll(t, []verdictCase{
		{`{"type":"equals"}`, `"x"`, "x\u3000", "pass", "x"},
		{`{"type":"equals"}`, `"\u2003x\u3000"`, "\u3000x\u2009", "pass", "x"},
		{`{"type":"equals","trim":false}`, `"x"`, "x\u3000", "fail", "x\u3000"},
		{`{"type":"starts_with","value":" Yes"}`, `0`, "\u3000Yes, it is", "pass", "Yes"},
		{`{"type":"equals","extract":{"last_line":true}}`, `"x"`, "thinking\n\u3000x\n\u3000\n", "pass", "x"},
		{`{"type":"json"}`, `0`, "\u3000{}\u3000", "pass", "{}"},
	})
}
