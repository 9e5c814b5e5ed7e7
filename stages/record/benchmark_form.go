package record

import (
	"encoding/json"
	"sync"

	"anvil/schemas"
)

// A form is a part of the schema of benchmark records: the members that it lists
// and those that it requires.
type form struct {
	Required   []string
	Properties map[string]*form
	Defs       map[string]*form `json:"$defs"`
}

// benchmarkForm is the whole schema, decoded once. Of one that cannot be read it
// is empty, and every check reports it as schema.missing.
var benchmarkForm = sync.OnceValue(func() *form {
	f := &form{}
	if src, err := schemas.Table(BenchmarkSchema.FileName()); err != nil || json.Unmarshal(src, f) != nil {
		return &form{}
	}
	return f
})

// property is the form of a member, empty where there is none.
func (f *form) property(name string) *form {
	if p := f.Properties[name]; p != nil {
		return p
	}
	return &form{}
}

// def is the form of a definition, empty where there is none.
func (f *form) def(name string) *form {
	if p := f.Defs[name]; p != nil {
		return p
	}
	return &form{}
}
