package derive_test

import (
	"encoding/json"
	"strings"
	"testing"

	"anvil/pipeline/stage"
	"anvil/schemas"
	"anvil/stages/derive"
	"anvil/stages/record"
)

// judge grades one answer by one grader over one dataset row and returns the line.
func judge(t *testing.T, grader, row string, a record.Attempt) record.Grade {
	t.Helper()
	l := newLab(t)
	var g map[string]any
	if err := json.Unmarshal([]byte(grader), &g); err != nil {
		t.Fatalf("%s: %v", grader, err)
	}
	if g["id"] == nil {
		g["id"] = "g"
	}
	p, err := l.grade(l.attempts("measure", header(1), []record.Attempt{a}), row, map[string]any{"graders": []any{g}})
	if err != nil {
		t.Fatalf("%s: %v", grader, err)
	}
	rows := readGrades(t, p)
	return rows[0]
}

func readGrades(t *testing.T, p published) []record.Grade {
	t.Helper()
	r, err := record.NewGradesReader(strings.NewReader(string(p.raw["grades.jsonl"])))
	if err != nil {
		t.Fatal(err)
	}
	var rows []record.Grade
	for g, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, g)
	}
	if !r.Footer().Complete {
		t.Error("the footer does not say complete")
	}
	return rows
}

