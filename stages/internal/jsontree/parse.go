// Package jsontree reads JSON as evidence: number text is kept, duplicate keys,
// invalid UTF-8, lone surrogates and numbers beyond a double are errors, and
// every error has a position. It writes JSON the way the record kinds need it.
//
// A document is a flat list of nodes over the source bytes, so that reading a
// large file row by row costs no garbage: Parse reuses what the Doc holds.
package jsontree

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may nest.
const MaxDepth = 256

// A Kind is the type of a value.
type Kind byte

// The kinds. Missing is that of the zero Value: a member that does not exist.
const (
	Missing Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// String returns the word of JSON Schema.
func (k Kind) String() string {
	return [...]string{"missing", "null", "boolean", "number", "string", "array", "object"}[k]
}

// A Fault says what is wrong with a text that is not acceptable JSON.
type Fault string

// The faults. Those after Syntax stand in texts that follow the grammar.
const (
	Syntax       Fault = "json.syntax"
	Depth        Fault = "json.depth"
	DuplicateKey Fault = "json.duplicate-key"
	NumberRange  Fault = "json.number-range"
	Surrogate    Fault = "json.surrogate"
	UTF8         Fault = "json.utf8"
)

// An Error is the first fault of a text.
type Error struct {
	Fault        Fault
	Offset       int // in bytes
	Line, Column int // from 1, in bytes
	Message      string
}

// Error is "line 3, column 5: …".
func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

type node struct {
	kind       Kind
	escaped    bool  // the string has escapes; the number has a point or an exponent
	start, end int32 // the source text; of strings without the quotes
	next       int32 // index after the subtree
}

// A Doc is one parsed text. It refers to the source, which must not change.
type Doc struct {
	src   []byte
	nodes []node
	seen  map[string]struct{} // keys of a large object, reused
}

// Root is the value of the whole text.
func (d *Doc) Root() Value { return Value{d, 0} }

// Parse reads src, which must be one JSON value and white space, in place of
// what d held before. The error is an *Error.
func (d *Doc) Parse(src []byte) error {
	d.src, d.nodes = src, d.nodes[:0]
	if len(src) > 1<<31-1 {
		return d.fail(Syntax, 0, "the text is longer than 2 GiB")
	}
	if bytes.HasPrefix(src, []byte("\xef\xbb\xbf")) {
		return d.fail(Syntax, 0, "the text begins with a byte order mark")
	}
	at, err := d.value(d.space(0), 0)
	if err != nil {
		return err
	}
	if at = d.space(at); at < len(src) {
		return d.fail(Syntax, at, "there is more after the end of the value")
	}
	return nil
}

// Parse reads one text.
func Parse(src []byte) (Value, error) {
	var d Doc
	if err := d.Parse(src); err != nil {
		return Value{}, err
	}
	return d.Root(), nil
}

func (d *Doc) fail(f Fault, at int, format string, args ...any) error {
	before := d.src[:min(at, len(d.src))]
	return &Error{
		Fault: f, Offset: at, Line: 1 + bytes.Count(before, []byte{'\n'}),
		Column: at - bytes.LastIndexByte(before, '\n'), Message: fmt.Sprintf(format, args...),
	}
}

func (d *Doc) unexpected(at int, want string) error {
	if at >= len(d.src) {
		return d.fail(Syntax, at, "the text ends where %s must stand", want)
	}
	r, _ := utf8.DecodeRune(d.src[at:])
	for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
		if bytes.HasPrefix(d.src[at:], []byte(word)) {
			return d.fail(Syntax, at, "%s is not JSON", word)
		}
	}
	return d.fail(Syntax, at, "%q where %s must stand", r, want)
}

func (d *Doc) space(at int) int {
	for at < len(d.src) {
		switch d.src[at] {
		case ' ', '\n', '\r', '\t':
			at++
		default:
			return at
		}
	}
	return at
}

