package schemas

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMembersOfAUnionAreNamedFromTheirOwnFile(t *testing.T) {
	s := compileText(t, `{
	  "properties": {"v": {"oneOf": [
	    {"$ref": "defs.schema.json#/$defs/duration"}, {"$ref": "#/$defs/word"}, {"type": "boolean"}
	  ]}},
	  "$defs": {"word": {"enum": ["now", "never"]}}
	}`)
	faults, err := faultsOf(s, decodeText(t, `{"v": []}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := `must be a duration, "now", "never" or true or false`; len(faults) != 1 || faults[0].Message != want {
		t.Errorf("%+v, want %s", faults, want)
	}
}

// faultsIn are the faults of a document as lines.
func faultsIn(t *testing.T, schema, doc string) []string {
	t.Helper()
	faults, err := faultsOf(compileText(t, schema), decodeText(t, doc))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range faults {
		lines = append(lines, f.Pointer+": "+f.Message+" ("+f.Hint+")")
	}
	return lines
}

const modes = `{
  "required": ["mode"], "unevaluatedProperties": false, "properties": {"mode": {"enum": ["one", "two", "three"]}, "size": {"enum": ["s", "m"]}},
  "allOf": [
    {"if": {"properties": {"mode": {"const": "one"}}, "required": ["mode"]}, "then": {"properties": {"a": {}, "b": {}}}},
    {"if": {"properties": {"mode": {"const": "two"}, "size": {"const": "s"}}, "required": ["mode", "size"]}, "then": {"properties": {"a": {}, "c": {}}}},
    {"if": {"properties": {"mode": {"const": "three"}, "size": {"const": "s"}}, "required": ["mode", "size"]}, "then": {"properties": {"c": {}}}}
  ]}`

func TestAKeyOutOfPlaceNamesAllThatItGoesWith(t *testing.T) {
	for doc, want := range map[string][]string{
		`{"mode": "three", "size": "s", "a": 1}`: {`/a: key "a" does not apply here (it goes with mode: one or two)`},
		`{"mode": "three", "size": "s", "b": 1}`: {`/b: key "b" does not apply here (it goes with mode: one)`},
		`{"mode": "one", "c": 1}`:                {`/c: key "c" does not apply here (it goes with size: s, mode: two or three)`},
		`{"mode": "two", "c": 1}`:                {`/c: key "c" does not apply here (it goes with size: s)`},
		`{"mode": "four", "a": 1}`:               {`/mode: must be one, two or three ()`},
		`{"a": 1, "c": 1}`:                       {`: missing key "mode" ()`},
	} {
		if diff := cmp.Diff(want, faultsIn(t, modes, doc)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", doc, diff)
		}
	}
}

func TestAValueHasOneFaultAndItsRemedy(t *testing.T) {
	const schema = `{"properties": {
	  "wait": {"oneOf": [{"$ref": "defs.schema.json#/$defs/duration"}, {"type": "null"}]},
	  "size": {"type": ["integer", "string"], "format": "anvil-size", "minimum": 1, "pattern": "[1-9]"},
	  "many": {"type": "object", "minProperties": 2, "description": "two of them"},
	  "some": {"type": "array", "minItems": 2, "uniqueItems": true}
	}}`
	for doc, want := range map[string][]string{
		`{"wait": 5}`:        {`/wait: must be a duration or null (for example "30s" or "5m")`},
		`{"wait": "-5s"}`:    {`/wait: must not be negative (for example "30s" or "5m")`},
		`{"wait": "5"}`:      {`/wait: must be a duration (for example "30s" or "5m")`},
		`{"size": "much"}`:   {`/size: must be a size (bytes, or for example "64KiB")`},
		`{"size": "0B"}`:     {`/size: must match [1-9] ()`},
		`{"size": true}`:     {`/size: must be an integer or a size, not true (bytes, or for example "64KiB")`},
		`{"many": {"a": 1}}`: {`/many: must have at least 2 keys (two of them)`},
		`{"some": [1]}`:      {`/some: must have at least 2 items ()`},
	} {
		if diff := cmp.Diff(want, faultsIn(t, schema, doc)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", doc, diff)
		}
	}
}
