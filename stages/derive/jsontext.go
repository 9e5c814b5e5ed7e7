package derive

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"anvil/stages/internal/jsontree"
)

// unfenced takes the code fence of Markdown away from around a text.
func unfenced(s string) string {
	from, to := unfencedBounds(s)
	return s[from:to]
}

func unfencedBounds(s string) (from, to int) {
	from, to = trimmed(s)
	inner := s[from:to]
	if !strings.HasPrefix(inner, "```") || !strings.HasSuffix(inner, "```") || len(inner) < 6 {
		return from, to
	}
	line := strings.IndexByte(inner, '\n')
	if line < 0 || line > len(inner)-3 {
		return from, to
	}
	a, b := trimmed(inner[line+1 : len(inner)-3])
	return from + line + 1 + a, from + line + 1 + b
}

// decodeAnswer decodes what an answer states as JSON. Readers differ over keys
// that stand twice, halves of surrogates and numbers beyond a double, so an
// answer with one of them says nothing that could be judged.
func decodeAnswer(s string) (any, error) {
	raw := []byte(s)
	if _, err := jsontree.Parse(raw); err != nil {
		return nil, err
	}
	return decodeNumbers(raw)
}

// jsonObjects finds the outermost JSON objects with members that stand in a
// text, in order.
//
// What looks like one and is none has to be read again from its second byte on,
// which may take quadratic time. So what was read in vain is bounded, by a
// multiple of the text that none but a hostile one comes to.
func jsonObjects(s string, visit func(from, to int, object map[string]any)) {
	vain := 1<<16 + 8*len(s)
	for at := 0; vain > 0; {
		i := strings.IndexByte(s[at:], '{')
		if i < 0 {
			return
		}
		at += i
		read, object := objectAt(s[at:])
		if object == nil {
			at, vain = at+1, vain-read
			continue
		}
		visit(at, at+read, object)
		at += read
	}
}

// objectAt reads the object that a text begins with, and tells how much of the
// text it read; nil when that is none.
func objectAt(s string) (read int, object map[string]any) {
	next := strings.TrimLeft(s[1:], " \t\r\n")
	if next == "" || next[0] != '"' {
		return len(s) - len(next), nil
	}
	dec := json.NewDecoder(strings.NewReader(s))
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		const decoder = 64 // what making one costs, in bytes read
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return decoder + int(syntax.Offset), nil
		}
		return decoder + len(s), nil
	}
	v, err := decodeAnswer(string(raw))
	if err != nil {
		return len(raw), nil
	}
	return len(raw), v.(map[string]any)
}

// sameJSON tells whether two JSON values are equal: of one type, numbers by
// their value, texts byte by byte, lists and objects member by member.
func sameJSON(want, got any) bool {
	switch w := want.(type) {
	case json.Number:
		g, ok := got.(json.Number)
		return ok && sameNumber(w.String(), g.String())
	case []any:
		g, ok := got.([]any)
		return ok && slices.EqualFunc(w, g, sameJSON)
	case map[string]any:
		g, ok := got.(map[string]any)
		return ok && maps.EqualFunc(w, g, sameJSON)
	}
	return want == got
}

// sameNumber compares two JSON numbers by value and never makes one of them:
// 1e-999999999 would take a gigabyte.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	x, okX := decimalOf(a)
	y, okY := decimalOf(b)
	return okX && okY && x == y
}

// A decimal is digits × 10^exponent with neither a first nor a last zero among
// the digits.
type decimal struct {
	negative bool
	digits   string
	exponent int64
}

func decimalOf(number string) (d decimal, ok bool) {
	number, d.negative = strings.CutPrefix(number, "-")
	mantissa, exponent := number, "0"
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		mantissa, exponent = number[:i], number[i+1:]
	}
	e, err := strconv.ParseInt(exponent, 10, 62) // room for what the digits add
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(digits, "0")
	d.exponent = e - int64(len(fraction)) + int64(len(digits)-len(d.digits))
	if d.digits == "" {
		return decimal{}, err == nil
	}
	return d, err == nil
}
