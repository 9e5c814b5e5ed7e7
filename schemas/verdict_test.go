package schemas

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"pgregory.net/rapid"
)

// Whatever is judged without the library, the library says the same. The values
// are grown from each schema, so that most keys fit and many values do.
func TestVerdictsAreTheLibrarys(t *testing.T) {
	judged := 0
	for _, id := range List() {
		s, err := Compile(id)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[verdict]int{}
		rapid.Check(t, func(rt *rapid.T) {
			v := grow(rt, []*jsonschema.Schema{s}, 0)
			got, err := judge(s, v), s.Validate(v)
			seen[got]++
			switch {
			case got == accepted && err != nil:
				rt.Fatalf("%s: accepted %s\n%#v", id, AppendJSON(nil, v), err)
			case got == refused && err == nil:
				rt.Fatalf("%s: refused %s", id, AppendJSON(nil, v))
			}
		})
		if seen[accepted] > 0 {
			judged++
		}
	}
	if judged < 10 { // 24 to 29 are usual
		t.Errorf("only of %d schemas was anything accepted", judged)
	}
}

func TestVerdictsOfSingleRules(t *testing.T) {
	for _, c := range []struct {
		schema, value string
		want          verdict
	}{
		{`true`, `1`, accepted},
		{`false`, `1`, refused},
		{`{"type": "integer"}`, `1`, accepted},
		{`{"type": "integer"}`, `1.0`, unsure}, // the library takes it, plans do not
		{`{"type": "number"}`, `1e400000000`, unsure},
		{`{"minimum": 0.1}`, `0.10`, accepted},
		{`{"exclusiveMinimum": 0.1}`, `0.10`, refused},
		{`{"const": 1}`, `1.0`, accepted},
		{`{"enum": [null, "a"]}`, `null`, accepted},
		{`{"enum": [null, "a"]}`, `[]`, unsure},
		{`{"uniqueItems": true}`, `["a", "b", "a"]`, refused},
		{`{"uniqueItems": true}`, `[[], []]`, unsure},
		{`{"format": "anvil-size"}`, `"64KiB"`, accepted},
		{`{"format": "anvil-size"}`, `"64 KiB"`, refused},
		{`{"format": "date-time"}`, `"2026-11-30T10:00:00Z"`, unsure},
		{`{"not": {"type": "null"}}`, `null`, refused},
		{`{"oneOf": [{"type": "string"}, {"minLength": 2}]}`, `"a"`, accepted},
		{`{"oneOf": [{"type": "string"}, {"minLength": 2}]}`, `"aa"`, refused},
		{`{"unevaluatedProperties": false, "allOf": [{"if": {"required": ["a"]}, "then": {"properties": {"b": true}}}]}`, `{"b": 1}`, refused},
		{`{"unevaluatedProperties": false, "properties": {"a": true}, "allOf": [{"if": {"required": ["a"]}, "then": {"properties": {"b": true}}}]}`, `{"a": 1, "b": 1}`, accepted},
		{`{"unevaluatedProperties": false, "allOf": [{"unevaluatedProperties": true}]}`, `{"a": 1}`, accepted},
		{`{"unevaluatedProperties": false, "anyOf": [{"properties": {"a": true}}]}`, `{"a": 1}`, unsure},
		{`{"propertyNames": {"pattern": "^a"}}`, `{"b": 1}`, refused},
	} {
		src := c.schema
		if src == "true" || src == "false" {
			src = `{"allOf": [` + src + `]}`
		}
		v := decodeText(t, c.value)
		s := compileText(t, src)
		if got := judge(s, v); got != c.want {
			t.Errorf("%s on %s: got %d, want %d", c.schema, c.value, got, c.want)
		}
		if strings.Contains(c.value, "e4") {
			continue // the library never ends on it
		}
		if err := s.Validate(v); c.want != unsure && (err == nil) != (c.want == accepted) {
			t.Errorf("%s on %s: the library says %v", c.schema, c.value, err)
		}
	}
}

// grow draws a value that the schemas given may well accept.
func grow(t *rapid.T, given []*jsonschema.Schema, depth int) any {
	if rapid.IntRange(0, 39).Draw(t, "odd") == 0 || depth > 6 {
		return rapid.SampledFrom([]any{nil, true, "", "x", "5m", json.Number("1"), json.Number("2.5"), json.Number("-3"), json.Number("1.0"), map[string]any{}, []any{}, map[string]any{"odd": nil}}).Draw(t, "value")
	}
	given = spread(nil, given)
	var types []string
	for _, s := range given {
		switch {
		case len(s.Constant) > 0:
			return s.Constant[0]
		case len(s.Enum) > 0:
			return rapid.SampledFrom(s.Enum).Draw(t, "enum")
		case len(s.OneOf)+len(s.AnyOf) > 0:
			union := slices.Concat(s.OneOf, s.AnyOf)
			return grow(t, []*jsonschema.Schema{rapid.SampledFrom(union).Draw(t, "member")}, depth)
		}
		types = append(types, s.Types...)
	}
	if len(types) == 0 {
		types = []string{"object", "string"}
	}
	switch rapid.SampledFrom(types).Draw(t, "type") {
	case "object":
		return growObject(t, given, depth)
	case "array":
		list := []any{}
		for range rapid.IntRange(0, 2).Draw(t, "items") {
			list = append(list, grow(t, item(given, len(list)), depth+1))
		}
		return list
	case "string":
		return rapid.SampledFrom([]string{"a", "text", "30s", "64KiB", "x-y", strings.Repeat("0", 64), "2026-11-30T10:00:00Z"}).Draw(t, "text")
	case "integer":
		return json.Number(rapid.SampledFrom([]string{"0", "1", "2", "100", "-1"}).Draw(t, "integer"))
	case "number":
		return json.Number(rapid.SampledFrom([]string{"0", "0.5", "1", "1.5", "-1"}).Draw(t, "number"))
	case "boolean":
		return rapid.Bool().Draw(t, "boolean")
	}
	return nil
}

func growObject(t *rapid.T, given []*jsonschema.Schema, depth int) any {
	m, decided := map[string]any{}, map[string]bool{}
	for range 3 { // what stands there brings further keys
		known := applying(given, m)
		for _, name := range keysOf(known) {
			if decided[name] {
				continue
			}
			decided[name] = true
			required := slices.ContainsFunc(known, func(s *jsonschema.Schema) bool { return slices.Contains(s.Required, name) })
			if n := rapid.IntRange(0, 29).Draw(t, "take"); required && n > 0 || n > 24 {
				m[name] = grow(t, property(known, name), depth+1)
			}
		}
	}
	for _, s := range given {
		if extra, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && rapid.Bool().Draw(t, "extra") {
			m["extra"] = grow(t, []*jsonschema.Schema{extra}, depth+1)
		}
	}
	if rapid.IntRange(0, 29).Draw(t, "stranger") == 0 {
		m["stranger"] = true
	}
	return m
}

// spread adds what the schemas refer to and what else must hold.
func spread(out, given []*jsonschema.Schema) []*jsonschema.Schema {
	for _, s := range given {
		out = append(out, s)
		for _, t := range append([]*jsonschema.Schema{s.Ref}, s.AllOf...) {
			if t != nil {
				out = spread(out, []*jsonschema.Schema{t})
			}
		}
	}
	return out
}
