package schemas

import (
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
