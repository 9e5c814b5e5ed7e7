package schemas

import (
	"encoding/json"
	"strings"
	"testing"
)

// extremes are numbers that JSON allows and no double holds, or that only the
// spelling makes so large that an exact fraction of them takes seconds.
var extremes = []string{
	"1e2000000", "-1e2000000", "1e-2000000", "0e99999999999999999999", "1e309", "1E+1000001", "1e999999",
	"1" + strings.Repeat("0", 400), "1." + strings.Repeat("0", 1_000_001), "0." + strings.Repeat("0", 1_000_001) + "1",
}

// numeric are schemas each of which makes the library look at a number.
var numeric = []string{
	`{"properties": {"n": {"type": "integer"}}}`, `{"properties": {"n": {"minimum": 1}}}`, `{"properties": {"n": {"exclusiveMaximum": 1}}}`,
	`{"properties": {"n": {"const": 1}}}`, `{"properties": {"n": {"enum": [1, 2]}}}`, `{"properties": {"n": {"multipleOf": 2}}}`,
	`{"properties": {"list": {"uniqueItems": true}}}`, `{"if": {"properties": {"n": {"const": 3}}}, "then": {"required": ["x"]}}`,
	`{"not": {"properties": {"n": {"const": 3}}}}`, `{"oneOf": [{"properties": {"n": {"const": 3}}}, {"required": ["y"]}]}`,
}

func TestForeignSchemasRefuseNumbersThatNoDoubleHolds(t *testing.T) {
	for _, schema := range numeric {
		f, err := ParseForeign([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range extremes {
			vs := f.Validate(decodeText(t, `{"list": [1, 2], "n": `+n+`}`))
			if len(vs) != 1 || vs[0].Pointer != "/n" || vs[0].Message != outOfRange {
				t.Errorf("%s of %.20s: %v, want one violation at /n", schema, n, vs)
			}
		}
		if vs := f.Validate(decodeText(t, `{"list": [1e300, -1e-320, 0.0e5], "x": 1}`)); len(vs) > 1 || len(vs) == 1 && vs[0].Message == outOfRange {
			t.Errorf("%s: numbers that a double holds: %v", schema, vs)
		}
	}
}

func TestForeignSchemasOfSuchNumbersAreRefused(t *testing.T) {
	for _, keyword := range []string{"minimum", "multipleOf", "const", "maxLength"} {
		for _, n := range extremes {
			if _, err := ParseForeign([]byte(`{"` + keyword + `": ` + n + `}`)); err == nil || !strings.Contains(err.Error(), outOfRange) {
				t.Errorf("%s: %.20s: %v, want an error that says what a number must be", keyword, n, err)
			}
		}
	}
}

func TestDocumentsRefuseNumbersThatNoDoubleHolds(t *testing.T) {
	for _, n := range extremes {
		doc := decodeText(t, `{"schema": "anvil.weights-manifest/v1", "files": [{"path": "a", "size": `+n+`, "sha256": "x"}]}`)
		vs, err := Validate("anvil.weights-manifest/v1", doc)
		if err != nil || len(vs) != 1 || vs[0].Pointer != "/files/0/size" {
			t.Errorf("%.20s: %v %v, want one violation at /files/0/size", n, vs, err)
		}
	}
	// Also where no rule looks at them: whoever reads the document would fail.
	if vs, _ := Validate("anvil.limitations/v1", decodeText(t, `[{"more": 1e400}]`)); len(vs) != 1 || vs[0].Pointer != "/0/more" {
		t.Errorf("an unknown member: %v", vs)
	}
}

func TestFaultsNameNumbersThatNoDoubleHoldsBesideUnknownKeys(t *testing.T) {
	for _, n := range extremes {
		doc, ok := decodeText(t, `{"like": "m", "level": `+n+`, "what": 1}`).(map[string]any)
		if !ok {
			t.Fatal("no object")
		}
		if err := Fill("anvil.validate-config/v1", doc); err != nil {
			t.Fatal(err)
		}
		fs, err := Faults("anvil.validate-config/v1", doc)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range fs {
			found = found || f.Pointer == "/level" && f.Message == outOfRange && f.Hint != ""
		}
		if !found || len(fs) < 3 {
			t.Errorf("%.20s: %+v, want one at /level and the two unknown keys", n, fs)
		}
	}
}

// FuzzForeign: no answer and no schema makes the checking panic.
func FuzzForeign(f *testing.F) {
	for _, schema := range numeric {
		f.Add([]byte(schema), []byte(`{"n": 1e2000000, "list": [1e-2000000, 1]}`))
	}
	f.Add([]byte(`{"multipleOf": 1e2000000}`), []byte(`1`))
	f.Add([]byte(`{"type": ["integer", "null"]}`), []byte(`0e99999999999999999999`))
	f.Fuzz(func(t *testing.T, schema, answer []byte) {
		if len(schema)+len(answer) > 1<<12 {
			t.Skip()
		}
		s, err := ParseForeign(schema)
		if err != nil {
			return
		}
		dec := json.NewDecoder(strings.NewReader(string(answer)))
		dec.UseNumber()
		var doc any
		if dec.Decode(&doc) != nil {
			return
		}
		s.Validate(doc)
	})
}