func (d *Doc) push(n node) int {
	d.nodes = append(d.nodes, n)
	return len(d.nodes) - 1
}

// value parses what begins at at and returns the offset after it.
func (d *Doc) value(at, depth int) (int, error) {
	if at >= len(d.src) {
		return at, d.unexpected(at, "a value")
	}
	switch c := d.src[at]; {
	case c == '"':
		return d.str(at)
	case c == '{' || c == '[':
		if depth >= MaxDepth {
			return at, d.fail(Depth, at, "nested deeper than %d", MaxDepth)
		}
		if c == '{' {
			return d.object(at, depth+1)
		}
		return d.array(at, depth+1)
	case c == '-' || c >= '0' && c <= '9':
		return d.number(at)
	}
	for _, w := range [...]struct {
		text string
		kind Kind
	}{{"null", Null}, {"true", Bool}, {"false", Bool}} {
		if bytes.HasPrefix(d.src[at:], []byte(w.text)) {
			end := at + len(w.text)
			i := d.push(node{kind: w.kind, start: int32(at), end: int32(end)})
			d.nodes[i].next = int32(i + 1)
			return end, nil
		}
	}
	return at, d.unexpected(at, "a value")
}

func (d *Doc) array(at, depth int) (int, error) {
	self := d.push(node{kind: Array, start: int32(at)})
	at = d.space(at + 1)
	for n := 0; ; n++ {
		if at < len(d.src) && d.src[at] == ']' && n == 0 {
			break
		}
		var err error
		if at, err = d.value(at, depth); err != nil {
			return at, err
		}
		at = d.space(at)
		if at < len(d.src) && d.src[at] == ']' {
			break
		}
		if at >= len(d.src) || d.src[at] != ',' {
			return at, d.unexpected(at, `"," or "]"`)
		}
		at = d.space(at + 1)
	}
	return d.close(self, at), nil
}

// close ends a container whose last byte is at at.
func (d *Doc) close(self, at int) int {
	d.nodes[self].end = int32(at + 1)
	d.nodes[self].next = int32(len(d.nodes))
	return at + 1
}

func (d *Doc) object(at, depth int) (int, error) {
	self := d.push(node{kind: Object, start: int32(at)})
	at = d.space(at + 1)
	n := 0
	for ; ; n++ {
		if at < len(d.src) && d.src[at] == '}' && n == 0 {
			break
		}
		if at >= len(d.src) || d.src[at] != '"' {
			return at, d.unexpected(at, "a key in double quotes")
		}
		var err error
		if at, err = d.str(at); err != nil {
			return at, err
		}
		if at = d.space(at); at >= len(d.src) || d.src[at] != ':' {
			return at, d.unexpected(at, `":"`)
		}
		if at, err = d.value(d.space(at+1), depth); err != nil {
			return at, err
		}
		at = d.space(at)
		if at < len(d.src) && d.src[at] == '}' {
			n++
			break
		}
		if at >= len(d.src) || d.src[at] != ',' {
			return at, d.unexpected(at, `"," or "}"`)
		}
		at = d.space(at + 1)
	}
	end := d.close(self, at)
	return end, d.unique(self, n)
}

// unique fails on the second of two equal keys.
func (d *Doc) unique(self, n int) error {
	if n < 2 {
		return nil
	}
	if n > 16 && d.seen == nil {
		d.seen = map[string]struct{}{}
	}
	clear(d.seen)
	for i := int32(self + 1); i < d.nodes[self].next; i = d.nodes[i+1].next {
		again := false
		if n > 16 {
			key := Value{d, i}.Str()
			_, again = d.seen[key]
			d.seen[key] = struct{}{}
		} else {
			for j := int32(self + 1); j < i && !again; j = d.nodes[j+1].next {
				again = d.sameText(i, j)
			}
		}
		if again {
			return d.fail(DuplicateKey, int(d.nodes[i].start)-1, "duplicate key %q", clip(Value{d, i}.Str()))
		}
	}
	return nil
}

