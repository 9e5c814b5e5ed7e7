package derive

import (
	"strings"
	"unicode"
)

// equals: the whole answer is one of the acceptable texts.
var equalsGrader = graderType{
	name: "equals", instead: "value",
	keys: map[string]any{"value": nil, "from": nil, "ignore_case": false, "trim": true}, build: buildEquals,
}

type equals struct {
	want             literalSource
	ignoreCase, trim bool
}

func buildEquals(s GraderSpec, b *builder) (grader, error) {
	want, err := b.literal(s, anyText)
	return &equals{want, s.IgnoreCase, s.Trim}, err
}

func (g *equals) judge(a *answer) judgement {
	wanted, problem := g.want.texts(a)
	if problem != nil {
		return *problem
	}
	from, to := 0, len(a.text)
	if g.trim {
		from, to = trimmed(a.text)
	}
	got := a.text[from:to]
	for _, w := range wanted {
		if g.trim {
			w = strings.TrimSpace(w)
		}
		if got == w || g.ignoreCase && folded(got) == folded(w) {
			return pass("equal to "+quoted(w)).from(a, from, to)
		}
	}
	return fail("%s is not %s", quoted(got), anyOf(wanted)).from(a, from, to)
}

// trimmed returns the bounds of the text without white space, as strings.TrimSpace
// knows it, around it.
func trimmed(s string) (from, to int) {
	from = len(s) - len(strings.TrimLeftFunc(s, unicode.IsSpace))
	return from, from + len(strings.TrimSpace(s[from:]))
}

// anyOf names what was wanted in a reason.
func anyOf(wanted []string) string {
	if len(wanted) == 1 {
		return quoted(wanted[0])
	}
	parts := mapOf(wanted, quoted)
	return "any of " + strings.Join(parts, ", ")
}
