package record

import (
	"bytes"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Four rows whose chunks add up to 2⁶⁴ and the 292 that is stored.
func TestSumsOfCountsDoNotWrap(t *testing.T) {
	src := seed(t, "", "")
	rows := bytes.Index(src, []byte(`"request_timings"`))
	for _, n := range []string{"9223372036854775807", "9223372036854775807", "146", "148"} {
		src = append(src[:rows:rows], bytes.Replace(src[rows:], []byte(`"content_chunks": 73`), []byte(`"content_chunks": `+n), 1)...)
	}
	r := CheckReader("wrap", bytes.NewReader(src), Options{})
	if !hasProblem(r, "/metrics/content_chunks", "metrics.value") || len(r.Problems) != 1 || string(r.Problems[0].Computed) != "18446744073709551908" {
		t.Errorf("want one problem, of metrics.value, with the whole sum: %s", describe(r))
	}
}

func TestTotalsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, got := new(big.Int), total{}
		for _, n := range rapid.SliceOfN(rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MaxInt64, math.MinInt64, 0, 1, -1})), 0, 8).Draw(t, "counts") {
			got.add(n)
			want.Add(want, big.NewInt(n))
		}
		n, ok := got.int()
		if got.String() != want.String() || ok != want.IsInt64() || ok && n != want.Int64() || got.is(n) != ok {
			t.Fatalf("got %v (%d, %v), want %v", got, n, ok, want)
		}
	})
}

func TestLongDigitsAreFoundWhereverTheyStand(t *testing.T) {
	for before := range 45 {
		for _, after := range []string{"", ",", ".5 12345 ", "x1"} {
			for digits, want := range map[int]bool{1: false, 18: false, 19: true, 20: true, 60: true} {
				text := strings.Repeat("1,", before/2) + strings.Repeat(" ", before%2) + strings.Repeat("7", digits) + after
				if got := hasLongDigits([]byte(text)); got != want {
					t.Fatalf("%q: %v, want %v", text, got, want)
				}
			}
		}
	}
}
