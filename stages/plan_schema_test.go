package stages_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"anvil/pipeline/stage"
	"anvil/schemas"
	"anvil/stages"
)

var updateSchema = flag.Bool("update", false, "write schemas/plan.v1.schema.json anew")

// The schema that editors use is made from the plan's own, the endpoint's and
// those of the kinds; a kind that changes its configuration shows up here.
func TestPlanSchemaForEditorsIsCurrent(t *testing.T) {
	got := editorSchema(t, stages.All())
	file := filepath.Join("..", "schemas", schemas.ID("anvil.plan/v1").FileName())
	if *updateSchema {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, got) {
		t.Errorf("%s is out of date: go test ./stages -run PlanSchema -update", file)
	}
}

// An editing is one making of the editors' schema: every schema that is
// referred to becomes a definition, and every field that is no plain text also
// takes a reference such as "${params.rate}".
type editing struct {
	t    *testing.T
	defs map[string]any
}

func editorSchema(t *testing.T, kinds stage.Set) []byte {
	t.Helper()
	e := &editing{t: t, defs: map[string]any{
		"reference": map[string]any{"type": "string", "pattern": `\$\{(params|matrix|env)\.[^}]+\}`, "description": "a reference to a parameter, an axis or a variable"},
	}}
	top := e.loosen(e.load(schemas.ID("anvil.plan-top/v1").FileName()), "plan-top.v1.schema.json").(map[string]any)
	properties := top["properties"].(map[string]any)
	endpoints := properties["endpoints"].(map[string]any)
	endpoints["additionalProperties"] = e.define(schemas.ID("anvil.endpoint/v1").FileName(), "")
	stageFile := schemas.ID("anvil.plan-stage/v1").FileName()
	item := e.loosen(e.load(stageFile), stageFile).(map[string]any)
	properties["stages"].(map[string]any)["items"] = item
	names := make([]string, 0, len(kinds))
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	var perKind []any
	for _, name := range names {
		file := kinds[name].Spec().Config.FileName()
		then := map[string]any{"properties": map[string]any{"with": e.define(file, "")}}
		if needs, ok := e.load(file)["required"].([]any); ok && len(needs) > 0 {
			then["required"] = []string{"with"}
		}
		perKind = append(perKind, map[string]any{
			"if":   map[string]any{"properties": map[string]any{"uses": map[string]any{"const": name}}, "required": []string{"uses"}},
			"then": then,
		})
	}
	item["allOf"] = perKind
	item["properties"].(map[string]any)["uses"] = map[string]any{"enum": names, "description": "kind of the stage"}
	top["x-anvil-id"] = "anvil.plan/v1"
	top["title"] = "A plan as it is written, for editors; made from the schemas of plan-top, plan-stage, endpoint and the kinds"
	top["$comment"] = "generated: go test ./stages -run PlanSchema -update"
	top["$defs"] = e.defs
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(top); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func (e *editing) load(file string) map[string]any {
	e.t.Helper()
	src, err := schemas.Table(file)
	if err != nil {
		e.t.Fatal(err)
	}
	var doc map[string]any
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		e.t.Fatalf("%s: %v", file, err)
	}
	return doc
}

// define makes a definition of what stands at a pointer into a schema file and
// returns the reference to it.
func (e *editing) define(file, pointer string) map[string]any {
	name := strings.TrimSuffix(file, ".schema.json")
	if tokens := schemas.Split(pointer); len(tokens) > 0 {
		name += "." + tokens[len(tokens)-1]
	}
	if _, ok := e.defs[name]; !ok {
		e.defs[name] = true // while it is made, it may refer to itself
		var v any = e.load(file)
		for _, token := range schemas.Split(pointer) {
			v = v.(map[string]any)[token]
		}
		e.defs[name] = e.loosen(v, file)
	}
	return map[string]any{"$ref": "#/$defs/" + name}
}

// loosen copies a schema for editors.
func (e *editing) loosen(v any, file string) any {
	s, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for key, v := range s {
		switch key {
		case "$ref":
			name, pointer, _ := strings.Cut(v.(string), "#")
			if name == "" {
				name = file
			}
			out["$ref"] = e.define(name, pointer)["$ref"]
		case "properties":
			out[key] = e.properties(v.(map[string]any), file)
		case "items", "additionalProperties", "then", "else":
			out[key] = e.loosen(v, file)
		case "allOf", "anyOf", "oneOf", "prefixItems":
			if key == "oneOf" {
				key = "anyOf" // a reference may be meant as any member
			}
			out[key] = e.each(v.([]any), file)
		case "$defs", "x-anvil-id", "$schema":
		default:
			if !strings.HasPrefix(key, "x-anvil-") {
				out[key] = v
			}
		}
	}
	return e.orReference(out)
}

func (e *editing) each(list []any, file string) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = e.loosen(v, file)
	}
	return out
}

// properties leaves out what only a kind sets.
func (e *editing) properties(all map[string]any, file string) map[string]any {
	out := map[string]any{}
	for name, v := range all {
		if s, ok := v.(map[string]any); ok && s["x-anvil-resolved"] == true {
			continue
		}
		out[name] = e.loosen(v, file)
	}
	return out
}

// orReference lets a field that is no free text take a reference too.
func (e *editing) orReference(s map[string]any) map[string]any {
	narrow := s["enum"] != nil || s["pattern"] != nil || s["format"] != nil
	switch t := s["type"].(type) {
	case string:
		narrow = narrow || t == "integer" || t == "number" || t == "boolean"
	case []any:
		narrow = narrow || !slices.Contains(t, any("string"))
	}
	if !narrow {
		return s
	}
	out := map[string]any{}
	for _, key := range []string{"description", "default"} {
		if v, ok := s[key]; ok {
			out[key] = v
			delete(s, key)
		}
	}
	out["anyOf"] = []any{s, map[string]any{"$ref": "#/$defs/reference"}}
	return out
}
