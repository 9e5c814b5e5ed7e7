package key

import (
	"testing"

	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/schemas"
)

func TestOfCanonicalIsOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{
			Kind:     rapid.StringMatching(`[a-z-]{1,12}|.{0,3}`).Draw(t, "kind"),
			Contract: rapid.IntRange(0, 1000).Draw(t, "contract"),
			Salt:     rapid.String().Draw(t, "salt"),
		}
		config, err := jcs.Transform([]byte(rapid.SampledFrom([]string{`{}`, `{"b": 1.50, "a": {"z": [1, "é", "\u2028<>&"]}}`, `{"n": 1e21}`}).Draw(t, "config")))
		if err != nil {
			t.Fatal(err)
		}
		spec.Config = config
		for range rapid.IntRange(0, 3).Draw(t, "inputs") {
			spec.Inputs = append(spec.Inputs, Input{
				Port: rapid.SampledFrom([]string{"attempts", "with./dataset", `with./a"b`, "é"}).Draw(t, "port"),
				Ref: stage.Ref{
					Schema: schemas.ID(rapid.SampledFrom([]string{"anvil.attempts/v1", "x<y"}).Draw(t, "schema")),
					SHA256: digest.FromBytes([]byte(rapid.String().Draw(t, "bytes"))),
					Size:   rapid.Int64Range(0, 1<<50).Draw(t, "size"),
				},
			})
		}
		want, err := Of(spec)
		if err != nil {
			t.Skip("no key at all")
		}
		if got, err := OfCanonical(spec); err != nil || got != want {
			t.Fatalf("got %s, %v, want %s", got, err, want)
		}
	})
}

func BenchmarkKey(b *testing.B) {
	spec := Spec{Kind: "grade", Contract: 1, Config: []byte(`{"graders":[{"any":["blue"],"id":"a","type":"contains"}]}`), Inputs: make([]Input, 2)}
	for name, of := range map[string]func(Spec) (digest.Digest, error){"Of": Of, "OfCanonical": OfCanonical} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := of(spec); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
