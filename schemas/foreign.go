package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// A Foreign is a schema that a user wrote: what an answer must fit, for one.
type Foreign struct{ s *jsonschema.Schema }

// ParseForeign compiles a schema that stands alone: a reference out of it is an
// error, since nothing is ever fetched.
func ParseForeign(src []byte) (*Foreign, error) {
	const name = "foreign.json"
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.AssertFormat = true
	c.LoadURL = func(url string) (io.ReadCloser, error) {
		return nil, fmt.Errorf("the schema refers to %q: it must stand alone", url)
	}
	// The library checks the schema as well: no number of it may be one at which
	// it panics, or which it would drop.
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	var doc any
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if bad := appendOutOfRange(nil, doc, ""); len(bad) > 0 {
		return nil, bad[0]
	}
	if err := c.AddResource(base+name, bytes.NewReader(src)); err != nil {
		return nil, err
	}
	s, err := c.Compile(base + name)
	if err != nil {
		return nil, err
	}
	return &Foreign{s}, nil
}

// Validate returns every violation, sorted by pointer.
func (f *Foreign) Validate(doc any) []Violation {
	vs, err := violations(ask(f.s, doc))
	if err != nil {
		return []Violation{{Message: err.Error()}}
	}
	return vs
}