func (d *Doc) sameText(i, j int32) bool {
	a, b := d.nodes[i], d.nodes[j]
	if !a.escaped && !b.escaped {
		return bytes.Equal(d.src[a.start:a.end], d.src[b.start:b.end])
	}
	return Value{d, i}.Str() == Value{d, j}.Str()
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

func (d *Doc) number(at int) (int, error) {
	i := at
	digits := func() bool {
		from := i
		for i < len(d.src) && d.src[i] >= '0' && d.src[i] <= '9' {
			i++
		}
		return i > from
	}
	if d.src[i] == '-' {
		i++
	}
	zero := i < len(d.src) && d.src[i] == '0'
	if from := i; !digits() {
		if bytes.HasPrefix(d.src[i:], []byte("Infinity")) {
			i = at
		}
		return i, d.unexpected(i, "a digit")
	} else if zero && i-from > 1 {
		return at, d.fail(Syntax, at, "a number with a leading zero")
	}
	exact, whole := true, true
	if i < len(d.src) && d.src[i] == '.' {
		whole = false
		i++
		if !digits() {
			return i, d.unexpected(i, "a digit")
		}
	}
	if i < len(d.src) && (d.src[i] == 'e' || d.src[i] == 'E') {
		exact, whole = false, false
		if i++; i < len(d.src) && (d.src[i] == '+' || d.src[i] == '-') {
			i++
		}
		if !digits() {
			return i, d.unexpected(i, "a digit")
		}
	}
	if !exact || i-at > 300 {
		if _, err := strconv.ParseFloat(string(d.src[at:i]), 64); err != nil {
			return at, d.fail(NumberRange, at, "the number %s is beyond a double", clip(string(d.src[at:i])))
		}
	}
	self := d.push(node{kind: Number, escaped: !whole, start: int32(at), end: int32(i)})
	d.nodes[self].next = int32(self + 1)
	return i, nil
}

// str parses a string and leaves it as it stands in the source.
func (d *Doc) str(at int) (int, error) {
	n := node{kind: String, start: int32(at + 1)}
	ascii := true
	i := at + 1
	for {
		if i >= len(d.src) {
			return i, d.fail(Syntax, at, "the text ends inside the string that begins here")
		}
		switch c := d.src[i]; {
		case c == '"':
			if !ascii && !utf8.Valid(d.src[at+1:i]) {
				return at, d.fail(UTF8, at, "the string is not valid UTF-8")
			}
			n.end, n.next = int32(i), int32(len(d.nodes)+1)
			d.push(n)
			return i + 1, nil
		case c == '\\':
			n.escaped = true
			size, err := d.escape(i)
			if err != nil {
				return i, err
			}
			i += size
		case c < 0x20:
			return i, d.fail(Syntax, i, "the control character %q inside a string", rune(c))
		default:
			ascii = ascii && c < utf8.RuneSelf
			i++
		}
	}
}

// escape returns the length of the escape at at; a surrogate needs its other half.
func (d *Doc) escape(at int) (int, error) {
	if at+1 >= len(d.src) {
		return 0, d.unexpected(at+1, "an escape")
	}
	if slices.Contains([]byte(`"\/bfnrt`), d.src[at+1]) {
		return 2, nil
	}
	r, ok := hex4(d.src, at)
	if !ok {
		return 0, d.fail(Syntax, at, "an unknown escape")
	}
	if r < 0xd800 || r > 0xdfff {
		return 6, nil
	}
	low, ok := hex4(d.src, at+6)
	if r > 0xdbff || !ok || low < 0xdc00 || low > 0xdfff {
		return 0, d.fail(Surrogate, at, "a surrogate without its other half")
	}
	return 12, nil
}

// hex4 reads \uXXXX at at.
func hex4(src []byte, at int) (rune, bool) {
	if at+6 > len(src) || src[at] != '\\' || src[at+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range src[at+2 : at+6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
