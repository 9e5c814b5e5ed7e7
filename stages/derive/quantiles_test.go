package derive

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// slowRank is the definition read aloud: the smallest sample such that at least
// percent/100 of all samples are not above it.
func slowRank(xs []int64, percent int) int64 {
	sorted := slices.Clone(xs)
	slices.Sort(sorted)
	for _, x := range sorted {
		notAbove := 0
		for _, y := range xs {
			if y <= x {
				notAbove++
			}
		}
		if notAbove*100 >= percent*len(xs) {
			return x
		}
	}
	return sorted[len(sorted)-1]
}

func TestNearestRankIsTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Int64Range(0, 50), 1, 60).Draw(t, "xs")
		percent := rapid.IntRange(1, 100).Draw(t, "percent")
		s := series{ns: slices.Clone(xs)}
		s.sort()
		if got, want := s.ns[nearestRank(percent, len(xs))], slowRank(xs, percent); got != want {
			t.Fatalf("p%d of %v = %d, want %d", percent, xs, got, want)
		}
	})
}

func TestLinearLiesBetweenItsNeighboursAndMovesWithTheSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 40).Draw(t, "xs")
		percent := rapid.IntRange(1, 99).Draw(t, "percent")
		s := series{numbers: slices.Clone(xs)}
		s.sort()
		got := s.linear(percent)
		position := float64(len(xs)-1) * float64(percent) / 100
		k := int(position)
		low, high := s.numbers[k], s.numbers[min(k+1, len(xs)-1)]
		if got < low || got > high {
			t.Fatalf("p%d = %v, want it in [%v, %v]", percent, got, low, high)
		}
		// The same by weights in exact arithmetic.
		frac := new(big.Rat).SetFloat64(position - float64(k))
		a, b := new(big.Rat).SetFloat64(low), new(big.Rat).SetFloat64(high)
		want, _ := a.Add(a, b.Sub(b, new(big.Rat).SetFloat64(low)).Mul(b, frac)).Float64()
		if math.Abs(got-want) > 1e-9*max(1, math.Abs(want), math.Abs(high-low)) {
			t.Fatalf("p%d = %v, want %v", percent, got, want)
		}
	})
}

func TestMeanOfDurationsIsRoundedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Int64(), 1, 50).Draw(t, "xs")
		sum := new(big.Rat)
		for _, x := range xs {
			sum.Add(sum, new(big.Rat).SetInt64(x))
		}
		want, _ := sum.Quo(sum, big.NewRat(int64(len(xs))*1_000_000, 1)).Float64()
		if got := meanMS(xs); got != want {
			t.Fatalf("mean of %v = %v, want %v", xs, got, want)
		}
	})
}

// Order of the attempts is that of their completion and must not matter.
func TestStatisticsIgnoreOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Int64Range(0, 1e12), 5, 40).Draw(t, "xs")
		ys := rapid.Permutation(xs).Draw(t, "ys")
		a, b := series{ns: slices.Clone(xs)}, series{ns: slices.Clone(ys)}
		a.sort()
		b.sort()
		for _, name := range []string{"mean", "min", "max", "p50", "p90"} {
			for _, method := range []string{NearestRank, Linear} {
				x, why := a.statistic(name, method, len(xs))
				y, _ := b.statistic(name, method, len(ys))
				if why == "" && x != y {
					t.Fatalf("%s differs: %v and %v", name, x, y)
				}
			}
		}
	})
}

func TestPassAtK(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 10).Draw(t, "n")
		c := rapid.IntRange(0, n).Draw(t, "c")
		k := rapid.IntRange(1, n).Draw(t, "k")
		// By counting subsets: bit i set means that attempt i was drawn.
		with, all := 0, 0
		for set := range 1 << n {
			drawn, passed := 0, false
			for i := range n {
				if set>>i&1 == 1 {
					drawn++
					passed = passed || i < c
				}
			}
			if drawn == k {
				all++
				if passed {
					with++
				}
			}
		}
		if got, want := passAtK(n, c, k), float64(with)/float64(all); math.Abs(got-want) > 1e-12 {
			t.Fatalf("pass@%d of %d in %d = %v, want %v", k, c, n, got, want)
		}
	})
}

func TestNumbersThatAreEqualAreSpeltAlike(t *testing.T) {
	for _, same := range [][]string{
		{"1204416", "1,204,416", "1204416.0", "1.204416e6", "+1204416", "01204416"},
		{"0.5", ".5", "0.50", "5e-1"},
		{"-3", "-3.", "-3.000"},
	} {
		want, ok := canonicalNumber(same[0])
		if !ok {
			t.Fatalf("%q is no number", same[0])
		}
		for _, s := range same[1:] {
			if got, ok := canonicalNumber(s); !ok || got != want {
				t.Errorf("%q is spelt %q, %q %q", s, got, same[0], want)
			}
		}
	}
	for _, s := range []string{"", "1,2", "1,2345", "12:30", "1.2.3", "0x10", "1e9999", "NaN", "Inf", "1/2", "١", "1 000"} {
		if got, ok := canonicalNumber(s); ok {
			t.Errorf("%q passes for the number %s", s, got)
		}
	}
}

func FuzzJudge(f *testing.F) {
	for _, text := range []string{"", "blue", `{"owner":"Mara"}`, "owner: Mara", "#### 7", "```json\n{}\n```", "(B)", "\xff\xfe{\"a\":", "a\u0308"} {
		f.Add(text)
	}
	graders := []string{
		`{"id":"a","type":"equals"}`, `{"id":"b","type":"evidence_fields"}`, `{"id":"c","type":"choice","value":"B"}`,
		`{"id":"d","type":"number","value":7}`, `{"id":"e","type":"json","pointers":{"/a":1}}`, `{"id":"f","type":"contains","all":["a","b"]}`,
		`{"id":"g","type":"equals","extract":{"last_line":true,"regex":"(\\w+)","json_pointer":"/a"}}`, `{"id":"h","type":"regex","pattern":"(a)|b"}`,
	}
	f.Fuzz(func(t *testing.T, text string) {
		row := &datasetRow{members: map[string]any{"expected": map[string]any{"fields": map[string]any{"owner": "Mara"}}}}
		for _, spec := range graders {
			w, err := (&builder{}).grader([]byte(spec), "")
			if err != nil {
				t.Fatal(err)
			}
			a := attemptOf(text)
			j := w.judge(&answer{attempt: &a, row: row})
			again := w.judge(&answer{attempt: &a, row: row})
			if j.verdict != again.verdict || j.reason != again.reason {
				t.Errorf("%s judges %q twice differently", spec, text)
			}
			if j.score < 0 || j.score > 1 {
				t.Errorf("%s gives %q the score %v", spec, text, j.score)
			}
			if s := j.span; s != nil && (s[0] < 0 || s[0] > s[1] || s[1] > len(text)) {
				t.Errorf("%s gives the span %v in %d bytes", spec, *s, len(text))
			}
			if s := j.span; s != nil && len(*j.extracted) <= maxExtracted && s[1]-s[0] <= maxExtracted && text[s[0]:s[1]] != *j.extracted {
				t.Errorf("%s extracts %q from the span of %q", spec, *j.extracted, text[s[0]:s[1]])
			}
		}
	})
}
