package jsontree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func asNumber(s string) any { return json.Number(s) }

func TestParseRefuses(t *testing.T) {
	for src, want := range map[string]struct {
		fault   Fault
		message string
	}{
		``:                            {Syntax, "line 1, column 1: the text ends"},
		"  \n ":                       {Syntax, "line 2, column 2: the text ends"},
		`{"a": 1`:                     {Syntax, "the text ends"},
		"{\n  \"a\": 1,\n  \"a\": 2}": {DuplicateKey, `line 3, column 3: duplicate key "a"`},
		`{"a":1,"\u0061":2}`:          {DuplicateKey, `duplicate key "a"`},
		`[NaN]`:                       {Syntax, "NaN is not JSON"},
		`[Infinity]`:                  {Syntax, "Infinity is not JSON"},
		`[-Infinity]`:                 {Syntax, "-Infinity is not JSON"},
		`1e400`:                       {NumberRange, "beyond a double"},
		strings.Repeat("9", 400):      {NumberRange, "beyond a double"},
		`01`:                          {Syntax, "leading zero"},
		`-`:                           {Syntax, "a digit"},
		`1.`:                          {Syntax, "a digit"},
		`1e`:                          {Syntax, "a digit"},
		`.5`:                          {Syntax, "a value"},
		`+1`:                          {Syntax, "a value"},
		`[1,]`:                        {Syntax, "a value"},
		`{"a":1,}`:                    {Syntax, "a key"},
		`{a:1}`:                       {Syntax, "a key"},
		`{} x`:                        {Syntax, "more after the end"},
		`nul`:                         {Syntax, "a value"},
		"\"a\nb\"":                    {Syntax, "control character"},
		`"\x"`:                        {Syntax, "unknown escape"},
		`"\u12"`:                      {Syntax, "unknown escape"},
		`"\ud800"`:                    {Surrogate, "other half"},
		`"\udc00\ud800"`:              {Surrogate, "other half"},
		`"\ud800\u0041"`:              {Surrogate, "other half"},
		"\"\xff\"":                    {UTF8, "UTF-8"},
		"\"\xed\xa0\x80\"":            {UTF8, "UTF-8"},
		"\xef\xbb\xbf{}":              {Syntax, "byte order mark"},
		strings.Repeat("[", 10_000):   {Depth, "deeper than 256"},
		`"abc`:                        {Syntax, "inside the string"},
	} {
		_, err := Parse([]byte(src))
		var e *Error
		if !errors.As(err, &e) || e.Fault != want.fault || !strings.Contains(err.Error(), want.message) {
			t.Errorf("Parse(%.40q): %v, want %s with %q", src, err, want.fault, want.message)
		}
	}
}

