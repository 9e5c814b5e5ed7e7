package derive

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// normalizations are the steps that compare two texts as a reader would, in
// the order in which they are applied.
var normalizations = []string{"trim", "casefold", "nfc", "number"}

func folded(s string) string { return cases.Fold().String(s) }

// normalized applies the chosen steps to a text.
func normalized(s string, steps map[string]bool) string {
	if steps["trim"] {
		s = strings.Join(strings.Fields(s), " ")
	}
	if steps["casefold"] {
		s = folded(s)
	}
	if steps["nfc"] {
		s = norm.NFC.String(s)
	}
	if steps["number"] {
		if canonical, ok := canonicalNumber(s); ok {
			s = canonical
		}
	}
	return s
}

var (
	plainNumber   = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$`)
	groupedNumber = regexp.MustCompile(`^[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?$`)
)

// maxNumber bounds the digits of a number: to work with a megabyte of them takes
// seconds, and no answer means them.
const maxNumber = 4096

// parseNumber reads a number as people and models write it: also with commas
// between thousands.
func parseNumber(s string) (*big.Rat, bool) {
	if len(s) > maxNumber {
		return nil, false
	}
	if groupedNumber.MatchString(s) {
		s = strings.ReplaceAll(s, ",", "")
	}
	if !plainNumber.MatchString(s) {
		return nil, false
	}
	return new(big.Rat).SetString(strings.TrimPrefix(s, "+"))
}

// canonicalNumber spells equal numbers alike: 1,204,416 and 1204416.0.
func canonicalNumber(s string) (string, bool) {
	r, ok := parseNumber(strings.TrimSpace(s))
	if !ok {
		return "", false
	}
	return r.RatString(), true
}

// sameValue compares what was expected with what was found: scalars by their
// text, lists member by member, objects by what is expected of them.
func sameValue(want, got any, steps map[string]bool) bool {
	switch w := want.(type) {
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !sameValue(w[i], g[i], steps) {
				return false
			}
		}
		return true
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return false
		}
		for key := range w {
			if member, ok := g[key]; !ok || !sameValue(w[key], member, steps) {
				return false
			}
		}
		return true
	}
	a, okA := scalarText(want)
	b, okB := scalarText(got)
	return okA && okB && sameKind(want, got, steps) && normalized(a, steps) == normalized(b, steps)
}

// sameKind lets a number written as text pass for one when numbers are
// normalized; a null is equal to null alone.
func sameKind(want, got any, steps map[string]bool) bool {
	if want == nil || got == nil {
		return want == nil && got == nil
	}
	_, w := want.(json.Number)
	_, g := got.(json.Number)
	return w == g || steps["number"]
}
