package schemas

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// What a number may be written with. The library holds numbers as exact
// fractions: it takes seconds for a few bytes such as 1e999999, and from 1e1000001
// on it gets no fraction and goes on with none.
const (
	maxNumberText = 4096 // characters; an exact double has at most 1,100
	maxExponent   = 400  // of ten, either way; a double ends at 308 and -324
)

const (
	outOfRange     = "must be a number that a double can hold"
	outOfRangeHint = "up to 1.8e308 either way, in at most 4,096 characters"
)

// inRange tells whether a number may be handed to the library.
func inRange(n json.Number) bool {
	text := string(n)
	if len(text) > maxNumberText {
		return false
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		exponent, err := strconv.Atoi(text[i+1:])
		if err != nil || exponent < -maxExponent || exponent > maxExponent {
			return false
		}
	}
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

// allInRange tells whether the library may be asked about v.
func allInRange(v any) bool {
	switch v := v.(type) {
	case json.Number:
		return inRange(v)
	case []any:
		for _, e := range v {
			if !allInRange(e) {
				return false
			}
		}
	case map[string]any:
		for _, e := range v {
			if !allInRange(e) {
				return false
			}
		}
	}
	return true
}

// appendOutOfRange appends a violation for each number in v that is not in
// range, sorted by pointer.
func appendOutOfRange(out []Violation, v any, pointer string) []Violation {
	switch v := v.(type) {
	case json.Number:
		if !inRange(v) {
			return append(out, Violation{Pointer: pointer, Message: outOfRange})
		}
	case []any:
		for i, e := range v {
			out = appendOutOfRange(out, e, Join(pointer, strconv.Itoa(i)))
		}
	case map[string]any:
		for _, name := range sortedKeys(v) {
			out = appendOutOfRange(out, v[name], Join(pointer, name))
		}
	}
	return out
}

// ask lets the library check v. Nothing else calls it, since it panics at some
// numbers: with one of these in v, the error is theirs and the rest stays unsaid.
func ask(s *jsonschema.Schema, v any) error {
	if !allInRange(v) {
		return &rangeError{appendOutOfRange(nil, v, "")}
	}
	return s.Validate(v)
}

type rangeError struct{ violations []Violation }

func (e *rangeError) Error() string { return e.violations[0].Error() }