// The composed and the decomposed letter are two keys: bytes decide, as they do
// in a digest.
func TestKeysThatDifferInNormalizationAreTwo(t *testing.T) {
	v, err := Parse([]byte("{\"caf\u00e9\": 1, \"cafe\u0301\": 2}"))
	if err != nil {
		t.Fatal(err)
	}
	got := v.Go(asNumber)
	if diff := cmp.Diff(map[string]any{"caf\u00e9": asNumber("1"), "cafe\u0301": asNumber("2")}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseKeepsWhatIsWritten(t *testing.T) {
	src := `{"b": [6069.0, 1789665664243641356, -0, 1E5, {}], "a\n\u00e9\ud83d\ude00\"": null, "t": true}`
	v, err := Parse([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"b":       []any{json.Number("6069.0"), json.Number("1789665664243641356"), json.Number("-0"), json.Number("1E5"), map[string]any{}},
		"a\né😀\"": nil, "t": true,
	}
	if d := cmp.Diff(want, v.Go(asNumber)); d != "" {
		t.Errorf("values differ (-want +got):\n%s", d)
	}
	if n, ok := v.Get("b").Kind(), v.At("b", "x").Exists(); n != Array || ok {
		t.Errorf("b is %v, b.x exists: %v", n, ok)
	}
	got, err := Canonical(v)
	if err != nil {
		t.Fatal(err)
	}
	wantText := "{\n  \"a\\n\\u00e9\\ud83d\\ude00\\\"\": null,\n  \"b\": [\n    6069.0,\n    1789665664243641356,\n    -0,\n    1E5,\n    {}\n  ],\n  \"t\": true\n}\n"
	if d := cmp.Diff(wantText, string(got)); d != "" {
		t.Errorf("canonical form differs (-want +got):\n%s", d)
	}
}

func TestManyKeysMustDifferToo(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"k0":0`)
	for i := 1; i < 40; i++ {
		fmt.Fprintf(&b, `,"k%d":{"x":1,"y":2}`, i)
	}
	if _, err := Parse([]byte(b.String() + `}`)); err != nil {
		t.Errorf("different keys: %v", err)
	}
	if _, err := Parse([]byte(b.String() + `,"k0":1}`)); err == nil {
		t.Error("the 41st key repeats the first, no error")
	}
}

// The cases of records.md, "Number text", and Python's repr of their like.
func TestFloatText(t *testing.T) {
	for f, want := range map[float64]string{
		6069: "6069.0", 0: "0.0", 1.5e-05: "1.5e-05", 1e16: "1e+16", 9999999999999998: "9999999999999998.0", 0.0001: "0.0001",
		1e22: "1e+22", 21853.117: "21853.117", -0.5: "-0.5", 1e-7: "1e-07", 1.7976931348623157e308: "1.7976931348623157e+308", 5e-324: "5e-324",
	} {
		if got := string(AppendFloat(nil, f)); got != want {
			t.Errorf("AppendFloat(%g) = %s, want %s", f, got, want)
		}
	}
	if got := string(AppendFloat(nil, math.Copysign(0, -1))); got != "-0.0" {
		t.Errorf("AppendFloat(-0) = %s, want -0.0", got)
	}
}

func TestRenderRefusesNaN(t *testing.T) {
	_, err := Renderer{}.Render(Obj{{"metrics", Obj{{"a/b", math.NaN()}}}})
	if err == nil || !strings.Contains(err.Error(), "/metrics/a~1b") {
		t.Errorf("error %v, want one that names /metrics/a~1b", err)
	}
}

func TestStringsAreASCII(t *testing.T) {
	got := string(AppendString(nil, "<&>\x7f\x01\t\"\\/é\u2028😀"))
	want := `"<&>\u007f\u0001\t\"\\/\u00e9\u2028\ud83d\ude00"`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What is accepted is what encoding/json accepts, less what it mends silently;
// and the canonical form of a canonical form is itself.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.50,-0e1,"\u00e9\ud83d\ude00"],"b":{"c":null,"d":true}}`, `[[],{},""]`, `{"a":1,"a":2}`, `1e400`, "\"\xff\"", `NaN`, `"\ud800"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		v, err := Parse(src)
		if err != nil {
			return
		}
		if !json.Valid(src) {
			t.Fatalf("accepted %q, which is no JSON", src)
		}
		d := json.NewDecoder(bytes.NewReader(src))
		d.UseNumber()
		var want any
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, v.Go(asNumber)); d != "" {
			t.Fatalf("%q: values differ (-want +got):\n%s", src, d)
		}
		once, err := Canonical(v)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(once)
		if err != nil {
			t.Fatalf("canonical form %q: %v", once, err)
		}
		twice, err := Canonical(again)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("canonical forms differ: %q, %q, %v", once, twice, err)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	src := []byte(`{"a":[` + strings.Repeat(`9800000,5200000,`, 500) + `0],"text":"` + strings.Repeat("word ", 200) + `"}`)
	var d Doc
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Parse(src); err != nil {
			b.Fatal(err)
		}
	}
}
