package plan

import (
	"encoding/json"
	"slices"

	"github.com/gowebpki/jcs"

	"anvil/schemas"
)

// encode writes plain values as compact JSON, keys sorted, numbers as they are
// spelt, without HTML escapes.
func encode(v any) json.RawMessage { return schemas.AppendJSON(nil, v) }

// canonicalOf writes plain values in the form of RFC 8785, one spelling for one
// value.
func canonicalOf(v any) ([]byte, error) {
	if plainlyCanonical(v) {
		return encode(v), nil
	}
	return canonical(encode(v))
}

// plainlyCanonical tells of values that encode spells as RFC 8785 does: numbers
// are short integers, texts and keys plain ASCII without escapes.
func plainlyCanonical(v any) bool {
	switch v := v.(type) {
	case nil, bool:
		return true
	case string:
		return isPlain(v)
	case json.Number:
		return len(v) <= 15 && v != "-0" && integerText.MatchString(string(v))
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !plainlyCanonical(e) })
	case map[string]any:
		for name, e := range v {
			if !isPlain(name) || !plainlyCanonical(e) {
				return false
			}
		}
		return true
	}
	return false
}

func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// canonical is JSON in the form of RFC 8785.
func canonical(text []byte) ([]byte, error) {
	wrapped := append(append([]byte{'['}, text...), ']')
	out, err := jcs.Transform(wrapped)
	if err != nil {
		return nil, err
	}
	return out[1 : len(out)-1], nil
}
