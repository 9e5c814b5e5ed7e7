package derive

import (
	"encoding/json"
	"strings"
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

// maxObjects bounds how many objects of one answer are tried: an answer of
// opening braces alone must not take quadratic time.
const maxObjects = 64

// jsonObjects finds the outermost JSON objects that stand in a text, in order.
func jsonObjects(s string, visit func(from, to int, object map[string]any)) {
	for at, tried := 0, 0; at < len(s) && tried < maxObjects; tried++ {
		i := strings.IndexByte(s[at:], '{')
		if i < 0 {
			return
		}
		at += i
		dec := json.NewDecoder(strings.NewReader(s[at:]))
		dec.UseNumber()
		var object map[string]any
		if err := dec.Decode(&object); err != nil {
			at++
			continue
		}
		end := at + int(dec.InputOffset())
		visit(at, end, object)
		at = end
	}
}