func TestGraders(t *testing.T) {
	for _, tt := range []struct {
		name, grader, expected, answer string
		want                           record.Verdict
		extracted, reason              string // part of the reason
	}{
		{"equals", `{"type":"equals"}`, `"blue"`, " blue\n", "pass", "blue", ""},
		{"equals untrimmed", `{"type":"equals","trim":false}`, `"blue"`, "blue\n", "fail", "blue\n", ""},
		{"equals case", `{"type":"equals"}`, `"blue"`, "Blue", "fail", "Blue", `"Blue" is not "blue"`},
		{"equals folded", `{"type":"equals","ignore_case":true}`, `"STRASSE"`, "straße", "pass", "straße", ""},
		{"equals one of", `{"type":"equals"}`, `["azure","blue"]`, "blue", "pass", "blue", ""},
		{"equals number", `{"type":"equals"}`, `42`, "42", "pass", "42", ""},
		{"equals value", `{"type":"equals","value":"red"}`, `"blue"`, "red", "pass", "red", ""},
		{"equals object", `{"type":"equals"}`, `{"a":1}`, "x", "grader_error", "", "no text"},
		{"equals nothing expected", `{"type":"equals","from":"/nothing"}`, `1`, "x", "grader_error", "", "has no /nothing"},
		{"equals deep", `{"type":"equals","from":"/expected/a/1"}`, `{"a":["x","y"]}`, "y", "pass", "y", ""},
		{"contains any", `{"type":"contains","any":["red","blue"]}`, `1`, "the blue one", "pass", "blue", ""},
		{"contains none", `{"type":"contains","any":["red"]}`, `1`, "the blue one", "fail", "", `"red"`},
		{"contains all", `{"type":"contains","all":["the","one"]}`, `1`, "the blue one", "pass", "the blue one", ""},
		{"contains not all", `{"type":"contains","all":["the","two"]}`, `1`, "the blue one", "fail", "the", `lacks "two"`},
		{"not contains", `{"type":"contains","any":["red"],"not":true}`, `1`, "the blue one", "pass", "", ""},
		{"starts with", `{"type":"starts_with","value":"Yes"}`, `1`, "\n Yes, it is", "pass", "Yes", ""},
		{"regex", `{"type":"regex","pattern":"answer is (\\w+)"}`, `1`, "The answer is blue.", "pass", "blue", ""},
		{"regex fails", `{"type":"regex","pattern":"^\\d+$"}`, `1`, "x1", "fail", "", "nothing matches"},
		{"choice alone", `{"type":"choice"}`, `"B"`, "(b)", "pass", "b", ""},
		{"choice named", `{"type":"choice"}`, `"B"`, "A is wrong, so the answer is **B**.", "pass", "B", ""},
		{"choice leading", `{"type":"choice"}`, `"C"`, "C) because A cat", "pass", "C", ""},
		{"choice ambiguous", `{"type":"choice"}`, `"B"`, "either B or C", "fail", "", "several"},
		{"choice none", `{"type":"choice"}`, `"B"`, "no idea", "fail", "", "none"},
		{"choice wrong", `{"type":"choice"}`, `"B"`, "Answer: D", "fail", "D", "chose D, want B"},
		{"number", `{"type":"number"}`, `42`, "6 times 7 is 42.", "pass", "42", ""},
		{"number grouped", `{"type":"number"}`, `1204416`, "about 1,204,416 tokens", "pass", "1,204,416", ""},
		{"number near", `{"type":"number","rel":0.01}`, `100`, "100.9", "pass", "100.9", ""},
		{"number not near", `{"type":"number","abs":0.5}`, `100`, "100.9", "fail", "100.9", ""},
		{"number exact", `{"type":"number","abs":0.1}`, `0.2`, "0.3", "pass", "0.3", ""},
		{"number unit", `{"type":"number","units":["ms","s"]}`, `20`, "in 2026 it took 20 ms on 3 hosts", "pass", "20", ""},
		{"number none", `{"type":"number"}`, `20`, "many", "fail", "", "no number"},
		{"json", `{"type":"json","pointers":{"/a/0":1}}`, `1`, "```json\n{\"a\":[1.0]}\n```", "pass", `{"a":[1.0]}`, ""},
		{"json wrong type", `{"type":"json","pointers":{"/a":"1"}}`, `1`, `{"a":1}`, "fail", `{"a":1}`, `/a is 1, want "1"`},
		{"json none", `{"type":"json"}`, `1`, `{"a":`, "fail", "", "no JSON"},
		{"finish reason", `{"type":"finish_reason","in":["stop"]}`, `1`, "x", "pass", "stop", ""},
		{"length", `{"type":"length","max":2}`, `1`, "one two three", "fail", "", "3 words"},
		{"length chars", `{"type":"length","min":2,"max":2,"unit":"chars"}`, `1`, "né", "pass", "", ""},
		{"length tokens", `{"type":"length","min":5,"unit":"tokens"}`, `1`, "x", "pass", "", "5 tokens"},
		{"words", `{"type":"words","requested":3}`, `1`, "one two three", "pass", "", ""},
		{"words from", `{"type":"words"}`, `2`, "one two three", "fail", "", "3 words, want 2"},
		{"latency", `{"type":"latency","metric":"e2e_ms","at_most":300}`, `1`, "x", "pass", "", "e2e_ms"},
		{"latency over", `{"type":"latency","metric":"ttft_ms","at_most":100}`, `1`, "x", "fail", "", "199"},
		{"all", `{"type":"all","of":[{"id":"a","type":"contains","any":["blue"]},{"id":"b","type":"length","max":1}]}`, `1`, "the blue", "fail", "", "b fail"},
		{"any", `{"type":"any","of":[{"id":"a","type":"contains","any":["blue"]},{"id":"b","type":"length","max":1}]}`, `1`, "the blue", "pass", "", ""},
		{"at least", `{"type":"at_least","n":2,"of":[{"id":"a","type":"contains","any":["blue"]},{"id":"b","type":"length","max":1},{"id":"c","type":"words","requested":2}]}`, `1`, "the blue", "pass", "", ""},
		{"extract last line", `{"type":"equals","extract":{"last_line":true}}`, `"blue"`, "thinking\n\n  blue \n\n", "pass", "blue", ""},
		{"extract regex", `{"type":"equals","extract":{"regex":"#### (.*)"}}`, `"7"`, "so\n#### 7", "pass", "7", ""},
		{"extract nothing", `{"type":"equals","extract":{"regex":"#### (.*)"}}`, `"7"`, "7", "fail", "", "extract"},
		{"extract pointer", `{"type":"equals","extract":{"json_pointer":"/a"}}`, `"x"`, `{"a":"x"}`, "pass", "x", ""},
		{"reasoning field", `{"type":"contains","any":["blue"],"field":"reasoning"}`, `1`, "blue", "unscorable", "", "ok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			row := `{"id":"i","prompt":"p","expected":` + tt.expected + `}`
			a := answered(0, "i", tt.answer, 0, 5)
			g := judge(t, tt.grader, row, a)
			if g.Verdict != tt.want {
				t.Fatalf("%s (%s), want %s", g.Verdict, g.Reason, tt.want)
			}
			if got := deref(g.Extracted); got != tt.extracted {
				t.Errorf("extracted %q, want %q", got, tt.extracted)
			}
			if !strings.Contains(g.Reason, tt.reason) {
				t.Errorf("reason %q, want something with %q", g.Reason, tt.reason)
			}
			if g.Span != nil && tt.answer[g.Span[0]:g.Span[1]] != tt.extracted {
				t.Errorf("span %v is %q, want %q", *g.Span, tt.answer[g.Span[0]:g.Span[1]], tt.extracted)
			}
		})
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestEvidenceFields(t *testing.T) {
	const row = `{"id":"i","prompt":"p","expected":{"fields":{"owner":"Mara Köhler","limit":1204416,"on":true,"none":null}}}`
	for name, tt := range map[string]struct {
		answer string
		want   record.Verdict
		score  float64
		reason string
	}{
		"as asked":        {`{"owner":"Mara Köhler","limit":1204416,"on":true,"none":null}`, "pass", 1, ""},
		"in prose":        {"Here: {\"limit\": \"1,204,416\", \"owner\": \" mara  KÖHLER\", \"on\": \"True\", \"none\": null, \"more\": 1} as asked", "pass", 1, ""},
		"decomposed":      {`{"owner":"Mara Ko` + "\u0308" + `hler","limit":1204416.0,"on":true,"none":null}`, "pass", 1, ""},
		"fenced":          {"```json\n{\"owner\":\"Mara Köhler\",\"limit\":1.204416e6,\"on\":true,\"none\":null}\n```", "pass", 1, ""},
		"the best object": {`{"owner":"x"} {"owner":"Mara Köhler","limit":1204416,"on":true,"none":null} {"a":1}`, "pass", 1, ""},
		"one wrong":       {`{"owner":"Otto","limit":1204416,"on":true,"none":null}`, "fail", 0.75, `owner is "Otto", want "Mara Köhler"`},
		"one missing":     {`{"limit":1204416,"on":true,"none":null}`, "fail", 0.75, "owner is missing"},
		"null is a value": {`{"owner":"Mara Köhler","limit":1204416,"on":true,"none":"null"}`, "fail", 0.75, `none is "null", want null`},
		"no fields":       {"I do not know.", "fail", 0, "none of the fields"},
		"broken":          {`{"owner":"Mara Köhler","limit":`, "fail", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := judge(t, `{"type":"evidence_fields"}`, row, answered(0, "i", tt.answer, 0, 5))
			if g.Verdict != tt.want || g.Score == nil || *g.Score != tt.score || !strings.Contains(g.Reason, tt.reason) {
				t.Errorf("%s, score %v, reason %q; want %s, %v, %q", g.Verdict, *g.Score, g.Reason, tt.want, tt.score, tt.reason)
			}
		})
	}
	lines := `{"id":"i","prompt":"p","expected":{"fields":{"owner":"Mara","limit":7}}}`
	for answer, want := range map[string]record.Verdict{
		"owner: Mara\nlimit: 7":                 "pass",
		"- **Owner**: Mara\n- **Limit** = 7,":   "pass",
		"1. owner: \"Mara\"\r\n2. limit: 7\r\n": "pass",
		"owner: Mara\nlimit: 8":                 "fail",
	} {
		if g := judge(t, `{"type":"evidence_fields"}`, lines, answered(0, "i", answer, 0, 5)); g.Verdict != want {
			t.Errorf("%q: %s (%s), want %s", answer, g.Verdict, g.Reason, want)
		}
	}
}

