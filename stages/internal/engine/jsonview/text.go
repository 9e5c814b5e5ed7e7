package jsonview

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendText appends a string's text to b. Lone surrogates are written as their
// three bytes and invalid UTF-8 as it is; [Repair] mends both when the whole text
// is there.
func (v Value) AppendText(b []byte) []byte {
	if v.Kind() != String {
		return b
	}
	return unescape(b, v.raw[1:len(v.raw)-1])
}

// Text returns a string's text, repaired; "" for every other value.
func (v Value) Text() string {
	b, _ := Repair(v.AppendText(nil))
	return string(b)
}

func unescape(to, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return append(to, s...)
		}
		to = append(to, s[:i]...)
		to, s = escape(to, s[i:])
	}
}

// escape appends what the escape at the start of s stands for.
func escape(to, s []byte) (longer, rest []byte) {
	switch c := s[1]; c {
	case 'b':
		return append(to, '\b'), s[2:]
	case 'f':
		return append(to, '\f'), s[2:]
	case 'n':
		return append(to, '\n'), s[2:]
	case 'r':
		return append(to, '\r'), s[2:]
	case 't':
		return append(to, '\t'), s[2:]
	case 'u':
		r, _ := hex4(s[2:])
		return appendRune(to, r), s[6:]
	default:
		return append(to, c), s[2:]
	}
}

// appendRune writes surrogates too, which package utf8 refuses.
func appendRune(to []byte, r rune) []byte {
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(to, r)
	}
	return append(to, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
}

// Repair joins surrogates that stand in pairs and puts U+FFFD in the place of
// every byte that is no text and of every lone surrogate, and tells whether
// anything had to be replaced. Valid text is returned as it is, other in a copy.
func Repair(b []byte) (text []byte, replaced bool) {
	if utf8.Valid(b) {
		return b, false
	}
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r != utf8.RuneError || n > 1 {
			out = append(out, b[:n]...)
			b = b[n:]
			continue
		}
		r, n = surrogates(b)
		replaced = replaced || r == utf8.RuneError
		out = utf8.AppendRune(out, r)
		b = b[n:]
	}
	return out, replaced
}

// surrogates reads the pair at the start of b; what is none is U+FFFD.
func surrogates(b []byte) (r rune, n int) {
	high, ok := surrogate(b)
	if !ok {
		return utf8.RuneError, 1
	}
	low, ok := surrogate(b[3:])
	if !ok {
		return utf8.RuneError, 3
	}
	if r = utf16.DecodeRune(high, low); r == utf8.RuneError {
		return r, 3
	}
	return r, 6
}

func surrogate(b []byte) (r rune, ok bool) {
	if len(b) < 3 || b[0] != 0xed || b[1] < 0xa0 || b[1] > 0xbf || b[2]&0xc0 != 0x80 {
		return 0, false
	}
	return rune(b[0]&0xf)<<12 | rune(b[1]&0x3f)<<6 | rune(b[2]&0x3f), true
}
