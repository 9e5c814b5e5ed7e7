package derive

import (
	"fmt"
	"regexp"
)

// An Extract says which part of an answer is judged: the last line that is not
// blank, then what a pattern matches in it, then a member of that as JSON. Each
// step that is not set leaves the text as it is. A plan names a pattern or a
// pointer; see checkExtract.
type Extract struct {
	Regex       *string `json:"regex"`
	Group       *int    `json:"group"`
	JSONPointer *string `json:"json_pointer"`
	LastLine    *bool   `json:"last_line"`
}

type extraction struct {
	lastLine bool
	pattern  *regexp.Regexp
	group    int
	pointer  *string
}

func newExtraction(e *Extract) (*extraction, error) {
	if e == nil {
		return nil, nil
	}
	x := &extraction{pointer: e.JSONPointer, lastLine: e.LastLine != nil && *e.LastLine}
	if e.JSONPointer != nil && !validPointer(*e.JSONPointer) {
		return nil, &keyError{"extract/json_pointer", fmt.Sprintf("%q is no JSON pointer", *e.JSONPointer), "for example /answer/0"}
	}
	if e.Regex == nil {
		if e.Group != nil {
			return nil, &keyError{"extract/group", "is of a pattern, and none is set", `for example regex: "answer: (\\w+)"`}
		}
		return x, nil
	}
	pattern, err := compilePattern("extract/regex", *e.Regex)
	if err != nil {
		return nil, err
	}
	x.pattern = pattern
	if pattern.NumSubexp() > 0 {
		x.group = 1
	}
	if e.Group != nil {
		x.group = *e.Group
	}
	if n := pattern.NumSubexp(); x.group < 0 || x.group > n {
		return nil, &keyError{"extract/group", fmt.Sprintf("the pattern has no group %d", x.group), groupsOf(n)}
	}
	return x, nil
}

func groupsOf(n int) string {
	if n == 0 {
		return "it has no ( ): 0 is the whole match"
	}
	return fmt.Sprintf("from 0, the whole match, to %d", n)
}

// checkExtract refuses what a plan cannot have meant.
func checkExtract(e *Extract) error {
	switch {
	case e == nil:
		return nil
	case e.Regex != nil && e.JSONPointer != nil:
		return &keyError{"extract/json_pointer", "`regex` and `json_pointer` exclude each other", "a pattern whose group is the value, or a pointer into an answer that is JSON"}
	case *e == Extract{}:
		return &keyError{"extract", "does not say what to take of the answer", "regex, json_pointer or last_line: true; or leave extract out"}
	}
	return nil
}

// apply returns the bounds of the part in the text, and the part: of a JSON
// string the decoded text, whose length differs from its bounds' then.
func (x *extraction) apply(text string) (from, to int, part string, err error) {
	to = len(text)
	if x.lastLine {
		from, to = lastLine(text)
	}
	if x.pattern != nil {
		m := x.pattern.FindStringSubmatchIndex(text[from:to])
		if m == nil || m[2*x.group] < 0 {
			return 0, 0, "", errNoMatch
		}
		from, to = from+m[2*x.group], from+m[2*x.group+1]
	}
	if x.pointer == nil {
		return from, to, text[from:to], nil
	}
	v, err := decodeAnswer(unfenced(text[from:to]))
	if err != nil {
		return 0, 0, "", fmt.Errorf("extract: the answer is no JSON: %w", err)
	}
	found, ok := lookup(v, *x.pointer)
	if !ok {
		return 0, 0, "", fmt.Errorf("extract: the answer has no %s", *x.pointer)
	}
	if s, ok := scalarText(found); ok {
		return from, from - 1, s, nil
	}
	return from, from - 1, marshalText(found), nil
}
