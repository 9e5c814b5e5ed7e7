package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable makes text from a server, a model or a file safe for a terminal:
// control characters, escape sequences, direction marks and bytes that are no
// UTF-8 are shown as escapes. Line feeds and tabs stay.
func printable(s string) string {
	if safe(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case shown(r):
			b.WriteString(s[i : i+n])
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.String()
}

// line is printable for a place that must stay one line.
func line(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(printable(s))
}

func safe(s string) bool {
	for i, r := range s {
		if !shown(r) || r == utf8.RuneError && s[i] != 0xef {
			return false
		}
	}
	return true
}

// shown tells whether a rune may reach the terminal as it is. Cf holds the
// direction marks and joiners that can make text read as what it is not.
func shown(r rune) bool {
	return r == '\n' || r == '\t' || r == ' ' || unicode.IsGraphic(r) && !unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Zl, r) && !unicode.Is(unicode.Zp, r)
}