// guidellm#416: tools are called wrongly and nobody says so.
func TestToolCallSaysWhatIsWrong(t *testing.T) {
	const row = `{"id":"i","prompt":"p","expected":{"name":"weather","arguments":{"city":"Rome","days":2}}}`
	for name, tt := range map[string]struct {
		calls  []record.ToolCall
		want   record.Verdict
		reason string
	}{
		"right":             {[]record.ToolCall{{Name: "weather", Arguments: `{"days":2,"city":"Rome"}`}}, "pass", ""},
		"second of two":     {[]record.ToolCall{{Name: "time", Arguments: `{}`}, {Name: "weather", Arguments: `{"days":2,"city":"Rome"}`}}, "pass", ""},
		"wrong name":        {[]record.ToolCall{{Name: "wether", Arguments: `{"city":"Rome","days":2}`}}, "fail", `called "wether"`},
		"missing argument":  {[]record.ToolCall{{Name: "weather", Arguments: `{"days":2}`}}, "fail", "argument city is missing"},
		"missing arguments": {[]record.ToolCall{{Name: "weather", Arguments: ""}}, "fail", "no arguments at all"},
		"no JSON":           {[]record.ToolCall{{Name: "weather", Arguments: `{"city":`}}, "fail", "no JSON"},
		"no object":         {[]record.ToolCall{{Name: "weather", Arguments: `[1]`}}, "fail", "no object"},
		"wrong argument":    {[]record.ToolCall{{Name: "weather", Arguments: `{"city":"Paris","days":2}`}}, "fail", `argument city is "Paris", want "Rome"`},
		"surplus":           {[]record.ToolCall{{Name: "weather", Arguments: `{"city":"Rome","days":2,"x":1}`}}, "fail", "x was not wanted"},
		"none":              {nil, "fail", "no tool was called"},
	} {
		t.Run(name, func(t *testing.T) {
			a := answered(0, "i", "text", 0, 5)
			a.ToolCalls = tt.calls
			g := judge(t, `{"type":"tool_call"}`, row, a)
			if g.Verdict != tt.want || !strings.Contains(g.Reason, tt.reason) {
				t.Errorf("%s (%s), want %s with %q", g.Verdict, g.Reason, tt.want, tt.reason)
			}
		})
	}
	a := answered(0, "i", "text", 0, 5)
	a.ToolCalls = []record.ToolCall{{Name: "weather", Arguments: `{"city":"Rome"}`}}
	if g := judge(t, `{"type":"tool_call","min_f1":0.6}`, row, a); g.Verdict != record.Pass {
		t.Errorf("F1 of 2/3 at min_f1 0.6: %s (%s)", g.Verdict, g.Reason)
	}
}

