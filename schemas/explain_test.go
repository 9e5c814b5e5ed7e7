package schemas

import "testing"

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
