package derive

import (
	"strings"
	"unicode"
)

// starts_with: the answer begins with one of the acceptable texts, white space
// before both left aside.
var startsWithGrader = graderType{
	name: "starts_with", instead: "value",
	keys: map[string]any{"value": nil, "from": nil}, build: buildStartsWith,
}

type startsWith struct{ want literalSource }

func buildStartsWith(s GraderSpec, b *builder) (grader, error) {
	want, err := b.literal(s, anyText)
	return &startsWith{want}, err
}

func (g *startsWith) judge(a *answer) judgement {
	wanted, problem := g.want.texts(a)
	if problem != nil {
		return *problem
	}
	from, to := trimmed(a.text)
	for _, w := range wanted {
		w = strings.TrimLeftFunc(w, unicode.IsSpace)
		if strings.HasPrefix(a.text[from:], w) {
			return pass("begins with "+quoted(w)).from(a, from, from+len(w))
		}
	}
	return fail("%s does not begin with %s", quoted(a.text[from:to]), anyOf(wanted))
}
