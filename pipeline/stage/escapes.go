package stage

import "bytes"

// shortest is the beginning of a secret that says too little of it to hide.
const shortest = 8

// hideEscaped hides a value of which bytes are written as escapes of JSON
// (\u0073, \/, also in a text within a text) or of URLs (%73). With cut its
// beginning at the end of b is hidden too, however it is written.
func hideEscaped(b, value []byte, cut bool) (found bool) {
	from := len(b)
	if cut {
		from = max(len(b)-longestEscape*len(value), 0)
	}
	if mayHoldEscapes(b) {
		from = 0
	}
	for i := from; i < len(b); {
		if n := spelled(b[i:], value, cut); n > 0 {
			hide(b[i:][:n])
			found = true
			i += n
			continue
		}
		i++
	}
	return found
}

func mayHoldEscapes(b []byte) bool {
	return bytes.IndexByte(b, '%') >= 0 || bytes.Contains(b, []byte(`\u`)) || bytes.Contains(b, []byte(`\/`)) ||
		bytes.Contains(b, []byte(`\\`))
}

// longestEscape is what a byte takes as an escape in a text within a text.
const longestEscape = 8

// spelled returns how many bytes at the beginning of b spell the value, 0 for
// none. With cut a b that ends within it spells it too.
func spelled(b, value []byte, cut bool) int {
	at := 0
	for j, want := range value {
		if at == len(b) {
			if cut && j > shortest {
				return at
			}
			return 0
		}
		if b[at] == want && want != '\\' {
			at++
			continue
		}
		c, n := unescape(b[at:])
		switch {
		case n > 0 && c == want:
			at += n
		case n == 0 && cut && j > shortest:
			return len(b)
		default:
			return 0
		}
	}
	return at
}

// unescape reads one byte and tells how many bytes it takes; none where b ends
// within an escape.
func unescape(b []byte) (c byte, n int) {
	switch b[0] {
	case '%':
		return code(b[1:], 1, 2)
	case '\\':
	default:
		return b[0], 1
	}
	k := 1 // a text within a text doubles the backslash
	for k < len(b) && b[k] == '\\' {
		k++
	}
	switch {
	case k == len(b):
		return 0, 0
	case b[k] == 'u':
		return code(b[k+1:], k+1, 4)
	case b[k] == '"' || b[k] == '/':
		return b[k], k + 1
	}
	return '\\', k
}

// code reads an escape's hexadecimal digits, before which prefix bytes stand. Of
// what is no ASCII it reads nothing.
func code(b []byte, prefix, digits int) (c byte, n int) {
	value := 0
	for i := range digits {
		if i == len(b) {
			return 0, 0
		}
		d := bytes.IndexByte([]byte("0123456789abcdef"), b[i]|0x20)
		if d < 0 {
			return 0, prefix
		}
		value = value<<4 | d
	}
	if value > 0x7f {
		return 0, prefix
	}
	return byte(value), prefix + digits
}
