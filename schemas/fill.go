package schemas

import (
	"fmt"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Fill sets in doc, in place, the default of every key that it leaves out, all
// the way down. Keys that a condition or a union member brings are filled once
// doc meets it. It does not validate, and what does not fit the schema stays.
func Fill(id ID, doc map[string]any) error {
	s, err := Compile(id)
	if err != nil {
		return err
	}
	fill([]*jsonschema.Schema{s}, doc)
	return nil
}

func fill(given []*jsonschema.Schema, v any) {
	switch v := v.(type) {
	case map[string]any:
		known := applying(given, v)
		// A default may meet a condition that brings further keys.
		for fillKeys(known, v) {
			known = applying(given, v)
		}
		for name, e := range v {
			if !isScalar(e) {
				fill(property(known, name), e)
			}
		}
	case []any:
		known := applying(given, v)
		for i, e := range v {
			if !isScalar(e) {
				fill(item(known, i), e)
			}
		}
	}
}

func fillKeys(known []*jsonschema.Schema, m map[string]any) (changed bool) {
	for _, s := range known {
		for name, p := range s.Properties {
			if _, ok := m[name]; ok {
				continue
			}
			if d, ok := defaultOf(p); ok {
				m[name] = clone(d)
				changed = true
			}
		}
	}
	return changed
}

const defaultName = "x-anvil-default"

// defaultValue keeps a default apart from the library's own field, where a
// default of null looks like none.
type defaultValue struct{ v any }

func (defaultValue) Validate(jsonschema.ValidationContext, any) error { return nil }

func defaultOf(s *jsonschema.Schema) (any, bool) {
	for range 8 { // a chain of references, never a long one
		if d, ok := s.Extensions[defaultName].(defaultValue); ok {
			return d.v, true
		}
		if s.Ref == nil {
			break
		}
		s = s.Ref
	}
	return nil, false
}

// A Mark is a value of a document whose schema carries keywords of our own.
type Mark struct {
	Pointer string
	Value   any
	Marks   Marks
}

// Marked returns the values of doc whose schemas carry keywords of our own, in
// the order of their pointers' keys; what lies below a marked value follows it.
func Marked(id ID, doc any) ([]Mark, error) {
	s, err := Compile(id)
	if err != nil {
		return nil, fmt.Errorf("marks: %w", err)
	}
	return appendMarked(nil, []*jsonschema.Schema{s}, doc, ""), nil
}

func appendMarked(out []Mark, given []*jsonschema.Schema, v any, pointer string) []Mark {
	known := applying(given, v)
	var all Marks
	for _, s := range known {
		m := MarksOf(s)
		if all.Key == Semantic {
			all.Key = m.Key
		}
		all.File = all.File || m.File
		all.Endpoint = all.Endpoint || m.Endpoint
		all.Resolved = all.Resolved || m.Resolved
		all.Like = all.Like || m.Like
	}
	if all != (Marks{}) {
		out = append(out, Mark{Pointer: pointer, Value: v, Marks: all})
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range sortedKeys(v) {
			if ss := property(known, name); len(ss) > 0 {
				out = appendMarked(out, ss, v[name], Join(pointer, name))
			}
		}
	case []any:
		for i, e := range v {
			if ss := item(known, i); len(ss) > 0 {
				out = appendMarked(out, ss, e, Join(pointer, fmt.Sprint(i)))
			}
		}
	}
	return out
}

// bearsMarks tells whether a value under s can have a mark: whether s, or a
// schema that appendMarked may come to from it, has one.
func bearsMarks(s *jsonschema.Schema, seen map[*jsonschema.Schema]bool) bool {
	if s == nil || seen[s] {
		return false
	}
	seen[s] = true
	if MarksOf(s) != (Marks{}) {
		return true
	}
	next := slices.Concat([]*jsonschema.Schema{s.Ref, s.Then, s.Else, s.Items2020}, s.AllOf, s.OneOf, s.AnyOf, s.PrefixItems)
	next = slices.AppendSeq(next, maps.Values(s.Properties))
	next = slices.AppendSeq(next, maps.Values(s.PatternProperties))
	if extra, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		next = append(next, extra)
	}
	return slices.ContainsFunc(next, func(t *jsonschema.Schema) bool { return bearsMarks(t, seen) })
}
