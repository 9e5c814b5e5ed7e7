// Package schemas is the only home of JSON shapes: every schema of a plan, a
// kind's configuration, an artifact or a command's document, embedded.
//
// A schema file is named after its id: anvil.plan/v1 stands in
// plan.v1.schema.json, anvil-serving.benchmark/v1 in
// anvil-serving.benchmark.v1.schema.json. Each says its id as "x-anvil-id";
// schemas refer to each other by file name, so that an editor that opens one
// from disk finds the rest.
//
// Keywords of our own, on a property of a configuration schema:
//
//	x-anvil-key       "cosmetic" or "policy": the value stays out of the stage key
//	x-anvil-file      true: a path relative to the plan; the file is digested and stored
//	x-anvil-endpoint  true: the name of one of the plan's endpoints
//	x-anvil-resolved  true: set by the kind when the plan is read, never by the plan
//	x-anvil-like      true: the id of a stage of the plan; the stage that writes it is
//	                  multiplied with that one and does not depend on it
package schemas

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// An ID names a schema, for example "anvil.record/v1".
type ID string

//go:embed *.json
var files embed.FS

const suffix = ".schema.json"

// base is where the compiler thinks that the files lie; nothing is ever fetched.
const base = "anvil:///"

// FileName returns the name of the file that holds the schema.
func (id ID) FileName() string {
	name := strings.TrimPrefix(string(id), "anvil.")
	return strings.ReplaceAll(name, "/", ".") + suffix
}

// List returns the ids of all schemas, sorted.
func List() []ID {
	ids := make([]ID, 0, len(index()))
	for id := range index() {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Source returns the text of the schema.
func Source(id ID) ([]byte, error) {
	name, ok := index()[id]
	if !ok {
		return nil, fmt.Errorf("no schema %q", id)
	}
	return files.ReadFile(name)
}

// Table returns an embedded table that is not a schema, such as
// "limitations.json".
func Table(name string) ([]byte, error) { return files.ReadFile(name) }

// index maps each id to its file. It is built once, from the embedded files:
// a file whose id and name disagree is a fault of the build.
var index = sync.OnceValue(func() map[ID]string {
	names, err := fs.Glob(files, "*"+suffix)
	if err != nil {
		panic(err)
	}
	ids := make(map[ID]string, len(names))
	for _, name := range names {
		src, err := files.ReadFile(name)
		if err != nil {
			panic(err)
		}
		if id, ok := declaredID(src); ok {
			ids[id] = name
		}
	}
	return ids
})

var (
	mu       sync.Mutex // of what follows
	compiled = map[ID]*jsonschema.Schema{}
	assembly = newAssembler()
)

// Compile returns the compiled schema, compiling it at the first call. It is
// safe for concurrent use.
func Compile(id ID) (*jsonschema.Schema, error) {
	mu.Lock()
	defer mu.Unlock()
	if s, ok := compiled[id]; ok {
		return s, nil
	}
	name := id.FileName()
	src, err := files.ReadFile(name)
	if declared, _ := declaredID(src); err != nil || declared != id {
		return nil, fmt.Errorf("no schema %q", id)
	}
	s, err := assembly.at(base + name + "#")
	if err != nil {
		assembly = newAssembler() // what is half made must not be found
		return nil, fmt.Errorf("schema %s: %w", id, err)
	}
	compiled[id] = s
	return s, nil
}
