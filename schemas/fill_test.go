package schemas

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v5"
	"pgregory.net/rapid"
)

func compileText(t *testing.T, src string) *jsonschema.Schema {
	t.Helper()
	c := newCompiler()
	if err := c.AddResource(base+"test.schema.json", strings.NewReader(src)); err != nil {
		t.Fatal(err)
	}
	documents.Store("test.schema.json", decodeText(t, src)) // as if it were embedded
	t.Cleanup(func() { documents.Delete("test.schema.json") })
	s, err := c.Compile(base + "test.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func decodeText(t *testing.T, src string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(src))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

const filling = `{
  "type": "object", "additionalProperties": false, "required": ["load"],
  "properties": {
    "title": {"type": "string", "default": "", "x-anvil-key": "cosmetic"},
    "nothing": {"type": ["string", "null"], "default": null},
    "open": {"type": "integer"},
    "limits": {"type": "object", "default": {}, "properties": {"gap": {"$ref": "defs.schema.json#/$defs/duration", "default": "2m", "x-anvil-key": "policy"}}},
    "load": {
      "type": "object", "unevaluatedProperties": false, "required": ["mode"],
      "properties": {"mode": {"enum": ["closed", "open"]}},
      "allOf": [
        {"if": {"properties": {"mode": {"const": "closed"}}, "required": ["mode"]}, "then": {"required": ["n"], "properties": {"n": {"type": "integer"}, "ramp": {"type": "string", "default": "0s"}}}},
        {"if": {"properties": {"mode": {"const": "open"}}, "required": ["mode"]}, "then": {"properties": {"arrival": {"enum": ["step", "constant"], "default": "constant"}}}},
        {"if": {"properties": {"mode": {"const": "open"}, "arrival": {"const": "constant"}}, "required": ["mode", "arrival"]}, "then": {"properties": {"rate": {"type": "number", "default": 1.50}}}}
      ]
    },
    "canary": {"oneOf": [{"const": "off"}, {"type": "object", "properties": {"prompts": {"type": "integer", "default": 3}}}], "default": {}},
    "parts": {"type": "array", "default": [], "items": {"oneOf": [
      {"type": "object", "additionalProperties": false, "required": ["name", "path"], "properties": {"name": {"type": "string"}, "path": {"type": "string", "x-anvil-file": true}, "local": {"type": "boolean", "default": true}}},
      {"type": "object", "additionalProperties": false, "required": ["name", "ssh"], "properties": {"name": {"type": "string"}, "ssh": {"type": "string"}, "port": {"type": "integer", "default": 22}}}
    ]}}
  }
}`

func TestFillSetsEveryDefaultThatApplies(t *testing.T) {
	s := compileText(t, filling)
	for _, c := range []struct{ name, in, want string }{
		{"nested and null", `{}`, `{"title": "", "nothing": null, "limits": {"gap": "2m"}, "canary": {"prompts": 3}, "parts": []}`},
		{
			"what is written stays", `{"title": "x", "limits": {"gap": "1s"}, "canary": "off"}`,
			`{"title": "x", "nothing": null, "limits": {"gap": "1s"}, "canary": "off", "parts": []}`,
		},
		{
			"a condition", `{"load": {"mode": "closed"}}`,
			`{"load": {"mode": "closed", "ramp": "0s"}, "title": "", "nothing": null, "limits": {"gap": "2m"}, "canary": {"prompts": 3}, "parts": []}`,
		},
		{
			"a default that meets a condition", `{"load": {"mode": "open"}}`,
			`{"load": {"mode": "open", "arrival": "constant", "rate": 1.50}, "title": "", "nothing": null, "limits": {"gap": "2m"}, "canary": {"prompts": 3}, "parts": []}`,
		},
		{
			"members of a union", `{"parts": [{"name": "a", "path": "p"}, {"name": "b", "ssh": "h"}]}`,
			`{"parts": [{"name": "a", "path": "p", "local": true}, {"name": "b", "ssh": "h", "port": 22}], "title": "", "nothing": null, "limits": {"gap": "2m"}, "canary": {"prompts": 3}}`,
		},
		{"what does not fit stays", `{"limits": 5, "parts": [7], "load": []}`, `{"limits": 5, "parts": [7], "load": [], "title": "", "nothing": null, "canary": {"prompts": 3}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := decodeText(t, c.in)
			fill([]*jsonschema.Schema{s}, doc)
			if diff := cmp.Diff(decodeText(t, c.want), doc); diff != "" {
				t.Errorf("filled (-want +got):\n%s", diff)
			}
		})
	}
}

// A default that was filled into one document is not seen by the next.
func TestDefaultsAreCopied(t *testing.T) {
	s := compileText(t, filling)
	a, b := map[string]any{}, map[string]any{}
	fill([]*jsonschema.Schema{s}, a)
	a["limits"].(map[string]any)["gap"] = "changed"
	fill([]*jsonschema.Schema{s}, b)
	if got := b["limits"].(map[string]any)["gap"]; got != "2m" {
		t.Errorf("gap is %v", got)
	}
}

func TestMarksAreFoundInBranches(t *testing.T) {
	s := compileText(t, filling)
	doc := decodeText(t, `{"title": "x", "load": {"mode": "closed", "n": 1}, "limits": {"gap": "1s"}, "parts": [{"name": "b", "ssh": "h"}, {"name": "a", "path": "p"}]}`)
	var got []string
	for _, m := range newMarker(s).append(nil, []*jsonschema.Schema{s}, doc, "") {
		got = append(got, fmt.Sprintf("%s %v %s file=%v", m.Pointer, m.Value, m.Marks.Key, m.Marks.File))
	}
	want := []string{"/limits/gap 1s policy file=false", "/parts/1/path p  file=true", "/title x cosmetic file=false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
}

// A search that leaves out what can lead to no mark finds what a search of
// everything finds.
func TestNoMarkIsMissedByLookingOnlyWhereTheyCanBe(t *testing.T) {
	grade, err := Compile("anvil.grade-config/v1")
	if err != nil {
		t.Fatal(err)
	}
	for in, s := range map[string]*jsonschema.Schema{
		`{"title": "x", "load": {"mode": "closed", "n": 1}, "limits": {"gap": "1s"}, "parts": [{"name": "b", "ssh": "h"}, {"name": "a", "path": "p"}]}`: compileText(t, filling),
		`{"dataset": "d", "graders": [{"id": "a", "type": "contains", "any": ["x"]}, {"id": "b", "type": "json", "schema": "f"},
		  {"id": "c", "type": "all", "of": [{"id": "d", "type": "tool_call", "arguments": "g"}]}]}`: grade,
	} {
		doc := decodeText(t, in)
		fill([]*jsonschema.Schema{s}, doc)
		everything := marker{bearing: map[*jsonschema.Schema]bool{s: true}}
		for todo := []*jsonschema.Schema{s}; len(todo) > 0; {
			next := below(todo[0])
			todo = todo[1:]
			for _, t := range next {
				if !everything.bearing[t] {
					everything.bearing[t] = true
					todo = append(todo, t)
				}
			}
		}
		want := everything.append(nil, []*jsonschema.Schema{s}, doc, "")
		got := newMarker(s).append(nil, []*jsonschema.Schema{s}, doc, "")
		if diff := cmp.Diff(want, got); diff != "" || len(want) < 2 {
			t.Errorf("%s: %d marks (-everything +got):\n%s", in, len(want), diff)
		}
	}
}

func TestFaultsNameEachKeyAndOnlyTheMemberThatWasMeant(t *testing.T) {
	s := compileText(t, filling)
	for _, c := range []struct {
		in   string
		want []string
	}{
		{`{"load": {"mode": "closed", "n": 1}}`, nil},
		{`{"titel": "x"}`, []string{`: missing key "load"`, `/titel: unknown key "titel" (did you mean "title"?)`}},
		{`{"load": {"mode": "closed", "rate": 1}}`, []string{`/load: missing key "n"`, `/load/rate: key "rate" does not apply here (it goes with arrival: constant, mode: open)`}},
		{`{"load": {"mode": "clsed"}}`, []string{`/load/mode: must be closed or open (did you mean "closed"?)`}},
		{`{"load": {"mode": "opn", "n": 1, "rate": 2, "x": 3}}`, []string{`/load/mode: must be closed or open (did you mean "open"?)`, `/load/x: unknown key "x" (known: mode)`}},
		{`{"load": {"mode": "closed", "n": 1.0}, "open": 2.5}`, []string{"/load/n: must be an integer (write it without a fraction)", "/open: must be an integer (write it without a fraction)"}},
		{`{"load": {"mode": "closed", "n": 1}, "parts": [{"name": "a"}, {"name": "a", "ssh": 5}, {"name": "a", "ssh": "h", "prot": 1}, "x"]}`, []string{
			"/parts/0: must be a mapping with name, path or a mapping with name, ssh",
			`/parts/1/ssh: must be text, not a number (write "5")`,
			`/parts/2/prot: unknown key "prot" (did you mean "port"?)`,
			"/parts/3: must be a mapping with name, path or a mapping with name, ssh",
		}},
		{`{"load": {"mode": "closed", "n": 1}, "canary": "of", "limits": {"gap": 30}}`, []string{
			`/canary: must be "off" or a mapping`,
			`/limits/gap: must be a duration, not a number (for example "30s" or "5m")`,
		}},
		{`{"load": {"mode": "closed", "n": 1, "a~/b c%": 1}}`, []string{`/load/a~0~1b c%: unknown key "a~/b c%" (known: mode, n, ramp)`}},
	} {
		faults, err := faultsOf(s, decodeText(t, c.in))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range faults {
			text := f.Pointer + ": " + f.Message
			if f.Hint != "" {
				text += " (" + f.Hint + ")"
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("faults of %s (-want +got):\n%s", c.in, diff)
		}
	}
}

// The kept parts of a Checker never show: it answers as the plain functions do,
// in any order of documents.
func TestCheckerAnswersAsThePlainFunctions(t *testing.T) {
	const id = "anvil.endpoint/v1"
	checker, err := NewChecker(id)
	if err != nil {
		t.Fatal(err)
	}
	if !checker.InParts() {
		t.Fatal("the schema is not in parts; choose another for this test")
	}
	values := rapid.SampledFrom([]string{`null`, `"x"`, `5`, `1.0`, `true`, `{}`, `[]`, `{"slots": 2}`, `{"slots": "2"}`, `{"insecur": true}`, `{"ca_file": "f"}`, `"auto"`, `{"k": "v"}`})
	names := rapid.SampledFrom([]string{"base_url", "api", "model", "sim", "tls", "headers", "metrics", "extra_body", "unknown"})
	rapid.Check(t, func(rt *rapid.T) {
		a, b := map[string]any{}, map[string]any{}
		for range rapid.IntRange(0, 4).Draw(rt, "keys") {
			name, value := names.Draw(rt, "name"), values.Draw(rt, "value")
			a[name], b[name] = decodeText(t, value), decodeText(t, value)
		}
		faults, marks, err := checker.Check(a)
		if err != nil {
			rt.Fatal(err)
		}
		if err := Fill(id, b); err != nil {
			rt.Fatal(err)
		}
		wantFaults, err := Faults(id, b)
		if err != nil {
			rt.Fatal(err)
		}
		wantMarks, err := Marked(id, b)
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(b, a); diff != "" {
			rt.Fatalf("filled (-plain +checker):\n%s", diff)
		}
		if diff := cmp.Diff(wantFaults, sortFaults(faults)); diff != "" {
			rt.Fatalf("faults (-plain +checker):\n%s", diff)
		}
		if diff := cmp.Diff(wantMarks, marks); diff != "" {
			rt.Fatalf("marks (-plain +checker):\n%s", diff)
		}
		// What a caller does to a filled document is its own affair.
		for _, v := range a {
			if m, ok := v.(map[string]any); ok {
				m["spoilt"] = true
			}
		}
	})
}

func TestClosestSuggestsWhatWasMeant(t *testing.T) {
	known := []string{"closed", "open", "concurrency", "openai-chat", "max_tokens", "mode", "grade"}
	for word, want := range map[string]string{
		"clsoed": "closed", "concurency": "concurrency", "grde": "grade", "Mode": "mode", "max-tokens": "max_tokens", "openai": "openai-chat",
		"zebra": "", "": "", "x": "", strings.Repeat("a", 1000): "",
	} {
		if got, ok := Closest(word, known); got != want || ok != (want != "") {
			t.Errorf("Closest(%.20q) = %q, %v, want %q", word, got, ok, want)
		}
	}
}

func TestAppendJSONAgreesWithTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		v := map[string]any{s: []any{s, nil, true, json.Number("1.50"), int64(-7), map[string]any{"b": 1, "a": "<&>"}}}
		var got any
		if err := json.Unmarshal(AppendJSON(nil, v), &got); err != nil {
			t.Fatalf("%s: %v", AppendJSON(nil, v), err)
		}
		plain, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var want any
		if err := json.Unmarshal(plain, &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-library +ours:\n%s", diff)
		}
	})
}
