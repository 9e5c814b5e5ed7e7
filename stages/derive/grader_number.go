package derive

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"unicode"
	"unicode/utf8"
)

// number: the last number of the answer, with one of the units after it where
// units are given, is within abs or rel of the expected one, or of one of
// several. All is compared exactly.
var numberGrader = graderType{
	name: "number", instead: "value",
	keys: map[string]any{"value": nil, "from": nil, "abs": 0, "rel": 0, "units": nil}, build: buildNumber,
}

type number struct {
	want     literalSource
	abs, rel *big.Rat
	units    []string
}

func buildNumber(s GraderSpec, b *builder) (grader, error) {
	want, err := b.literal(s, func(text string) error {
		if _, ok := parseNumber(strings.TrimSpace(text)); !ok {
			return fmt.Errorf("%q is no number", text)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	g := &number{want: want, units: s.Units}
	if g.abs, err = allowance("abs", s.Abs); err != nil {
		return nil, err
	}
	g.rel, err = allowance("rel", s.Rel)
	return g, err
}

func allowance(key string, n json.Number) (*big.Rat, error) {
	r, ok := parseNumber(n.String())
	if !ok || r.Sign() < 0 {
		return nil, &keyError{key, "must be a number of 0 or more", key + ": 0.5"}
	}
	return r, nil
}

func (g *number) judge(a *answer) judgement {
	wanted, problem := g.want.texts(a)
	if problem != nil {
		return *problem
	}
	numbers := make([]*big.Rat, len(wanted))
	for i, w := range wanted {
		n, ok := parseNumber(strings.TrimSpace(w))
		if !ok {
			return graderError("what is expected is no number")
		}
		numbers[i] = n
	}
	from, to, ok := lastNumber(a.text, g.units)
	if !ok {
		return fail("the answer holds no number, or none with its unit")
	}
	got, ok := parseNumber(a.text[from:to])
	if !ok {
		return fail("%s is no number", quoted(a.text[from:to])).from(a, from, to)
	}
	near := false
	for _, want := range numbers {
		near = near || g.near(got, want)
	}
	return passWhen(near, fmt.Sprintf("%s, want %s", a.text[from:to], strings.Join(wanted, " or "))).from(a, from, to)
}

// near compares exactly: |got − want| ≤ max(abs, rel·|want|).
func (g *number) near(got, want *big.Rat) bool {
	limit := g.abs
	if relative := new(big.Rat).Mul(g.rel, new(big.Rat).Abs(want)); relative.Cmp(limit) > 0 {
		limit = relative
	}
	difference := new(big.Rat).Sub(got, want)
	return difference.Abs(difference).Cmp(limit) <= 0
}

// lastNumber returns the bounds of the last number of a text that one of the
// units follows; any number's without units. Digits in a word are no number.
func lastNumber(text string, units []string) (from, to int, ok bool) {
	for at := 0; at < len(text); {
		end := numberAt(text, at)
		if end == at {
			_, size := utf8.DecodeRuneInString(text[at:])
			at += size
			continue
		}
		after := end
		if len(units) > 0 {
			after = unitAfter(text, end, units)
		}
		if after > 0 && standsApart(text, at) {
			from, to, ok = at, end, true
		}
		at = max(end, after)
	}
	return from, to, ok
}

// numberAt returns the end of the number that begins at a place of the text,
// with its sign, or the place when there is none. Commas group digits by three;
// any other one parts two numbers.
func numberAt(text string, at int) (end int) {
	end = at
	if c := text[at]; (c == '+' || c == '-') && standsApart(text, at) {
		end++
	}
	whole := digitsAt(text, end)
	end += whole
	grouped := false
	for whole > 0 && whole <= 3 && digitsAt(text, end+1) == 3 && text[end] == ',' {
		end, grouped = end+4, true
	}
	if fraction := fractionAt(text, end); fraction > 0 {
		end += fraction
	} else if whole == 0 {
		return at
	}
	if !grouped {
		end += exponentAt(text, end)
	}
	return end
}

// standsApart tells that no word or number goes on at a place of the text.
func standsApart(text string, at int) bool {
	r, size := utf8.DecodeLastRuneInString(text[:at])
	return size == 0 || !unicode.IsLetter(r) && !unicode.IsNumber(r)
}

// fractionAt measures a point and its digits; the last dot of several is no point.
func fractionAt(text string, at int) int {
	if at >= len(text) || text[at] != '.' || at > 0 && text[at-1] == '.' {
		return 0
	}
	if n := digitsAt(text, at+1); n > 0 {
		return 1 + n
	}
	return 0
}

// unitAfter returns the end of the unit that follows a number, 0 without one.
// What parts it from what comes next is left to the next number.
func unitAfter(text string, at int, units []string) int {
	at = len(text) - len(strings.TrimLeft(text[at:], " \t\u00a0\u202f"))
	for _, unit := range units {
		end := at + len(unit)
		if !strings.HasPrefix(text[at:], unit) {
			continue
		}
		if r, size := utf8.DecodeRuneInString(text[end:]); size == 0 || !unicode.IsLetter(r) && !unicode.IsNumber(r) {
			return end
		}
	}
	return 0
}

// digitsAt counts the ASCII digits from a place on.
func digitsAt(text string, at int) int {
	n := 0
	for at+n < len(text) && text[at+n] >= '0' && text[at+n] <= '9' {
		n++
	}
	return n
}

func exponentAt(text string, at int) int {
	if at >= len(text) || text[at] != 'e' && text[at] != 'E' {
		return 0
	}
	sign := 0
	if at+1 < len(text) && (text[at+1] == '+' || text[at+1] == '-') {
		sign = 1
	}
	if n := digitsAt(text, at+1+sign); n > 0 {
		return 1 + sign + n
	}
	return 0
}
