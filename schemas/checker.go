package schemas

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// A Checker fills and checks many objects of one schema. A plan with a matrix
// has thousands of configurations that differ in one key, so what was found of
// the value of a key at the top is kept. It is not safe for concurrent use.
type Checker struct {
	id    ID
	root  *jsonschema.Schema
	parts bool // keys at the top have nothing to do with each other
	marks marker
	known map[string]part
	text  []byte // room for the next key of known
}

// A part is the value of one key at the top: filled, with what is wrong with it
// and what is marked in it.
type part struct {
	value  any
	faults []Fault
	marks  []Mark
}

// NewChecker compiles the schema.
func NewChecker(id ID) (*Checker, error) {
	s, err := Compile(id)
	if err != nil {
		return nil, err
	}
	return &Checker{id: id, root: s, parts: inParts(s), marks: newMarker(s), known: map[string]part{}}, nil
}

// inParts tells whether a schema says of an object nothing but which keys it
// has and what each of them holds.
func inParts(s *jsonschema.Schema) bool {
	return slices.Equal(s.Types, []string{"object"}) && s.Ref == nil && s.If == nil && s.Not == nil && s.PropertyNames == nil &&
		len(s.AllOf)+len(s.AnyOf)+len(s.OneOf)+len(s.PatternProperties)+len(s.DependentRequired)+len(s.DependentSchemas) == 0 &&
		s.MinProperties <= 0 && s.MaxProperties < 0 && s.UnevaluatedProperties == nil && s.AdditionalProperties == false
}

// InParts tells whether the marks of a key at the top depend on its value
// alone; MarkedUnder is for such a schema.
func (c *Checker) InParts() bool { return c.parts }

// Check is Fill, Faults and Marked in one.
func (c *Checker) Check(doc map[string]any) ([]Fault, []Mark, error) {
	if !c.parts {
		fill([]*jsonschema.Schema{c.root}, doc)
		faults, err := Faults(c.id, doc)
		if err != nil {
			return nil, nil, err
		}
		return faults, c.Marked(doc), nil
	}
	var faults []Fault
	var marks []Mark
	fillKeys([]*jsonschema.Schema{c.root}, doc)
	for _, name := range c.root.Required {
		if _, ok := doc[name]; !ok {
			faults = append(faults, Fault{Message: fmt.Sprintf("missing key %q", name), Hint: describe([]*jsonschema.Schema{c.root}, name)})
		}
	}
	for _, name := range sortedKeys(doc) {
		s, ok := c.root.Properties[name]
		if !ok {
			given := []*jsonschema.Schema{c.root}
			faults = append(faults, unknownKey(given, given, doc, name, Join("", name), len(faults) < maxHints))
			continue
		}
		p, err := c.part(name, s, doc[name])
		if err != nil {
			return nil, nil, err
		}
		doc[name] = clone(p.value)
		faults = append(faults, p.faults...)
		marks = append(marks, p.marks...)
	}
	return faults, marks, nil
}

func (c *Checker) part(name string, s *jsonschema.Schema, v any) (part, error) {
	c.text = AppendJSON(append(append(c.text[:0], name...), 0), v)
	if p, ok := c.known[string(c.text)]; ok {
		return p, nil
	}
	key := string(c.text)
	given := []*jsonschema.Schema{s}
	p := part{value: clone(v)}
	fill(given, p.value)
	faults, err := faultsOf(s, p.value)
	if err != nil {
		return part{}, fmt.Errorf("check against %s: %w", c.id, err)
	}
	p.faults = faults
	at := Join("", name)
	for i := range p.faults {
		p.faults[i].Pointer = at + p.faults[i].Pointer
	}
	p.marks = c.MarkedUnder(name, p.value)
	c.known[key] = p
	return p, nil
}

// Marked is the function Marked for the checker's schema.
func (c *Checker) Marked(doc map[string]any) []Mark {
	return c.marks.append(nil, []*jsonschema.Schema{c.root}, doc, "")
}

// MarkedUnder is Marked for the value of one key at the top.
func (c *Checker) MarkedUnder(name string, v any) []Mark {
	s, ok := c.root.Properties[name]
	if !ok {
		return nil
	}
	return c.marks.append(nil, []*jsonschema.Schema{s}, v, Join("", name))
}

func sortFaults(fs []Fault) []Fault {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(fs, func(a, b Fault) bool { return a.Pointer == b.Pointer && a.Message == b.Message })
}