// inspect#5467, lm-eval#3244: reasoning ate the budget, and the empty answer
// was scored wrong.
func TestAnAnswerThatReasoningAteIsUnscorable(t *testing.T) {
	a := answered(0, "i", "", 0, 64)
	a.Outcome, a.FinishReasons = record.OutcomeTruncated, []string{"length"}
	a.T.FirstContent = nil
	g := judge(t, `{"type":"equals"}`, `{"id":"i","prompt":"p","expected":"x"}`, a)
	if g.Verdict != record.Unscorable || g.Reason != "truncated" || g.Score != nil {
		t.Errorf("%s, reason %q, score %v", g.Verdict, g.Reason, g.Score)
	}
}

func TestATruncatedAnswerIsGradedAndFlagged(t *testing.T) {
	a := answered(0, "i", "blue and", 0, 64)
	a.Outcome = record.OutcomeTruncated
	g := judge(t, `{"type":"contains","any":["blue"]}`, `{"id":"i","prompt":"p"}`, a)
	if g.Verdict != record.Pass || !strings.Contains(g.Reason, "truncated") {
		t.Errorf("%s, reason %q", g.Verdict, g.Reason)
	}
}

func TestWithoutAnAnswerTheOutcomeIsTheReason(t *testing.T) {
	for _, o := range record.Outcomes() {
		if o.Success() {
			continue
		}
		g := judge(t, `{"type":"equals"}`, `{"id":"i","prompt":"p","expected":"x"}`, failed(0, "i", 0, o))
		if g.Verdict != record.Unscorable || g.Reason != string(o) {
			t.Errorf("%s: %s, reason %q", o, g.Verdict, g.Reason)
		}
	}
}

