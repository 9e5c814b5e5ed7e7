package schemas

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// A Violation is one rule of a schema that a document breaks.
type Violation struct {
	Pointer string // JSON pointer into the document
	Keyword string // JSON pointer into the schema, for example "/properties/seed/type"
	Message string // what the schema wants
}

// Error is "<pointer>: <message>".
func (v Violation) Error() string {
	if v.Pointer == "" {
		return "(document): " + v.Message
	}
	return v.Pointer + ": " + v.Message
}

// Validate checks doc, which holds maps, slices, strings, booleans, nil and
// numbers (json.Number keeps them exact), against the schema and returns every
// violation, sorted by pointer, then keyword: of a document with numbers that no
// double holds, these alone. The error is for a schema that is
// missing or does not compile.
func Validate(id ID, doc any) ([]Violation, error) {
	s, err := Compile(id)
	if err != nil {
		return nil, err
	}
	if allInRange(doc) && judge(s, doc) == accepted {
		return nil, nil
	}
	return violations(ask(s, doc))
}

func violations(err error) ([]Violation, error) {
	if err == nil {
		return nil, nil
	}
	if re, ok := errors.AsType[*rangeError](err); ok {
		return re.violations, nil
	}
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return nil, err
	}
	var out []Violation
	// Only leaves say what is wrong; the inner nodes repeat the path to them.
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			out = append(out, Violation{Pointer: instance(e), Keyword: e.KeywordLocation, Message: message(e)})
			return
		}
		for _, c := range e.Causes {
			walk(c)
		}
	}
	walk(ve)
	slices.SortFunc(out, func(a, b Violation) int {
		if c := strings.Compare(a.Pointer, b.Pointer); c != 0 {
			return c
		}
		return strings.Compare(a.Keyword, b.Keyword)
	})
	return slices.CompactFunc(out, func(a, b Violation) bool {
		return a.Pointer == b.Pointer && a.Message == b.Message
	}), nil
}

// Check is Validate as one error that lists every violation, or nil.
func Check(id ID, doc any) error {
	vs, err := Validate(id, doc)
	if err != nil {
		return err
	}
	if len(vs) == 0 {
		return nil
	}
	errs := make([]error, len(vs))
	for i, v := range vs {
		errs[i] = v
	}
	return fmt.Errorf("schema %s: %w", id, errors.Join(errs...))
}
