package jsontree

import (
	"bytes"
	"iter"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A Value is one place in a document. The zero Value is a missing one, and the
// members of what is no object are missing too, so lookups chain.
type Value struct {
	d *Doc
	i int32
}

// Kind is the type of the value.
func (v Value) Kind() Kind {
	if v.d == nil {
		return Missing
	}
	return v.d.nodes[v.i].kind
}

// Exists tells whether there is a value, null included.
func (v Value) Exists() bool { return v.d != nil }

// Is tells whether the value has the kind.
func (v Value) Is(k Kind) bool { return v.Kind() == k }

// Raw is the source text; of a string with its quotes. It is nil for a missing value.
func (v Value) Raw() []byte {
	if v.d == nil {
		return nil
	}
	n := v.d.nodes[v.i]
	if n.kind == String {
		return v.d.src[n.start-1 : n.end+1]
	}
	return v.d.src[n.start:n.end]
}

// Str is the decoded string, "" for any other kind.
func (v Value) Str() string {
	if v.Kind() != String {
		return ""
	}
	n := v.d.nodes[v.i]
	raw := v.d.src[n.start:n.end]
	if !n.escaped {
		return string(raw)
	}
	return unescape(raw)
}

func unescape(raw []byte) string {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			next := bytes.IndexByte(raw[i:], '\\')
			if next < 0 {
				next = len(raw) - i
			}
			out = append(out, raw[i:i+next]...)
			i += next
			continue
		}
		if raw[i+1] != 'u' {
			out = append(out, "\"\\/\b\f\n\r\t"[strings.IndexByte(`"\/bfnrt`, raw[i+1])])
			i += 2
			continue
		}
		r, _ := hex4(raw, i)
		i += 6
		if utf16.IsSurrogate(r) {
			low, _ := hex4(raw, i)
			r = utf16.DecodeRune(r, low)
			i += 6
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}

// Float is the number as a double; ok is false for any other kind.
func (v Value) Float() (f float64, ok bool) {
	if v.Kind() != Number {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.Raw()), 64)
	return f, err == nil
}

// IsInteger tells whether the value is a number without point and exponent.
func (v Value) IsInteger() bool { return v.Kind() == Number && !v.d.nodes[v.i].escaped }

// Negative tells whether the value is a number with a minus sign.
func (v Value) Negative() bool { return v.Kind() == Number && v.d.src[v.d.nodes[v.i].start] == '-' }

// Int is the number when its text is an integer that fits int64: no point, no exponent.
func (v Value) Int() (n int64, ok bool) {
	if !v.IsInteger() {
		return 0, false
	}
	if raw := v.Raw(); len(raw) < 18 && raw[0] != '-' { // most of them, without a copy
		for _, c := range raw {
			n = n*10 + int64(c-'0')
		}
		return n, true
	}
	n, err := strconv.ParseInt(string(v.Raw()), 10, 64)
	return n, err == nil
}

// Bool is the boolean; ok is false for any other kind.
func (v Value) Bool() (b, ok bool) {
	if v.Kind() != Bool {
		return false, false
	}
	return v.Raw()[0] == 't', true
}

// Len counts the elements of an array or the members of an object.
func (v Value) Len() int {
	n := 0
	switch v.Kind() {
	case Array:
		for range v.Elems() {
			n++
		}
	case Object:
		for range v.Members() {
			n++
		}
	default:
	}
	return n
}

// Get returns the member of an object.
func (v Value) Get(name string) Value {
	if v.Kind() != Object {
		return Value{}
	}
	for i := v.i + 1; i < v.d.nodes[v.i].next; i = v.d.nodes[i+1].next {
		n := v.d.nodes[i]
		if !n.escaped && string(v.d.src[n.start:n.end]) == name || n.escaped && (Value{v.d, i}).Str() == name {
			return Value{v.d, i + 1}
		}
	}
	return Value{}
}

// Elem returns the element whose index the text spells, as pointers do.
func (v Value) Elem(index string) Value {
	for i, e := range v.Elems() {
		if strconv.Itoa(i) == index {
			return e
		}
	}
	return Value{}
}

// At follows names from v.
func (v Value) At(names ...string) Value {
	for _, n := range names {
		v = v.Get(n)
	}
	return v
}

// Members yields the members of an object in the source's order.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.Kind() != Object {
			return
		}
		for i := v.i + 1; i < v.d.nodes[v.i].next; i = v.d.nodes[i+1].next {
			if !yield(Value{v.d, i}.Str(), Value{v.d, i + 1}) {
				return
			}
		}
	}
}

// Elems yields the elements of an array.
func (v Value) Elems() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		if v.Kind() != Array {
			return
		}
		n := 0
		for i := v.i + 1; i < v.d.nodes[v.i].next; i = v.d.nodes[i].next {
			if !yield(n, Value{v.d, i}) {
				return
			}
			n++
		}
	}
}

// Go returns the value as encoding/json with UseNumber would.
func (v Value) Go(number func(text string) any) any {
	switch v.Kind() {
	case Bool:
		b, _ := v.Bool()
		return b
	case Number:
		return number(string(v.Raw()))
	case String:
		return v.Str()
	case Array:
		out := []any{}
		for _, e := range v.Elems() {
			out = append(out, e.Go(number))
		}
		return out
	case Object:
		out := map[string]any{}
		for name, m := range v.Members() {
			out[name] = m.Go(number)
		}
		return out
	default:
		return nil
	}
}

// Equal tells whether two values are the same but for white space, escapes,
// and the order of members; numbers must have the same text.
func Equal(a, b Value) bool {
	if a.Kind() != b.Kind() {
		return false
	}
	switch a.Kind() {
	case Missing, Null:
		return true
	case String:
		return a.Str() == b.Str()
	case Array:
		if a.Len() != b.Len() {
			return false
		}
		next, stop := iter.Pull2(b.Elems())
		defer stop()
		for _, x := range a.Elems() {
			if _, y, _ := next(); !Equal(x, y) {
				return false
			}
		}
		return true
	case Object:
		if a.Len() != b.Len() {
			return false
		}
		for name, x := range a.Members() {
			if !Equal(x, b.Get(name)) {
				return false
			}
		}
		return true
	default:
		return bytes.Equal(a.Raw(), b.Raw())
	}
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// Child extends a JSON pointer by a member's name.
func Child(pointer, name string) string { return pointer + "/" + pointerEscapes.Replace(name) }

// Index extends a JSON pointer by an element's index.
func Index(pointer string, i int) string { return pointer + "/" + strconv.Itoa(i) }