// tt-xla#5722: degenerate output is answered and fails.
func TestDegenerateOutputFails(t *testing.T) {
	for _, text := range []string{"nan nan nan nan", "!!!@@@###", strings.Repeat("the ", 60)} {
		a := answered(0, "i", text, 0, 60)
		a.Outcome = record.OutcomeTruncated
		if g := judge(t, `{"type":"evidence_fields"}`, `{"id":"i","prompt":"p","expected":{"fields":{"a":1}}}`, a); g.Verdict != record.Fail {
			t.Errorf("%q: %s", text, g.Verdict)
		}
	}
}

// inspect#5018: a score over what was answered hides what was not.
func TestCorrectnessIsThreeShares(t *testing.T) {
	l := newLab(t)
	var rows []record.Attempt
	var data strings.Builder
	for i := range 10 {
		item := string(rune('a' + i))
		data.WriteString(`{"id":"` + item + `","prompt":"p","expected":"x"}` + "\n")
		if i%2 == 0 {
			rows = append(rows, answered(i, item, "x", int64(i)*ms, 5))
		} else {
			rows = append(rows, failed(i, item, int64(i)*ms, record.OutcomeHTTPError))
		}
	}
	attempts := l.attempts("measure", header(10), rows)
	p, err := l.grade(attempts, data.String(), map[string]any{"graders": []any{map[string]any{"id": "g", "type": "equals"}}})
	if err != nil {
		t.Fatal(err)
	}
	_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {attempts}, "grades": {p.artifacts["grades.jsonl"]}})
	c := f.Cells[0].Correctness
	if *c.Strict.Value != 0.5 || *c.Answered.Value != 1 || *c.Coverage.Value != 0.5 {
		t.Errorf("strict %v, answered %v, coverage %v, want 0.5, 1, 0.5", *c.Strict.Value, *c.Answered.Value, *c.Coverage.Value)
	}
}

// inspect#5180, #2562: grading again is a whole new file under its own
// specification, and what one grader said does not change when another joins.
func TestGradingAgainIsANewFileWithItsOwnSpec(t *testing.T) {
	l := newLab(t)
	rows, data := goldenRows()
	attempts := l.attempts("measure", header(8), rows)
	one := map[string]any{"id": "a", "type": "evidence_fields"}
	two := map[string]any{"id": "b", "type": "length", "max": 1}
	before, err := l.grade(attempts, data, map[string]any{"graders": []any{one}})
	if err != nil {
		t.Fatal(err)
	}
	kept := string(before.raw["grades.jsonl"])
	after, err := l.grade(attempts, data, map[string]any{"graders": []any{one, two}})
	if err != nil {
		t.Fatal(err)
	}
	if string(l.objects[before.artifacts["grades.jsonl"].SHA256]) != kept {
		t.Error("the earlier grades changed")
	}
	if gradesHeader(t, before).SpecSHA256 == gradesHeader(t, after).SpecSHA256 {
		t.Error("two lists of graders share one spec_sha256")
	}
	was, is := readGrades(t, before), readGrades(t, after)
	for i := range was {
		if len(was[i].Graders) > 0 && was[i].Graders[0].Verdict != is[i].Graders[0].Verdict {
			t.Errorf("request %d: grader a says %s, said %s", i, is[i].Graders[0].Verdict, was[i].Graders[0].Verdict)
		}
	}
	two["max"] = 2
	third, err := l.grade(attempts, data, map[string]any{"graders": []any{one, two}})
	if err != nil {
		t.Fatal(err)
	}
	if gradesHeader(t, third).SpecSHA256 == gradesHeader(t, after).SpecSHA256 {
		t.Error("a changed parameter keeps the spec_sha256")
	}
}

func gradesHeader(t *testing.T, p published) record.GradesHeader {
	t.Helper()
	r, err := record.NewGradesReader(strings.NewReader(string(p.raw["grades.jsonl"])))
	if err != nil {
		t.Fatal(err)
	}
	return r.Header()
}

