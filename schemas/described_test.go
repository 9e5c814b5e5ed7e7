package schemas

import (
	"encoding/json"
	"io/fs"
	"strings"
	"testing"
)

// A schema is the specification of its format: every field says what it means,
// itself or through what it refers to. Branches that narrow a field that is
// described elsewhere (if, then, allOf, the protocols of the benchmark record)
// need not say it again.
func TestEveryFieldIsDescribed(t *testing.T) {
	d := describing{t: t, files: map[string]map[string]any{}}
	names, err := fs.Glob(files, "*.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		src, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := json.Unmarshal(src, &doc); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		d.files[name] = doc
	}
	for name, doc := range d.files {
		d.walk(name, "", doc)
	}
	if d.fields < 500 {
		t.Errorf("looked at %d fields: the walk misses most of them", d.fields)
	}
}

type describing struct {
	t      *testing.T
	files  map[string]map[string]any
	fields int
}

func (d *describing) walk(file, at string, v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			d.walk(file, at, e)
		}
	case map[string]any:
		fields, _ := v["properties"].(map[string]any)
		for name, s := range fields {
			d.fields++
			if !d.described(file, s, 0) {
				d.t.Errorf("%s: %s/%s has no description", file, at, name)
			}
		}
		for name, s := range v {
			switch name {
			case "default", "const", "enum", "examples", "if", "then", "else", "not", "allOf":
				continue
			case "$defs":
				if strings.HasPrefix(file, "anvil-serving.") {
					continue
				}
			}
			d.walk(file, at+"/"+name, s)
		}
	}
}

func (d *describing) described(file string, v any, depth int) bool {
	s, ok := v.(map[string]any)
	if !ok || s["description"] != nil {
		return true
	}
	ref, ok := s["$ref"].(string)
	if !ok || depth > 8 {
		return false
	}
	name, pointer, _ := strings.Cut(ref, "#")
	if name == "" {
		name = file
	}
	var target any = d.files[name]
	for _, token := range Split(pointer) {
		m, _ := target.(map[string]any)
		target = m[token]
	}
	return target != nil && d.described(name, target, depth+1)
}
