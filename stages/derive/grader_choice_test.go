package derive_test

import "testing"

func TestChoiceNeedsALetterToWant(t *testing.T) {
	judgeAll(t, []verdictCase{
		{`{"type":"choice"}`, `"blue"`, "B", "grader_error", ""},
		{`{"type":"choice"}`, `"E"`, "B", "grader_error", ""},
		{`{"type":"choice"}`, `["blue","b"]`, "B", "pass", "B"},
	})
}