func TestSeveralGradersMakeOneVerdict(t *testing.T) {
	grade := func(graders string) record.Grade {
		l := newLab(t)
		var list []any
		if err := json.Unmarshal([]byte(graders), &list); err != nil {
			t.Fatal(err)
		}
		p, err := l.grade(l.attempts("measure", header(1), []record.Attempt{answered(0, "i", "blue", 0, 5)}), `{"id":"i","prompt":"p","expected":"red"}`, map[string]any{"graders": list})
		if err != nil {
			t.Fatal(err)
		}
		return readGrades(t, p)[0]
	}
	const pass, fail = `{"id":"p","type":"contains","any":["blue"],"weight":3}`, `{"id":"f","type":"equals"}`
	const off, broken = `{"id":"o","type":"equals","weight":0}`, `{"id":"e","type":"equals","from":"/no"}`
	const silent = `{"id":"s","type":"contains","any":["x"],"field":"reasoning"}`
	for name, tt := range map[string]struct {
		graders string
		want    record.Verdict
		score   float64
	}{
		"both":            {pass + "," + fail, "fail", 0.75},
		"without weight":  {pass + "," + off, "pass", 1},
		"failure decides": {fail + "," + broken, "fail", 0},
		"error":           {pass + "," + broken, "grader_error", -1},
		"unscorable":      {pass + "," + silent, "unscorable", -1},
		"none counts":     {off, "unscorable", -1},
	} {
		g := grade("[" + tt.graders + "]")
		score := -1.0
		if g.Score != nil {
			score = *g.Score
		}
		if g.Verdict != tt.want || score != tt.score {
			t.Errorf("%s: %s with score %v (%s), want %s with %v", name, g.Verdict, score, g.Reason, tt.want, tt.score)
		}
	}
}

func TestRowsChooseTheirGraders(t *testing.T) {
	l := newLab(t)
	rows := []record.Attempt{answered(0, "i", "blue", 0, 5), answered(1, "j", "blue", ms, 5)}
	graders := []any{map[string]any{"id": "a", "type": "contains", "any": []any{"blue"}}, map[string]any{"id": "b", "type": "contains", "any": []any{"red"}}}
	data := `{"id":"i","prompt":"p","graders":["a"]}` + "\n\n" + `{"id":"j","prompt":"p"}`
	p, err := l.grade(l.attempts("measure", header(2), rows), data, map[string]any{"graders": graders})
	if err != nil {
		t.Fatal(err)
	}
	if got := readGrades(t, p); got[0].Verdict != record.Pass || got[1].Verdict != record.Fail {
		t.Errorf("verdicts %s, %s, want pass, fail", got[0].Verdict, got[1].Verdict)
	}
	_, err = l.grade(l.attempts("measure", header(2), rows), strings.Replace(data, `["a"]`, `["c"]`, 1), map[string]any{"graders": graders})
	if err == nil || !strings.Contains(err.Error(), `line 1: item "i" names grader "c"`) {
		t.Errorf("an unknown grader in a row: %v", err)
	}
}

