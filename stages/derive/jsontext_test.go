package derive

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSameJSONIsStrict(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{`"1.10"`, `"1.1"`, false},
		{`"007"`, `"7"`, false},
		{`[1]`, `["1"]`, false},
		{`{"a":true}`, `{"a":"true"}`, false},
		{`{"a":null}`, `{}`, false},
		{`{"a":1}`, `{"a":1,"b":2}`, false},
		{`[1,2]`, `[1]`, false},
		{`[]`, `{}`, false},
		{`null`, `"null"`, false},
		{`"é"`, `"e\u0301"`, false},
		{`"a"`, `"A"`, false},
		{`9007199254740993`, `9007199254740992`, false},
		{`1`, `1.0`, true},
		{`-0`, `0.00`, true},
		{`1204416`, `1.204416e6`, true},
		{`1e-3`, `0.001`, true},
		{`100`, `1E+2`, true},
		{`1e-999999999`, `10e-1000000000`, true},
		{`1e-999999999`, `0`, false},
		{`1`, `-1`, false},
		{`{"b":[1,{"c":"x"}],"a":1}`, `{"a":1.0,"b":[1,{"c":"x"}]}`, true},
	} {
		a, b := mustDecode(t, tt.a), mustDecode(t, tt.b)
		if sameJSON(a, b) != tt.same || sameJSON(b, a) != tt.same {
			t.Errorf("%s and %s: same is %v, want %v", tt.a, tt.b, !tt.same, tt.same)
		}
	}
}

func mustDecode(t *testing.T, src string) any {
	t.Helper()
	v, err := decodeNumbers([]byte(src))
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	return v
}

// Against exact fractions, which small exponents allow.
func TestSameNumberIsEqualityOfValues(t *testing.T) {
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?([eE][+-]?[0-3])?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		x, _ := parseNumber(a)
		y, _ := parseNumber(b)
		if got, want := sameNumber(a, b), x.Cmp(y) == 0; got != want {
			t.Errorf("sameNumber(%s, %s) = %v, want %v", a, b, got, want)
		}
	})
}

func objectsIn(s string) []string {
	var out []string
	jsonObjects(s, func(from, to int, object map[string]any) { out = append(out, s[from:to]) })
	return out
}

func TestObjectsAreFoundBehindWhatLooksLikeThem(t *testing.T) {
	for _, before := range []string{
		strings.Repeat(`\frac{x}{y} `, 40), strings.Repeat(`\frac{x}{y} `, 20000), strings.Repeat("{", 1000), strings.Repeat(`{"a": `, 30),
		strings.Repeat(`{"a": {"b" `, 500), `{"text": "an open { in a text`, `{"a":1,"a":2} `,
	} {
		got := objectsIn(before + `{"owner":"Mara"}`)
		if len(got) == 0 || got[len(got)-1] != `{"owner":"Mara"}` {
			t.Errorf("behind %.20q: %.100q", before, got)
		}
	}
}

// Megabytes that would take quadratic time, which the test does not wait for.
func TestHostileAnswersAreReadInLinearTime(t *testing.T) {
	const size = 1 << 20
	for _, unit := range []string{"{", `{"`, `{"a":`, `{"{":`, "{ ", `{"a":[`, `{"a":1,"a":{`, "{}"} {
		hostile := strings.Repeat(unit, size/len(unit))
		if got := objectsIn(hostile); len(got) != 0 {
			t.Errorf("%d objects in a megabyte of %q", len(got), unit)
		}
	}
	if got := objectsIn(strings.Repeat(`{"":0}`, size/6)); len(got) != size/6 {
		t.Errorf("%d objects in a megabyte of small ones", len(got))
	}
}

func TestAmbiguousJSONIsNoAnswer(t *testing.T) {
	for _, src := range []string{`{"a":1,"a":1}`, `{"a":{"b":1,"\u0062":2}}`, `"\ud800"`, `1e400`, "\"\xff\"", `{} x`, ``} {
		if v, err := decodeAnswer(src); err == nil {
			t.Errorf("%q is read as %v", src, v)
		}
	}
	if v, err := decodeAnswer(` {"a": 9007199254740993} `); err != nil || fmt.Sprint(v) != "map[a:9007199254740993]" || v.(map[string]any)["a"] != json.Number("9007199254740993") {
		t.Errorf("%v, %v", v, err)
	}
}
