package shape

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"anvil/stages/internal/jsontree"
)

// A Violation is one thing that the schema does not allow.
type Violation struct {
	Pointer string         // of the value, or of the member that is missing
	Keyword string         // "required", "type", "enum", …
	Value   jsontree.Value // missing when the member is
	Text    string         // what is wanted
}

// Check returns every violation, in the document's order, at most limit.
func (s *Schema) Check(v jsontree.Value, pointer string, limit int) []Violation {
	c := checker{limit: limit}
	c.check(s, v, pointer)
	return c.out
}

// Accepts tells whether there is no violation.
func (s *Schema) Accepts(v jsontree.Value) bool {
	c := checker{limit: 1, quiet: true}
	c.check(s, v, "")
	return len(c.out) == 0
}

type checker struct {
	out   []Violation
	limit int
	quiet bool // only the number of violations matters
}

func (c *checker) full() bool { return len(c.out) >= c.limit }

func (c *checker) fail(pointer, keyword string, v jsontree.Value, format string, args ...any) {
	if c.full() {
		return
	}
	if c.quiet {
		c.out = append(c.out, Violation{})
		return
	}
	n := Violation{Pointer: pointer, Keyword: keyword, Value: v, Text: fmt.Sprintf(format, args...)}
	for _, o := range c.out {
		if o.Pointer == n.Pointer && o.Text == n.Text {
			return
		}
	}
	c.out = append(c.out, n)
}

// child extends a pointer only when somebody will read it.
func (c *checker) child(pointer, name string) string {
	if c.quiet {
		return ""
	}
	return jsontree.Child(pointer, name)
}

func (c *checker) check(s *Schema, v jsontree.Value, pointer string) {
	if c.full() {
		return
	}
	if s.never {
		c.fail(pointer, "false", v, "must not be here")
		return
	}
	if len(s.kinds) > 0 && !slices.ContainsFunc(s.kinds, func(k string) bool { return is(v, k) }) {
		c.fail(pointer, "type", v, "is %s, want %s", describe(v), strings.Join(s.kinds, " or "))
		return // the other keywords would only repeat it
	}
	if s.isEnum && !slices.Contains(s.enum, valueText(v)) {
		c.fail(pointer, "enum", v, "want %s", words(s.list))
	}
	c.scalar(s, v, pointer)
	switch v.Kind() {
	case jsontree.Object:
		c.object(s, v, pointer)
	case jsontree.Array:
		c.array(s, v, pointer)
	default:
	}
	for _, a := range s.all {
		c.check(a, v, pointer)
	}
	c.branches(s, v, pointer)
}

func is(v jsontree.Value, kind string) bool {
	if kind != "integer" {
		return v.Kind().String() == kind
	}
	return v.IsInteger()
}

func describe(v jsontree.Value) string {
	switch v.Kind() {
	case jsontree.Number:
		if raw := string(v.Raw()); len(raw) < 40 {
			return raw
		}
		return "a long number"
	case jsontree.Null:
		return "null"
	case jsontree.Array, jsontree.Object:
		return "an " + v.Kind().String()
	default:
		return "a " + v.Kind().String()
	}
}

func words(list []any) string {
	var out []string
	for _, e := range list {
		if e == nil {
			e = "null"
		}
		out = append(out, fmt.Sprint(e))
	}
	if len(out) == 1 {
		return out[0]
	}
	return "one of " + strings.Join(out, ", ")
}

func (c *checker) scalar(s *Schema, v jsontree.Value, pointer string) {
	switch v.Kind() {
	case jsontree.Number:
		if s.maximum == nil && (s.minimum == nil || *s.minimum == 0 && !v.Negative()) {
			return // nearly all, without reading the number
		}
		f, _ := v.Float()
		if s.minimum != nil && f < *s.minimum {
			c.fail(pointer, "minimum", v, "is below %v", *s.minimum)
		}
		if s.maximum != nil && f > *s.maximum {
			c.fail(pointer, "maximum", v, "is above %v", *s.maximum)
		}
	case jsontree.String:
		if s.minLength == 0 && s.maxLength < 0 && s.pattern == nil && s.format == "" {
			return
		}
		text := v.Str()
		n := utf8.RuneCountInString(text)
		if n < s.minLength || s.maxLength >= 0 && n > s.maxLength {
			c.fail(pointer, "length", v, "has %d characters, want %s", n, bounds(s.minLength, s.maxLength))
		}
		if s.pattern != nil && !s.pattern.MatchString(text) {
			c.fail(pointer, "pattern", v, "does not match %s", s.pattern)
		}
		if s.format == "date-time" {
			if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
				c.fail(pointer, "format", v, "is no RFC 3339 time")
			}
		}
	default:
	}
}

