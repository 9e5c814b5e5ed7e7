package schemas

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

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
	return newMarker(s).append(nil, []*jsonschema.Schema{s}, doc, ""), nil
}

// A marker finds marked values. It knows which schemas can lead to a mark at
// all, and asks no other whether it applies: most of a configuration has none.
type marker struct {
	bearing map[*jsonschema.Schema]bool
}

// newMarker looks through the schemas that a search from root may come to.
func newMarker(root *jsonschema.Schema) marker {
	parents := map[*jsonschema.Schema][]*jsonschema.Schema{}
	var marked []*jsonschema.Schema
	for todo := []*jsonschema.Schema{root}; len(todo) > 0; {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if MarksOf(s) != (Marks{}) {
			marked = append(marked, s)
		}
		for _, t := range below(s) {
			if parents[t] == nil && t != root {
				todo = append(todo, t)
			}
			parents[t] = append(parents[t], s)
		}
	}
	m := marker{bearing: map[*jsonschema.Schema]bool{}}
	for len(marked) > 0 {
		s := marked[len(marked)-1]
		marked = marked[:len(marked)-1]
		if !m.bearing[s] {
			m.bearing[s] = true
			marked = append(marked, parents[s]...)
		}
	}
	return m
}

// below lists the schemas that may apply in the place of s or to what is in a
// value of it; of conditions their branches.
func below(s *jsonschema.Schema) []*jsonschema.Schema {
	all := slices.Concat(s.AllOf, s.OneOf, s.AnyOf, s.PrefixItems)
	for _, t := range s.Properties {
		all = append(all, t)
	}
	for _, t := range s.PatternProperties {
		all = append(all, t)
	}
	extra, _ := s.AdditionalProperties.(*jsonschema.Schema)
	for _, t := range []*jsonschema.Schema{s.Ref, s.Then, s.Else, s.Items2020, extra} {
		if t != nil {
			all = append(all, t)
		}
	}
	return all
}

func (m marker) bears(s *jsonschema.Schema) bool { return m.bearing[s] }

// leads tells whether the value of a key can have a mark.
func (m marker) leads(known []*jsonschema.Schema, name string) bool {
	return slices.ContainsFunc(known, func(s *jsonschema.Schema) bool {
		if len(s.PatternProperties) > 0 {
			return slices.ContainsFunc(property([]*jsonschema.Schema{s}, name), m.bears)
		}
		if p, ok := s.Properties[name]; ok {
			return m.bears(p)
		}
		extra, ok := s.AdditionalProperties.(*jsonschema.Schema)
		return ok && m.bears(extra)
	})
}

func (m marker) append(out []Mark, given []*jsonschema.Schema, v any, pointer string) []Mark {
	if !slices.ContainsFunc(given, m.bears) {
		return out
	}
	known := applyingOf(given, v, m.bears)
	var all Marks
	for _, s := range known {
		here := MarksOf(s)
		if all.Key == Semantic {
			all.Key = here.Key
		}
		all.File = all.File || here.File
		all.Endpoint = all.Endpoint || here.Endpoint
		all.Resolved = all.Resolved || here.Resolved
		all.Like = all.Like || here.Like
	}
	if all != (Marks{}) {
		out = append(out, Mark{Pointer: pointer, Value: v, Marks: all})
	}
	switch v := v.(type) {
	case map[string]any:
		var names []string
		for name := range v {
			if m.leads(known, name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			out = m.append(out, property(known, name), v[name], Join(pointer, name))
		}
	case []any:
		for i, e := range v {
			if ss := item(known, i); slices.ContainsFunc(ss, m.bears) {
				out = m.append(out, ss, e, Join(pointer, strconv.Itoa(i)))
			}
		}
	}
	return out
}
