package schemas

import (
	"encoding/json"
	"math/big"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// applying returns every schema that says something of v: those given, what
// they refer to, the branches of their conditions that v meets, and of a union
// the member that v means.
func applying(given []*jsonschema.Schema, v any) []*jsonschema.Schema {
	return applyingOf(given, v, func(*jsonschema.Schema) bool { return true })
}

// applyingOf is applying for whom only some schemas matter: it keeps those for
// which matters is true, and looks for nothing behind the others.
func applyingOf(given []*jsonschema.Schema, v any, matters func(*jsonschema.Schema) bool) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	for _, s := range given {
		out = appendApplying(out, s, v, matters)
	}
	return out
}

func appendApplying(out []*jsonschema.Schema, s *jsonschema.Schema, v any, matters func(*jsonschema.Schema) bool) []*jsonschema.Schema {
	if s == nil || !matters(s) {
		return out
	}
	out = append(out, s)
	out = appendApplying(out, s.Ref, v, matters)
	for _, t := range s.AllOf {
		out = appendApplying(out, t, v, matters)
	}
	if s.If != nil && (s.Then != nil && matters(s.Then) || s.Else != nil && matters(s.Else)) {
		branch := s.Else
		if holds(s.If, v) {
			branch = s.Then
		}
		out = appendApplying(out, branch, v, matters)
	}
	for _, union := range [][]*jsonschema.Schema{s.OneOf, s.AnyOf} {
		if slices.ContainsFunc(union, matters) {
			out = appendApplying(out, meant(union, v), v, matters)
		}
	}
	return out
}

// holds tells whether v fits a schema.
func holds(s *jsonschema.Schema, v any) bool {
	switch judge(s, v) {
	case accepted:
		return true
	case refused:
		return false
	case unsure:
	}
	return ask(s, v) == nil
}

func isScalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

func sameScalar(a, b any) bool {
	an, aok := a.(json.Number)
	bn, bok := b.(json.Number)
	if aok && bok {
		if an == bn {
			return true
		}
		if !inRange(an) || !inRange(bn) {
			return false
		}
		x, ok1 := new(big.Rat).SetString(an.String())
		y, ok2 := new(big.Rat).SetString(bn.String())
		return ok1 && ok2 && x.Cmp(y) == 0
	}
	return isScalar(b) && a == b
}

// meant returns the member of a union that v is, or seems to be meant as: nil
// when v is like none of them.
func meant(union []*jsonschema.Schema, v any) *jsonschema.Schema {
	likely := filter(union, func(s *jsonschema.Schema) bool { return resembles(s, v, true) })
	if len(likely) == 0 {
		// One of the right type is what was meant; of two nobody knows which.
		if likely = filter(union, func(s *jsonschema.Schema) bool { return resembles(s, v, false) }); len(likely) > 1 {
			return nil
		}
	}
	switch len(likely) {
	case 0:
		return nil
	case 1:
		return likely[0]
	}
	for _, s := range likely {
		filled := clone(v)
		fill([]*jsonschema.Schema{s}, filled)
		if holds(s, filled) {
			return s
		}
	}
	return slices.MinFunc(likely, func(a, b *jsonschema.Schema) int { return strangers(a, v) - strangers(b, v) })
}

func filter(ss []*jsonschema.Schema, keep func(*jsonschema.Schema) bool) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	for _, s := range ss {
		if keep(s) {
			out = append(out, s)
		}
	}
	return out
}

// resembles tells whether v has the type of s and, when exact, its required
// keys, its constants and one of its enumerated values.
func resembles(s *jsonschema.Schema, v any, exact bool) bool {
	if s.Ref != nil && !resembles(s.Ref, v, exact) {
		return false
	}
	if len(s.Types) > 0 && !hasType(s.Types, v) {
		return false
	}
	if len(s.Constant) > 0 && !sameScalar(s.Constant[0], v) {
		return false
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e any) bool { return sameScalar(e, v) }) {
		return !exact && sameKind(s.Enum, v)
	}
	m, ok := v.(map[string]any)
	if !ok || !exact {
		return true
	}
	for _, name := range s.Required {
		if _, ok := m[name]; !ok {
			return false
		}
	}
	for name, p := range s.Properties {
		if have, ok := m[name]; ok && len(p.Constant) > 0 && !sameScalar(p.Constant[0], have) {
			return false
		}
	}
	return true
}

func sameKind(enum []any, v any) bool {
	return slices.ContainsFunc(enum, func(e any) bool { return typeName(e) == typeName(v) })
}

func hasType(types []string, v any) bool {
	name := typeName(v)
	return slices.Contains(types, name) || name == "number" && slices.Contains(types, "integer")
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case map[string]any:
		return "object"
	case []any:
		return "array"
	}
	return "number"
}

// strangers counts the keys of v that s does not know.
func strangers(s *jsonschema.Schema, v any) int {
	m, _ := v.(map[string]any)
	n := 0
	for name := range m {
		if _, ok := s.Properties[name]; !ok {
			n++
		}
	}
	return n
}

// property returns the schemas of one key of an object to which those given apply.
func property(applying []*jsonschema.Schema, name string) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	for _, s := range applying {
		p, known := s.Properties[name]
		if known {
			out = append(out, p)
		}
		for re, p := range s.PatternProperties {
			if re.MatchString(name) {
				out, known = append(out, p), true
			}
		}
		if extra, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && !known {
			out = append(out, extra)
		}
	}
	return out
}

// item returns the schemas of one item of a list to which those given apply.
func item(applying []*jsonschema.Schema, i int) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	for _, s := range applying {
		switch {
		case i < len(s.PrefixItems):
			out = append(out, s.PrefixItems[i])
		case s.Items2020 != nil:
			out = append(out, s.Items2020)
		}
	}
	return out
}

// clone copies maps and slices all the way down.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = clone(e)
		}
		return m
	case []any:
		s := make([]any, len(v))
		for i, e := range v {
			s[i] = clone(e)
		}
		return s
	}
	return v
}

func sortedKeys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
