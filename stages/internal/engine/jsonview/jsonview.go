// Package jsonview reads single values out of JSON bytes without allocating: one
// validating pass over an object picks the members that are asked for, and text
// is decoded only when someone wants it. It exists because every event of every
// stream has to be looked at while a phase runs.
//
// It is strict about structure (RFC 8259) and lenient about text: invalid UTF-8
// and lone surrogates are kept until [Repair], since a character may be divided
// between two events. Of duplicate keys the last counts, as in encoding/json.
package jsonview

import (
	"bytes"
	"strconv"
)

// A Value is the bytes of one JSON value. The zero value is an absent one.
type Value struct{ raw []byte }

// A Kind is the type of a value.
type Kind uint8

// The kinds of values.
const (
	Absent Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// Parse returns the one value that b holds, white space aside. ok is false when b
// is not JSON.
func Parse(b []byte) (v Value, ok bool) {
	start := space(b, 0)
	end := skip(b, start, 0)
	if end < 0 || space(b, end) != len(b) {
		return Value{}, false
	}
	return Value{b[start:end]}, true
}

// ParseObject picks members from the object that b holds and tells whether b is
// valid JSON at all; of another value than an object nothing is picked. It is
// Parse and Pick in one pass.
func ParseObject(b []byte, keys []string, out []Value) (v Value, ok bool) {
	clear(out)
	start := space(b, 0)
	if start >= len(b) || b[start] != '{' {
		return Parse(b)
	}
	end := object(b, start, 0, keys, out)
	if end < 0 || space(b, end) != len(b) {
		clear(out)
		return Value{}, false
	}
	return Value{b[start:end]}, true
}

// Pick fills out[i] with the member named keys[i]; absent ones and those of a
// value that is no object are zero.
func (v Value) Pick(keys []string, out []Value) {
	clear(out)
	if v.Kind() == Object {
		pick(v.raw, keys, out)
	}
}

// Get returns one member.
func (v Value) Get(key string) Value {
	keys, out := [1]string{key}, [1]Value{}
	v.Pick(keys[:], out[:])
	return out[0]
}

// At follows a path of members.
func (v Value) At(path ...string) Value {
	for _, key := range path {
		v = v.Get(key)
	}
	return v
}

// Kind returns the value's type.
func (v Value) Kind() Kind {
	if len(v.raw) == 0 {
		return Absent
	}
	switch v.raw[0] {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	default:
		return Number
	}
}

// Missing tells whether the value is absent or null.
func (v Value) Missing() bool { k := v.Kind(); return k == Absent || k == Null }

// True tells whether the value is the literal true.
func (v Value) True() bool { return len(v.raw) > 0 && v.raw[0] == 't' }

// Raw returns the value's bytes.
func (v Value) Raw() []byte { return v.raw }

// Filled tells whether the value is a string that is not empty.
func (v Value) Filled() bool { return v.Kind() == String && len(v.raw) > 2 }

// Is tells whether the value is that string, written without escapes.
func (v Value) Is(s string) bool {
	return v.Kind() == String && string(v.raw[1:len(v.raw)-1]) == s
}

// Same tells whether two values are written alike.
func (v Value) Same(w Value) bool { return bytes.Equal(v.raw, w.raw) }

// Next returns the first element of an array at or after the position that *at
// holds, and moves on; *at begins as zero.
func (v Value) Next(at *int) (element Value, ok bool) {
	if v.Kind() != Array {
		return Value{}, false
	}
	i := *at
	if i == 0 {
		i = 1
	}
	i = space(v.raw, i)
	if v.raw[i] == ',' {
		i = space(v.raw, i+1)
	}
	if v.raw[i] == ']' {
		return Value{}, false
	}
	end := validEnd(v.raw, i)
	*at = end
	return Value{v.raw[i:end]}, true
}

// Int returns a number that is a whole one of at most 2^53-1, however it is
// written (37.0 and 3.7e1 are whole).
func (v Value) Int() (n int64, ok bool) {
	if v.Kind() != Number {
		return 0, false
	}
	if n, err := strconv.ParseInt(string(v.raw), 10, 64); err == nil {
		return n, n < 1<<53 && n > -(1<<53)
	}
	f, err := strconv.ParseFloat(string(v.raw), 64)
	if err != nil || f != float64(int64(f)) || f >= 1<<53 || f <= -(1<<53) {
		return 0, false
	}
	return int64(f), true
}

// Float returns a number.
func (v Value) Float() (f float64, ok bool) {
	if v.Kind() != Number {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.raw), 64)
	return f, err == nil
}

// object walks one object and picks members on its way; it returns the offset
// behind it, or -1.
func object(b []byte, i, depth int, keys []string, out []Value) int {
	i = space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return -1
		}
		keyEnd := str(b, i)
		if keyEnd < 0 {
			return -1
		}
		key := b[i+1 : keyEnd-1]
		i = space(b, keyEnd)
		if i >= len(b) || b[i] != ':' {
			return -1
		}
		i = space(b, i+1)
		end := skip(b, i, depth+1)
		if end < 0 {
			return -1
		}
		if k := index(keys, key); k >= 0 {
			out[k] = Value{b[i:end]}
		}
		i = space(b, end)
		if i >= len(b) {
			return -1
		}
		if b[i] == '}' {
			return i + 1
		}
		if b[i] != ',' {
			return -1
		}
		i = space(b, i+1)
	}
}

// index finds a key, which may be written with escapes.
func index(keys []string, key []byte) int {
	for i, k := range keys {
		if string(key) == k {
			return i
		}
	}
	if bytes.IndexByte(key, '\\') < 0 {
		return -1
	}
	for i, k := range keys {
		if string(unescape(nil, key)) == k {
			return i
		}
	}
	return -1
}
