package derive

import (
	"fmt"
	"regexp"
)

// An Extract says which part of an answer is judged: the last line that is not
// blank, then what a pattern matches in it, then a member of that as JSON. Each
// step that is not set leaves the text as it is.
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
		return nil, fmt.Errorf("extract.json_pointer: %q is no JSON pointer", *e.JSONPointer)
	}
	if e.Regex == nil {
		if e.Group != nil {
			return nil, fmt.Errorf("extract.group: needs extract.regex")
		}
		return x, nil
	}
	pattern, err := regexp.Compile(*e.Regex)
	if err != nil {
		return nil, fmt.Errorf("extract.regex: %w", err)
	}
	x.pattern = pattern
	if pattern.NumSubexp() > 0 {
		x.group = 1
	}
	if e.Group != nil {
		x.group = *e.Group
	}
	if x.group < 0 || x.group > pattern.NumSubexp() {
		return nil, fmt.Errorf("extract.group: the pattern has no group %d", x.group)
	}
	return x, nil
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
