package derive_test

import (
	"testing"

	"anvil/stages/record"
)

// A verdictCase is one answer under one grader: what is said of it, and of what part.
type verdictCase struct {
	grader, expected, answer string
	want                     record.Verdict
	extracted                string
}

func judgeAll(t *testing.T, cases []verdictCase) {
	t.Helper()
	for _, tt := range cases {
		g := judge(t, tt.grader, `{"id":"i","prompt":"p","expected":`+tt.expected+`}`, answered(0, "i", tt.answer, 0, 5))
		if got := deref(g.Extracted); g.Verdict != tt.want || got != tt.extracted {
			t.Errorf("%s of %q: %s of %q (%s), want %s of %q", tt.grader, tt.answer, g.Verdict, got, g.Reason, tt.want, tt.extracted)
		}
	}
}

func TestNumberIsTheLastOneWithItsUnit(t *testing.T) {
	const ms, percent = `{"type":"number","units":["ms"]}`, `{"type":"number","units":["%"]}`
	judgeAll(t, []verdictCase{
		{ms, `7`, "12 ms\n7 ms", "pass", "7"},
		{ms, `7`, "12 ms 7 ms", "pass", "7"},
		{ms, `7`, "12ms,7ms", "pass", "7"},
		{ms, `7`, "12\u00a0ms (7\u202fms)", "pass", "7"},
		{percent, `20`, "10%/20%", "pass", "20"},
		{percent, `20`, "10%20%", "pass", "20"},
		{ms, `12`, "12 ms on 7 msgs", "pass", "12"},
		{ms, `12`, "12 seconds", "fail", ""},
		{`{"type":"number","units":["m","ms"]}`, `12`, "12 ms", "pass", "12"},
		{`{"type":"number","units":["e3"]}`, `12`, "12 e3", "pass", "12"},
	})
}

func TestNumberIsTheLastOne(t *testing.T) {
	const plain = `{"type":"number"}`
	judgeAll(t, []verdictCase{
		{plain, `30`, "[10,20,30]", "pass", "30"},
		{plain, `30`, "10/20/30", "pass", "30"},
		{plain, `3`, "5-3", "pass", "3"},
		{plain, `-3`, "it is -3.", "pass", "-3"},
		{plain, `-3`, "(+-3)", "pass", "-3"},
		{plain, `42`, "it is...42", "pass", "42"},
		{plain, `0.5`, "it is .5", "pass", ".5"},
		{plain, `1.2`, "version 1.2.3", "pass", "1.2"},
		{plain, `4`, "4 of GPT4", "pass", "4"},
		{plain, `1204416`, "1,204,416", "pass", "1,204,416"},
		{plain, `2345`, "1,2345", "pass", "2345"}, // no group of three: two numbers
		{plain, `1e100`, "1e1000", "fail", "1e1000"},
		{plain, `1500`, "1.5e3", "pass", "1.5e3"},
	})
}

func TestNumberComparesTolerancesExactly(t *testing.T) {
	judgeAll(t, []verdictCase{
		{`{"type":"number","abs":0.3}`, `1`, "1.3", "pass", "1.3"},
		{`{"type":"number","abs":0.3}`, `1`, "0.7", "pass", "0.7"},
		{`{"type":"number","abs":0.3}`, `1`, "1.3000000000000000000001", "fail", "1.3000000000000000000001"},
		{`{"type":"number","rel":0.3}`, `1`, "1.3", "pass", "1.3"},
		{`{"type":"number","rel":0.3}`, `-10`, "-13", "pass", "-13"},
		{`{"type":"number","rel":0.1}`, `3`, "3.3", "pass", "3.3"},
	})
}

func TestNumberTakesAnyOfAList(t *testing.T) {
	judgeAll(t, []verdictCase{
		{`{"type":"number","value":[7,"1,000"]}`, `0`, "7", "pass", "7"},
		{`{"type":"number","value":[7,"1,000"]}`, `0`, "1000", "pass", "1000"},
		{`{"type":"number"}`, `[1,2]`, "2", "pass", "2"},
		{`{"type":"number"}`, `[1,2]`, "3", "fail", "3"},
		{`{"type":"number"}`, `["many"]`, "3", "grader_error", ""},
		{`{"type":"number"}`, `[]`, "3", "grader_error", ""},
	})
}
