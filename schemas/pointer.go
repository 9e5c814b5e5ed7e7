package schemas

import "strings"

var (
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
)

// Join appends tokens to a JSON pointer.
func Join(pointer string, tokens ...string) string {
	var b strings.Builder
	b.WriteString(pointer)
	for _, t := range tokens {
		b.WriteByte('/')
		if strings.ContainsAny(t, "~/") {
			t = escape.Replace(t)
		}
		b.WriteString(t)
	}
	return b.String()
}

// Split returns the tokens of a JSON pointer.
func Split(pointer string) []string {
	if pointer == "" {
		return nil
	}
	tokens := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, t := range tokens {
		if strings.Contains(t, "~") {
			tokens[i] = unescape.Replace(t)
		}
	}
	return tokens
}
