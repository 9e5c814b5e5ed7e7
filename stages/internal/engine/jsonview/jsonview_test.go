package jsonview

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseKnowsJSON(t *testing.T) {
	for in, want := range map[string]bool{
		`{}`: true, ` [1, 2.5, -0, 1e5, 1E-2] `: true, `null`: true, `"a\"\u00e9\\"`: true, `{"a":{"b":[{}]},"a":1}`: true,
		``: false, `{`: false, `{"a"}`: false, `{"a":}`: false, `{"a":1,}`: false, `[1,]`: false, `[,]`: false, `01`: false, `1.`: false,
		`.5`: false, `+1`: false, `1e`: false, `nul`: false, `NaN`: false, `Infinity`: false, `"\x"`: false, `"\u12g4"`: false, "\"\n\"": false,
		`"a`: false, `"\`: false, `{"a":1} x`: false, `{a:1}`: false, `{'a':1}`: false, `-`: false, `1e400`: true,
		strings.Repeat("[", 200) + strings.Repeat("]", 200):   true,
		strings.Repeat("[", 1e6):                              false,
		strings.Repeat("[", 2000) + strings.Repeat("]", 2000): false,
	} {
		if _, ok := Parse([]byte(in)); ok != want {
			t.Errorf("Parse(%.40q): got %v, want %v", in, ok, want)
		}
	}
}

func TestPickFindsMembersOfEveryKind(t *testing.T) {
	doc := []byte(` {"n":1,"s":"x\ny","e":"","o":{"in":[1,"two",{"d":true}]},"z":null,"\u006bey":7,"dup":1,"dup":2} `)
	keys := []string{"n", "s", "e", "o", "z", "key", "dup", "none"}
	out := make([]Value, len(keys))
	v, ok := ParseObject(doc, keys, out)
	if !ok || v.Kind() != Object {
		t.Fatal("not an object")
	}
	kinds := []Kind{Number, String, String, Object, Null, Number, Number, Absent}
	for i, k := range kinds {
		if out[i].Kind() != k {
			t.Errorf("%s: got kind %d, want %d", keys[i], out[i].Kind(), k)
		}
	}
	if n, ok := out[6].Int(); n != 2 || !ok {
		t.Errorf("dup: got %d, want the last", n)
	}
	if out[1].Text() != "x\ny" || !out[1].Filled() || out[2].Filled() {
		t.Errorf("s: got %q, filled %v; e filled %v", out[1].Text(), out[1].Filled(), out[2].Filled())
	}
	var elements []string
	for at, in := 0, v.At("o", "in"); ; {
		e, ok := in.Next(&at)
		if !ok {
			break
		}
		elements = append(elements, string(e.Raw()))
	}
	if want := []string{"1", `"two"`, `{"d":true}`}; !reflect.DeepEqual(elements, want) {
		t.Errorf("elements: got %q, want %q", elements, want)
	}
	if !v.At("o", "none", "deeper").Missing() {
		t.Error("a path into nothing is not missing")
	}
}

func TestIntTakesWholeNumbersAlone(t *testing.T) {
	for in, want := range map[string]int64{"37": 37, "37.0": 37, "3.7e1": 37, "-5": -5, "0": 0, "9007199254740991": 9007199254740991} {
		v, _ := Parse([]byte(in))
		if n, ok := v.Int(); n != want || !ok {
			t.Errorf("Int(%s): got %d, %v", in, n, ok)
		}
	}
	for _, in := range []string{"37.5", `"37"`, "1e30", "1e400", "9007199254740993", "true", "null", "[37]", "1e-9"} {
		v, _ := Parse([]byte(in))
		if n, ok := v.Int(); ok {
			t.Errorf("Int(%s): got %d, want none", in, n)
		}
	}
}

func TestRepairJoinsWhatWasDivided(t *testing.T) {
	for name, tt := range map[string]struct {
		parts    []string // JSON strings, appended one after another
		want     string
		replaced bool
	}{
		"surrogates in one":    {parts: []string{`"\ud83d\ude00"`}, want: "😀"},
		"surrogates divided":   {parts: []string{`"a\ud83d"`, `"\ude00b"`}, want: "a😀b"},
		"lone high":            {parts: []string{`"a\ud83d"`, `"b"`}, want: "a\ufffdb", replaced: true},
		"lone low":             {parts: []string{`"\ude00"`}, want: "\ufffd", replaced: true},
		"wrong order":          {parts: []string{`"\ude00\ud83d"`}, want: "\ufffd\ufffd", replaced: true},
		"bytes divided":        {parts: []string{"\"\xe4\xb8\"", "\"\xad\""}, want: "中"},
		"bytes missing":        {parts: []string{"\"\xe4\xb8\"", `"x"`}, want: "\ufffd\ufffdx", replaced: true},
		"escapes":              {parts: []string{`"\b\f\n\r\t\/\"\\\u0041"`}, want: "\b\f\n\r\t/\"\\A"},
		"a replacement itself": {parts: []string{`"\ufffd"`}, want: "\ufffd"},
	} {
		t.Run(name, func(t *testing.T) {
			var b []byte
			for _, p := range tt.parts {
				v, ok := Parse([]byte(p))
				if !ok {
					t.Fatalf("%s is not JSON", p)
				}
				b = v.AppendText(b)
			}
			got, replaced := Repair(b)
			if string(got) != tt.want || replaced != tt.replaced {
				t.Errorf("got %q, %v; want %q, %v", got, replaced, tt.want, tt.replaced)
			}
		})
	}
}

func TestPickAllocatesNothing(t *testing.T) {
	keys := []string{"choices", "usage", "error", "model"}
	out := make([]Value, len(keys))
	doc := []byte(`{"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{"content":"x \u00e9"}}],"usage":null}`)
	if n := testing.AllocsPerRun(100, func() { ParseObject(doc, keys, out) }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func BenchmarkParseObject(b *testing.B) {
	keys := []string{"choices", "usage", "error", "model"}
	out := make([]Value, len(keys))
	doc := []byte(`{"id":"chatcmpl-9f8a","object":"chat.completion.chunk","created":1789665664,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}`)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		ParseObject(doc, keys, out)
	}
}

// FuzzAgreesWithEncodingJSON: the same bytes are JSON, with the same text.
func FuzzAgreesWithEncodingJSON(f *testing.F) {
	for _, s := range []string{`{"a":"x\u00e9\ud83d\ude00"}`, `[1,-0.5e+3,null,true]`, `{"a":{"a":"in"},"a":"\ud800"}`, "\"\xff\"", ` "" `, `{"\u0061":""}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.Count(b, []byte("["))+bytes.Count(b, []byte("{")) > maxDepth {
			t.Skip("deeper than is read")
		}
		v, ok := Parse(b)
		if ok != json.Valid(b) {
			t.Fatalf("%q: got valid %v, encoding/json says %v", b, ok, !ok)
		}
		if !ok {
			return
		}
		out := make([]Value, 1)
		if w, ok := ParseObject(b, []string{"a"}, out); !ok || !w.Same(v) {
			t.Fatalf("%q: ParseObject disagrees with Parse", b)
		}
		checkMember(t, b, out[0])
		if got := v.Get("a"); !got.Same(out[0]) {
			t.Fatalf("%q: Get gives %q, ParseObject %q", b, got.Raw(), out[0].Raw())
		}
		checkElements(t, b, v)
		if v.Kind() != String {
			return
		}
		var want string
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		got := v.Text()
		if !utf8.ValidString(got) || (utf8.Valid(b) && got != want) {
			t.Fatalf("%q: got %q, want %q", b, got, want)
		}
	})
}

func checkMember(t *testing.T, b []byte, got Value) {
	t.Helper()
	var want map[string]json.RawMessage
	if json.Unmarshal(b, &want) != nil || want == nil || !utf8.Valid(b) {
		return
	}
	if !bytes.Equal(want["a"], got.Raw()) {
		t.Fatalf("%q: member: got %q, want %q", b, got.Raw(), want["a"])
	}
}

func checkElements(t *testing.T, b []byte, v Value) {
	t.Helper()
	var want []json.RawMessage
	if v.Kind() != Array || json.Unmarshal(b, &want) != nil {
		return
	}
	at := 0
	for i, w := range want {
		got, ok := v.Next(&at)
		if !ok || !bytes.Equal(got.Raw(), w) {
			t.Fatalf("%q: element %d: got %q, want %q", b, i, got.Raw(), w)
		}
	}
	if _, ok := v.Next(&at); ok {
		t.Fatalf("%q: more elements than %d", b, len(want))
	}
}