func TestBadDatasets(t *testing.T) {
	for name, tt := range map[string]struct{ data, want string }{
		"twice":   {`{"id":"a","prompt":"p"}` + "\n" + `{"id":"a","prompt":"p"}`, `line 2: item "a" stands in line 1 already`},
		"no id":   {`{"prompt":"p"}`, `line 1: a row needs an "id"`},
		"no JSON": {`{"id":`, "line 1: not a JSON object"},
		"array":   {`[]`, "line 1: want one JSON object"},
		"key":     {`{"id":"a","id":"b","prompt":"p"}`, `line 1: not a JSON object: column 11: duplicate key "id"`},
		"tags":    {`{"id":"a","tags":"t","prompt":"p"}`, `line 1: "tags": want a list`},
		"empty":   {"\n", "no rows"},
	} {
		l := newLab(t)
		_, err := l.grade(l.attempts("measure", header(1), []record.Attempt{answered(0, "a", "x", 0, 5)}), tt.data, map[string]any{"graders": []any{map[string]any{"id": "g", "type": "equals"}}})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	g := judge(t, `{"type":"equals"}`, `{"id":"other","prompt":"p","expected":"x"}`, answered(0, "i", "x", 0, 5))
	if g.Verdict != record.GraderError || !strings.Contains(g.Reason, "not in the dataset") {
		t.Errorf("an item without a row: %s (%s)", g.Verdict, g.Reason)
	}
}

func TestGates(t *testing.T) {
	rows, data := goldenRows() // 6 pass, 1 fail, 1 unscorable
	for name, tt := range map[string]struct {
		gate string
		want int // findings
	}{
		"none":              {`{}`, 0},
		"strict":            {`{"min_pass_rate":0.75}`, 0},
		"strict missed":     {`{"min_pass_rate":0.76}`, 1},
		"answered":          {`{"min_pass_rate":0.85,"denominator":"answered"}`, 0},
		"coverage":          {`{"min_coverage":0.9}`, 1},
		"both":              {`{"min_pass_rate":1,"min_coverage":1}`, 2},
		"tag":               {`{"tags":{"t":{"min_pass_rate":0.9}}}`, 1},
		"tag without a row": {`{"tags":{"zzz":{"min_pass_rate":0.1}}}`, 1},
		"tag of a grader":   {`{"tags":{"gt":{"min_pass_rate":0.7}}}`, 0},
	} {
		l := newLab(t)
		var gate map[string]any
		if err := json.Unmarshal([]byte(tt.gate), &gate); err != nil {
			t.Fatal(err)
		}
		p, err := l.grade(l.attempts("measure", header(8), rows), data, map[string]any{
			"gate": gate, "graders": []any{map[string]any{"id": "g", "type": "evidence_fields", "tags": []any{"gt"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.findings) != tt.want {
			t.Errorf("%s: findings %v, want %d", name, p.findings, tt.want)
		}
	}
}

func TestAFailedGateWithholdsThroughputWhenAsked(t *testing.T) {
	l := newLab(t)
	var rows []record.Attempt
	for i := range 6 {
		rows = append(rows, answered(i, "i", "wrong", int64(i)*ms, 5))
	}
	attempts := l.attempts("measure", header(6), rows)
	p, err := l.grade(attempts, `{"id":"i","prompt":"p","expected":"right"}`, map[string]any{
		"gate": map[string]any{"min_pass_rate": 0.5, "withhold_throughput": true}, "graders": []any{map[string]any{"id": "g", "type": "equals"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ports := map[string][]stage.Artifact{"attempts": {attempts}}
	_, plain := l.summarize(map[string]any{}, ports)
	ports["grades"] = []stage.Artifact{p.artifacts["grades.jsonl"]}
	_, gated := l.summarize(map[string]any{}, ports)
	if find(t, plain.Cells[0].Metrics, "output_tokens_per_s").Value == nil {
		t.Error("withheld without the gate")
	}
	if m := find(t, gated.Cells[0].Metrics, "output_tokens_per_s"); m.Value != nil || !strings.Contains(*m.Reason, "gate") {
		t.Errorf("output_tokens_per_s = %v, reason %v", m.Value, m.Reason)
	}
}

func TestReducers(t *testing.T) {
	var rows []record.Attempt
	for i, text := range []string{"x", "x", "no", "x", "no", "no"} { // item a: 2 of 3, item b: 1 of 3
		rows = append(rows, answered(i, string("aaabbb"[i]), text, int64(i)*ms, 5))
	}
	for reducer, tt := range map[string]struct {
		k    any
		want float64
	}{
		"mean": {nil, 0.5}, "majority": {nil, 0.5}, "all": {nil, 0}, "pass_at_k": {2, (1 + 2.0/3) / 2},
	} {
		l := newLab(t)
		attempts := l.attempts("measure", header(6), rows)
		p, err := l.grade(attempts, `{"id":"a","prompt":"p","expected":"x"}`+"\n"+`{"id":"b","prompt":"p","expected":"x"}`,
			map[string]any{"reducer": reducer, "k": tt.k, "graders": []any{map[string]any{"id": "g", "type": "equals"}}})
		if err != nil {
			t.Fatal(err)
		}
		_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {attempts}, "grades": {p.artifacts["grades.jsonl"]}})
		got := f.Cells[0].Correctness.Reduced
		if got == nil || got.Items != 2 || got.Value == nil || abs(*got.Value-tt.want) > 1e-12 {
			t.Errorf("%s: %+v, want %v over 2 items", reducer, got, tt.want)
		}
		if f.Cells[0].Correctness.Strict.Denominator != 6 {
			t.Errorf("%s: strict is over %d, want each attempt to have its verdict", reducer, f.Cells[0].Correctness.Strict.Denominator)
		}
	}
}

func abs(x float64) float64 { return max(x, -x) }

// Every grader of the table has its keys and defaults in the schema, and the
// schema knows no other.
func TestTableOfGradersFitsTheSchema(t *testing.T) {
	examples := map[string]string{
		"equals": `{}`, "contains": `{"any":["x"]}`, "starts_with": `{}`, "regex": `{"pattern":"x"}`, "choice": `{}`, "number": `{}`,
		"json": `{}`, "evidence_fields": `{}`, "tool_call": `{}`, "finish_reason": `{"in":["stop"]}`, "length": `{"max":1}`, "words": `{}`,
		"latency": `{"metric":"e2e_ms","at_most":1}`, "all": `{"of":[{"id":"a","type":"equals"}]}`, "any": `{"of":[{"id":"a","type":"equals"}]}`,
		"at_least": `{"n":1,"of":[{"id":"a","type":"equals"}]}`,
	}
	for _, name := range derive.GraderTypes() {
		example, ok := examples[name]
		if !ok {
			t.Errorf("grader %s has no example here", name)
			continue
		}
		var g map[string]any
		if err := json.Unmarshal([]byte(example), &g); err != nil {
			t.Fatal(err)
		}
		g["id"], g["type"] = "g", name
		bare, _ := json.Marshal(g)
		config := map[string]any{"graders": []any{g}}
		if err := schemas.Fill("anvil.grade-config/v1", config); err != nil {
			t.Fatal(err)
		}
		if err := schemas.Check("anvil.grade-config/v1", config); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		filled, err := derive.FillGrader(bare)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		bySchema, _ := json.Marshal(config["graders"].([]any)[0])
		if !equalJSON(filled, bySchema) {
			t.Errorf("%s: the table fills\n%s\nthe schema\n%s", name, filled, bySchema)
		}
		delete(examples, name)
	}
	for name := range examples {
		t.Errorf("grader %s is in no table", name)
	}
}

func equalJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

// Files that graders name enter by their content: the specification changes
// with it and not with the path, and validate finds them among the inputs.
func TestGradersReadTheirFiles(t *testing.T) {
	const row = `{"id":"i","prompt":"p","expected":"weather"}`
	a := answered(0, "i", `{"a":1}`, 0, 5)
	a.ToolCalls = []record.ToolCall{{Name: "weather", Arguments: `{"city":"Rome"}`}}
	do := func(schema, arguments string) (*lab, published) {
		l := newLab(t)
		l.files = map[string]string{"/graders/0/of/0/schema": schema, "/graders/0/of/1/arguments": arguments}
		p, err := l.grade(l.attempts("measure", header(1), []record.Attempt{a}), row, map[string]any{"graders": []any{map[string]any{
			"id": "both", "type": "all", "of": []any{
				map[string]any{"id": "j", "type": "json", "schema": "s.json"}, map[string]any{"id": "t", "type": "tool_call", "arguments": "a.json"},
			},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		return l, p
	}
	l, good := do(`{"required":["a"],"properties":{"a":{"type":"integer"}}}`, `{"city":"Rome"}`)
	if g := readGrades(t, good)[0]; g.Verdict != record.Pass {
		t.Errorf("%s (%s), want pass", g.Verdict, g.Reason)
	}
	rec, _ := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": l.made[good.artifacts["grades.jsonl"].SHA256].Inputs["attempts"], "grades": {good.artifacts["grades.jsonl"]}})
	if v := l.validate(rec.artifacts["record.json"]); !v.OK {
		t.Errorf("problems %+v", v.Problems)
	}
	_, bad := do(`{"required":["b"]}`, `{"city":"Paris"}`)
	if g := readGrades(t, bad)[0]; g.Verdict != record.Fail || !strings.Contains(g.Reason, "'b'") || !strings.Contains(g.Reason, "city is") {
		t.Errorf("%s (%s), want both to fail", g.Verdict, g.Reason)
	}
	if gradesHeader(t, good).SpecSHA256 == gradesHeader(t, bad).SpecSHA256 {
		t.Error("other files have the same spec_sha256")
	}
}
