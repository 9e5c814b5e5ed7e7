package derive_test

import "testing"

func TestChoiceTakesASmallLetterThatIsNoWord(t *testing.T) {
	const choice = `{"type":"choice"}`
	judgeAll(t, []verdictCase{
		{choice, `"B"`, "Answer: b", "pass", "b"},
		{choice, `"B"`, "The answer is (b).", "pass", "b"},
		{choice, `"B"`, "The answer is **b**", "pass", "b"},
		{choice, `"B"`, "Answer: b\nbecause it is blue", "pass", "b"},
		{choice, `"B"`, "Answer: b - it is blue", "pass", "b"},
		{choice, `"B"`, "The answer is b, I think.", "pass", "b"},
		{choice, `"B"`, "b) because it is blue", "pass", "b"},
		{choice, `"B"`, "b.", "pass", "b"},
		{choice, `"B"`, "\u3000b\u3000", "pass", "b"},
		{choice, `"A"`, "the answer is a.", "pass", "a"},
		{choice, `"A"`, "The answer is a pity.", "fail", ""},
		{choice, `"A"`, "The answer is a-posteriori.", "fail", ""},
		{choice, `"B"`, "The answer is a pity, so the answer is B", "pass", "B"},
		{choice, `"B"`, "a) red\nb) blue", "fail", ""}, // the list again
		{`{"type":"choice","letters":"ABCDE"}`, `"B"`, "e.g. blue, so B", "pass", "B"},
	})
}

func TestChoiceNeedsALetterToWant(t *testing.T) {
	judgeAll(t, []verdictCase{
		{`{"type":"choice"}`, `"blue"`, "B", "grader_error", ""},
		{`{"type":"choice"}`, `"E"`, "B", "grader_error", ""},
		{`{"type":"choice"}`, `["blue","b"]`, "B", "pass", "B"},
	})
}