func bounds(low, high int) string {
	if high < 0 {
		return fmt.Sprintf("at least %d", low)
	}
	return fmt.Sprintf("%d to %d", low, high)
}

func (c *checker) object(s *Schema, v jsontree.Value, pointer string) {
	for _, name := range s.required {
		if !v.Get(name).Exists() {
			c.fail(c.child(pointer, name), "required", jsontree.Value{}, "is missing")
		}
	}
	if s.properties == nil && s.additional == nil && s.names == nil {
		return
	}
	for name, m := range v.Members() {
		p := s.properties[name]
		if p == nil {
			p = s.additional
		}
		if p != nil {
			if p.never {
				c.fail(c.child(pointer, name), "additionalProperties", m, "is not allowed here")
				continue
			}
			c.check(p, m, c.child(pointer, name))
		}
		if s.names != nil && !s.names.acceptsName(name) {
			c.fail(c.child(pointer, name), "propertyNames", m, "%q is no name that may stand here", name)
		}
	}
}

// acceptsName checks a member's name as the string that it is.
func (s *Schema) acceptsName(name string) bool {
	src := jsontree.AppendString(nil, name)
	v, err := jsontree.Parse(src)
	return err == nil && s.Accepts(v)
}

func (c *checker) array(s *Schema, v jsontree.Value, pointer string) {
	n := 0
	for i, e := range v.Elems() {
		n++
		if s.items == nil {
			continue
		}
		at := ""
		if !c.quiet {
			at = jsontree.Index(pointer, i)
		}
		if c.check(s.items, e, at); c.full() {
			return
		}
	}
	if n < s.minItems || s.maxItems >= 0 && n > s.maxItems {
		c.fail(pointer, "items", v, "has %d elements, want %s", n, bounds(s.minItems, s.maxItems))
	}
	if s.unique {
		c.unique(v, pointer)
	}
}

func (c *checker) unique(v jsontree.Value, pointer string) {
	seen := map[string]bool{}
	for i, e := range v.Elems() {
		text, err := jsontree.Canonical(e)
		if err != nil {
			continue
		}
		if seen[string(text)] {
			c.fail(jsontree.Index(pointer, i), "uniqueItems", e, "repeats an earlier element")
		}
		seen[string(text)] = true
	}
}

func (c *checker) branches(s *Schema, v jsontree.Value, pointer string) {
	if len(s.anyOf) > 0 {
		c.choice(s.anyOf, v, pointer, func(n int) bool { return n >= 1 })
	}
	if len(s.oneOf) > 0 {
		c.choice(s.oneOf, v, pointer, func(n int) bool { return n == 1 })
	}
	if s.not != nil && s.not.Accepts(v) {
		c.fail(pointer, "not", v, "has a form that must not be here")
	}
	if s.cond == nil {
		return
	}
	if branch := s.yes; s.cond.Accepts(v) {
		if branch != nil {
			c.check(branch, v, pointer)
		}
	} else if s.no != nil {
		c.check(s.no, v, pointer)
	}
}

// choice reports, when no branch fits, what is wrong with the only one of the
// right type: in "null or this object" the object's own faults.
func (c *checker) choice(branches []*Schema, v jsontree.Value, pointer string, enough func(int) bool) {
	accepted := 0
	for _, b := range branches {
		if b.Accepts(v) {
			accepted++
		}
	}
	if enough(accepted) {
		return
	}
	var fitting []*Schema
	for _, b := range branches {
		if b.takes(v) {
			fitting = append(fitting, b)
		}
	}
	if accepted > 0 || len(fitting) != 1 || c.quiet {
		c.fail(pointer, "oneOf", v, "is %s, which is none of the forms that may stand here", describe(v))
		return
	}
	c.check(fitting[0], v, pointer)
}

// takes tells whether the type alone fits.
func (s *Schema) takes(v jsontree.Value) bool {
	for _, a := range s.all {
		if !a.takes(v) {
			return false
		}
	}
	return !s.never && (len(s.kinds) == 0 || slices.ContainsFunc(s.kinds, func(k string) bool { return is(v, k) }))
}

// Names returns the names of the properties that the schema itself lists.
func (s *Schema) Names() []string { return slices.Sorted(maps.Keys(s.properties)) }
