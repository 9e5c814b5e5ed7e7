package shape

import (
	"strings"
	"testing"

	"anvil/stages/internal/jsontree"
)

// compileText compiles a schema that stands in no file.
func compileText(t *testing.T, text string) (*Schema, error) {
	t.Helper()
	v, err := jsontree.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c := compiler{files: map[string]any{}, refs: map[string]*Schema{}}
	return c.compile("none", v.Go(func(text string) any {
		var f float64
		for _, d := range text {
			f = f*10 + float64(d-'0')
		}
		return f
	}))
}

func TestViolationsSayWhatIsWanted(t *testing.T) {
	for schema, cases := range map[string]map[string]string{
		`{"required": ["a", "b/c"]}`:                  {`{}`: "/a is missing; /b~1c is missing", `{"a": 1, "b/c": null}`: ""},
		`{"type": "integer"}`:                         {`4`: "", `4.0`: " is 4.0, want integer", `"4"`: " is a string, want integer"},
		`{"type": ["integer", "null"], "minimum": 1}`: {`null`: "", `0`: " is below 1", `true`: " is a boolean, want integer or null"},
		`{"maximum": 1}`:                              {`1.5`: " is above 1"},
		`{"const": 100}`:                              {`100`: "", `100.0`: "", `99`: " want 100"},
		`{"enum": ["a", null]}`:                       {`"a"`: "", `null`: "", `"b"`: " want one of a, null"},
		`{"minLength": 1, "maxLength": 2}`:            {`"éé"`: "", `"ééé"`: " has 3 characters, want 1 to 2"},
		`{"pattern": "^x$"}`:                          {`"x"`: "", `"y"`: " does not match ^x$"},
		`{"properties": {"a": false}}`:                {`{"a": 1}`: "/a is not allowed here"},
		`{"additionalProperties": {"type": "null"}}`:  {`{"a": 1}`: "/a is 1, want null"},
		`{"propertyNames": {"pattern": "^[0-9]+$"}}`:  {`{"12": 1}`: "", `{"x": 1}`: `/x "x" is no name that may stand here`},
		`{"items": {"type": "null"}, "minItems": 2}`:  {`[null, null]`: "", `[1]`: "/0 is 1, want null;  has 1 elements, want at least 2"},
		`{"uniqueItems": true}`:                       {`[{"a": 1, "b": 2}, {"b": 2, "a": 1}]`: "/1 repeats an earlier element"},
		`{"oneOf": [{"type": "null"}, {"required": ["a"], "type": "object"}]}`:                  {`{}`: "/a is missing", `1`: " is 1, which is none of the forms that may stand here"},
		`{"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}`: {`{"a": 1}`: "/b is missing", `{}`: "/c is missing"},
		`{"not": {"type": "null"}}`: {`null`: " has a form that must not be here"},
		`{"format": "date-time"}`:   {`"2026-11-30T09:00:00.5Z"`: "", `"today"`: " is no RFC 3339 time"},
	} {
		s, err := compileText(t, schema)
		if err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
		for doc, want := range cases {
			v, err := jsontree.Parse([]byte(doc))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range s.Check(v, "", 100) {
				got = append(got, v.Pointer+" "+v.Text)
			}
			if text := strings.Join(got, "; "); text != want {
				t.Errorf("%s on %s: %q, want %q", schema, doc, text, want)
			}
			if s.Accepts(v) != (want == "") {
				t.Errorf("%s on %s: Accepts and Check differ", schema, doc)
			}
		}
	}
}

func TestUnknownKeywordsAreRefused(t *testing.T) {
	for _, schema := range []string{`{"multipleOf": 2}`, `{"properties": {"a": {"dependentRequired": {}}}}`, `{"format": "uri"}`, `{"enum": [[1]]}`} {
		if _, err := compileText(t, schema); err == nil {
			t.Errorf("%s compiled", schema)
		}
	}
}

func TestReferencesLeadSomewhere(t *testing.T) {
	if _, err := Fragment("anvil.attempts/v1", "#/$defs/nowhere"); err == nil {
		t.Error("a fragment that is not there compiled")
	}
	if _, err := Compile("anvil.nope/v9"); err == nil {
		t.Error("a schema that is not there compiled")
	}
}
