package plan

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func TestThePlainWayToCanonicalJSONIsTheLibrarys(t *testing.T) {
	text := rapid.OneOf(rapid.StringMatching(`[ -~]{0,6}`), rapid.String())
	number := rapid.SampledFrom([]string{"0", "-0", "7", "-12", "1.0", "1.50", "0.1", "999999999999999", "9007199254740991", "1e3"})
	scalar := rapid.OneOf(
		rapid.Just[any](nil), rapid.Just[any](true), rapid.Map(text, func(s string) any { return s }),
		rapid.Map(number, func(s string) any { return json.Number(s) }),
	)
	plain := 0
	rapid.Check(t, func(t *rapid.T) {
		v := map[string]any{text.Draw(t, "key"): []any{scalar.Draw(t, "value")}, text.Draw(t, "other"): scalar.Draw(t, "value")}
		if plainlyCanonical(v) {
			plain++
		}
		want, err := canonical(encode(v))
		if err != nil {
			t.Fatal(err)
		}
		got, err := canonicalOf(v)
		if err != nil || string(got) != string(want) {
			t.Fatalf("got %s, %v, want %s", got, err, want)
		}
	})
	if plain == 0 {
		t.Error("no value went the plain way")
	}
}
