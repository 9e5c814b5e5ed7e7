package jsontree

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A Member is one member of an Object that is to be written.
type Member struct {
	Name  string
	Value any
}

// An Obj is an object to be written, in its order.
type Obj []Member

// Get returns the member's value, nil when there is none.
func (o Obj) Get(name string) any {
	for _, m := range o {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// Sorted returns the members by code point of their names.
func (o Obj) Sorted() Obj {
	s := slices.Clone(o)
	slices.SortStableFunc(s, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// A Renderer writes values as the record kinds have them: indent 2, ": ",
// ASCII escapes, no escape of <, > and &, floats with a point or an exponent.
type Renderer struct {
	SortKeys bool // by code point; Obj else keeps its order

	to io.Writer // of Write; nil while all is kept
}

// A Late is a value that is asked for when it is written, and not held before.
type Late func() (any, error)

// flushAt is how much Write keeps.
const flushAt = 256 << 10

// Render returns the text with one final line feed. It takes nil, bool, string,
// int, int64, float64, Obj, []any, map[string]any (always sorted), Late, Value (its
// number text is kept) and pointers to scalars, nil being null. A NaN or an
// infinity is an error that names its place: JSON has none, and a caller that
// has no figure writes null with a reason.
func (r Renderer) Render(v any) ([]byte, error) {
	out, err := r.append(nil, v, "", "")
	if err != nil {
		return nil, err
	}
	return append(out, '\n'), nil
}

// Write writes what Render returns, piece by piece: a document of many parts that
// are Late is never whole in memory.
func (r Renderer) Write(w io.Writer, v any) error {
	r.to = w
	out, err := r.append(nil, v, "", "")
	if err != nil {
		return err
	}
	_, err = w.Write(append(out, '\n'))
	return err
}

// flush hands on what is there, between two elements of a list.
func (r Renderer) flush(out []byte) ([]byte, error) {
	if r.to == nil || len(out) < flushAt {
		return out, nil
	}
	_, err := r.to.Write(out)
	return out[:0], err
}

// Canonical is the form of records.md 4.6, over which run ids are computed:
// sorted keys, original number text, one final line feed.
func Canonical(v any) ([]byte, error) { return Renderer{SortKeys: true}.Render(v) }

func (r Renderer) append(out []byte, v any, indent, pointer string) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(out, "null"...), nil
	case bool:
		return strconv.AppendBool(out, v), nil
	case string:
		return AppendString(out, v), nil
	case int:
		return strconv.AppendInt(out, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(out, v, 10), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("write %s: %v is no JSON number", pointer, v)
		}
		return AppendFloat(out, v), nil
	case *bool:
		return appendPointer(r, out, v, indent, pointer)
	case *string:
		return appendPointer(r, out, v, indent, pointer)
	case *int:
		return appendPointer(r, out, v, indent, pointer)
	case *int64:
		return appendPointer(r, out, v, indent, pointer)
	case *float64:
		return appendPointer(r, out, v, indent, pointer)
	case Obj:
		return r.appendObject(out, v, indent, pointer)
	case map[string]any:
		o := make(Obj, 0, len(v))
		for name, m := range v {
			o = append(o, Member{name, m})
		}
		return r.appendObject(out, o.Sorted(), indent, pointer)
	case []any:
		return r.appendArray(out, v, indent, pointer)
	case Value:
		return r.appendValue(out, v, indent, pointer)
	case Late:
		now, err := v()
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", pointer, err)
		}
		return r.append(out, now, indent, pointer)
	}
	return nil, fmt.Errorf("write %s: no form for a %T", pointer, v)
}

func appendPointer[T any](r Renderer, out []byte, p *T, indent, pointer string) ([]byte, error) {
	if p == nil {
		return append(out, "null"...), nil
	}
	return r.append(out, *p, indent, pointer)
}

func (r Renderer) appendObject(out []byte, o Obj, indent, pointer string) ([]byte, error) {
	if len(o) == 0 {
		return append(out, "{}"...), nil
	}
	if r.SortKeys {
		o = o.Sorted()
	}
	inner := indent + "  "
	for i, m := range o {
		out = append(out, ",{"[b2i(i == 0)], '\n')
		out = append(AppendString(append(out, inner...), m.Name), ": "...)
		var err error
		if out, err = r.append(out, m.Value, inner, Child(pointer, m.Name)); err != nil {
			return nil, err
		}
	}
	return append(append(append(out, '\n'), indent...), '}'), nil
}

func (r Renderer) appendArray(out []byte, a []any, indent, pointer string) ([]byte, error) {
	if len(a) == 0 {
		return append(out, "[]"...), nil
	}
	inner := indent + "  "
	for i, e := range a {
		out = append(append(out, ",["[b2i(i == 0)], '\n'), inner...)
		var err error
		if out, err = r.append(out, e, inner, Index(pointer, i)); err != nil {
			return nil, err
		}
		if out, err = r.flush(out); err != nil {
			return nil, err
		}
	}
	return append(append(append(out, '\n'), indent...), ']'), nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (r Renderer) appendValue(out []byte, v Value, indent, pointer string) ([]byte, error) {
	switch v.Kind() {
	case Missing:
		return nil, fmt.Errorf("write %s: the value is missing", pointer)
	case String:
		return AppendString(out, v.Str()), nil
	case Array:
		var a []any
		for _, e := range v.Elems() {
			a = append(a, e)
		}
		return r.appendArray(out, a, indent, pointer)
	case Object:
		var o Obj
		for name, m := range v.Members() {
			o = append(o, Member{name, m})
		}
		return r.appendObject(out, o, indent, pointer)
	default:
		return append(out, v.Raw()...), nil
	}
}

// AppendFloat appends the shortest digits that read back the same double: with
// a point or an exponent always, and the exponent form below 1e-4 and from
// 1e16 on, with at least two exponent digits. This is Python's repr.
func AppendFloat(out []byte, f float64) []byte {
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(out, f, 'e', -1, 64)
	}
	from := len(out)
	out = strconv.AppendFloat(out, f, 'f', -1, 64)
	if !slices.Contains(out[from:], '.') {
		out = append(out, ".0"...)
	}
	return out
}

// AppendString appends s as a JSON string in ASCII; what is not valid UTF-8
// becomes U+FFFD.
func AppendString(out []byte, s string) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			i += size
			units := utf16.AppendRune(nil, r)
			for _, u := range units {
				out = append(out, '\\', 'u', hex[u>>12], hex[u>>8&15], hex[u>>4&15], hex[u&15])
			}
			continue
		}
		i++
		switch j := strings.IndexByte("\"\\\b\f\n\r\t", c); {
		case j >= 0:
			out = append(out, '\\', `"\bfnrt`[j])
		case c < 0x20 || c == 0x7f: // the producer escapes DEL as well
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}
