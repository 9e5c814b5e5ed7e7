package derive

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

// number: the last number of the answer, with one of the units after it where
// units are given, is within abs or rel of the expected one.
var numberGrader = graderType{
	name: "number", needText: true,
	keys: map[string]any{"value": nil, "from": defaultFrom, "abs": 0, "rel": 0, "units": nil}, build: buildNumber,
}

type number struct {
	want     literalSource
	abs, rel float64
	pattern  *regexp.Regexp
}

func buildNumber(s GraderSpec, b *builder) (grader, error) {
	want, err := b.literal(s)
	if err != nil {
		return nil, err
	}
	if s.Abs < 0 || s.Rel < 0 {
		return nil, &keyError{"abs", "tolerances must not be negative", "abs: 0.5"}
	}
	pattern := `(?:^|[^\pL\pN.,])([+-]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?|\.\d+))`
	if len(s.Units) > 0 {
		pattern += `[ \t]*(?:` + strings.Join(mapOf(s.Units, regexp.QuoteMeta), "|") + `)(?:[^\pL\pN]|$)`
	}
	return &number{want, s.Abs, s.Rel, regexp.MustCompile(pattern)}, nil
}

func (g *number) judge(a *answer) judgement {
	v, problem := g.want.get(a)
	if problem != nil {
		return *problem
	}
	text, ok := scalarText(v)
	want, isNumber := parseNumber(strings.TrimSpace(text))
	if !ok || !isNumber {
		return graderError("what is expected is no number")
	}
	all := g.pattern.FindAllStringSubmatchIndex(a.text, -1)
	if len(all) == 0 {
		return fail("the answer holds no number, or none with its unit")
	}
	m := all[len(all)-1]
	got, ok := parseNumber(a.text[m[2]:m[3]])
	if !ok {
		return fail("%s is no number", quoted(a.text[m[2]:m[3]])).from(a, m[2], m[3])
	}
	j := passWhen(g.near(got, want), fmt.Sprintf("%s, want %s", a.text[m[2]:m[3]], text))
	return j.from(a, m[2], m[3])
}

// near compares exactly: |got − want| ≤ max(abs, rel·|want|).
func (g *number) near(got, want *big.Rat) bool {
	limit := new(big.Rat).SetFloat64(g.abs)
	relative := new(big.Rat).SetFloat64(g.rel)
	relative.Mul(relative, new(big.Rat).Abs(want))
	if relative.Cmp(limit) > 0 {
		limit = relative
	}
	difference := new(big.Rat).Sub(got, want)
	return difference.Abs(difference).Cmp(limit) <= 0
}
