package derive

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// length: the answer has from min to max characters (code points), words
// (parted by white space) or output tokens (the server's count).
var lengthGrader = graderType{
	name: "length", subject: lengthOf,
	keys: map[string]any{"min": nil, "max": nil, "unit": "words"}, build: buildLength,
}

// lengthOf: a count of tokens is there also where the text was not stored.
func lengthOf(s GraderSpec) subject {
	if s.Unit == "tokens" {
		return ofAnswer
	}
	return ofText
}

type length struct {
	min, max *float64
	unit     string
}

func buildLength(s GraderSpec, _ *builder) (grader, error) {
	switch {
	case s.Min == nil && s.Max == nil:
		return nil, &keyError{"min", "`min` or `max` is required", "max: 200"}
	case s.Min != nil && s.Max != nil && *s.Min > *s.Max:
		return nil, &keyError{"min", "is above `max`", ""}
	case s.Unit != "chars" && s.Unit != "words" && s.Unit != "tokens":
		return nil, &keyError{"unit", fmt.Sprintf("unknown unit %q", s.Unit), suggest(s.Unit, []string{"chars", "words", "tokens"})}
	}
	return &length{s.Min, s.Max, s.Unit}, nil
}

func (g *length) judge(a *answer) judgement {
	n := 0
	switch g.unit {
	case "chars":
		n = utf8.RuneCountInString(a.text)
	case "words":
		n = len(strings.Fields(a.text))
	default:
		if a.attempt.Usage.Output == nil {
			return unscorable("the server did not count the output")
		}
		n = int(*a.attempt.Usage.Output)
	}
	ok := (g.min == nil || float64(n) >= *g.min) && (g.max == nil || float64(n) <= *g.max)
	return passWhen(ok, fmt.Sprintf("%d %s, want %s to %s", n, g.unit, bound(g.min, "0"), bound(g.max, "any")))
}

func bound(v *float64, none string) string {
	if v == nil {
		return none
	}
	return fmt.Sprint(*v)
}
