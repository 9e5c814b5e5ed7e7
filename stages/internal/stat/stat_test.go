package stat

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The obvious version: big.Rat all the way, the root from 400 bits.
func slowMean(xs []float64) *big.Rat {
	sum := new(big.Rat)
	for _, x := range xs {
		sum.Add(sum, new(big.Rat).SetFloat64(x))
	}
	return sum.Quo(sum, big.NewRat(int64(len(xs)), 1))
}

func slowStdDev(xs []float64) float64 {
	mean, sum := slowMean(xs), new(big.Rat)
	for _, x := range xs {
		d := new(big.Rat).Sub(new(big.Rat).SetFloat64(x), mean)
		sum.Add(sum, d.Mul(d, d))
	}
	sum.Quo(sum, big.NewRat(int64(len(xs)-1), 1))
	f := new(big.Float).SetPrec(400).SetRat(sum)
	v, _ := f.Sqrt(f).Float64()
	return v
}

func TestMeanAndDeviationAreRoundedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.OneOf(
			rapid.Float64Range(0, 1e5), rapid.Float64Range(-1e-300, 1e300), rapid.Float64(),
			rapid.Just(0.0), rapid.Just(5e-324),
		), 2, 40).Draw(t, "xs")
		for i, x := range xs {
			if math.IsInf(x, 0) || math.IsNaN(x) {
				xs[i] = 1
			}
		}
		want, _ := slowMean(xs).Float64()
		if got := Mean(xs); got != want {
			t.Errorf("Mean(%v) = %v, want %v", xs, got, want)
		}
		if got, want := StdDev(xs), slowStdDev(xs); got != want {
			t.Errorf("StdDev(%v) = %v, want %v", xs, got, want)
		}
		backward := slices.Clone(xs)
		slices.Reverse(backward)
		if Mean(backward) != Mean(xs) || StdDev(backward) != StdDev(xs) {
			t.Errorf("the order of %v matters", xs)
		}
	})
}

func TestDeviationKeepsItsDigitsFarFromZero(t *testing.T) {
	if got := StdDev([]float64{1e9 + 1, 1e9 + 2, 1e9 + 3}); got != 1 {
		t.Errorf("StdDev = %v, want 1", got)
	}
}

func TestFewValues(t *testing.T) {
	if d := Describe([]float64{3}); d.StdDev != 0 || d.CI95Low != 3 || d.CI95High != 3 || d.P99 != 3 || d.Min != 3 {
		t.Errorf("one value: %+v, want deviation 0 and everything else the value", d)
	}
	d := Describe(nil)
	for name, v := range map[string]float64{"mean": d.Mean, "stddev": d.StdDev, "low": d.CI95Low, "p50": d.P50, "max": d.Max} {
		if !math.IsNaN(v) {
			t.Errorf("no values: %s = %v, want NaN", name, v)
		}
	}
	if got := Mean([]float64{1, math.Inf(1)}); !math.IsNaN(got) {
		t.Errorf("mean with an infinity = %v, want NaN", got)
	}
	if got := Sum(nil); got != 0 {
		t.Errorf("Sum of nothing = %v, want 0", got)
	}
	if got := Sum([]float64{1e16, 1, -1e16}); got != 1 {
		t.Errorf("Sum = %v, want 1", got)
	}
}

// records.md 4.5: n = 4: p50 is the 2nd, p75 the 3rd, p90 the 4th; n = 2: p50 is the smaller.
func TestNearestRank(t *testing.T) {
	four, two := []float64{1, 2, 3, 4}, []float64{1, 2}
	for _, c := range []struct {
		sorted   []float64
		num, den int
		want     float64
	}{
		{four, 0, 100, 1},
		{four, 25, 100, 1},
		{four, 50, 100, 2},
		{four, 75, 100, 3},
		{four, 90, 100, 4},
		{four, 100, 100, 4},
		{two, 50, 100, 1},
		{two, 51, 100, 2},
		{two, 999, 1000, 2},
	} {
		if got := NearestRank(c.sorted, c.num, c.den); got != c.want {
			t.Errorf("NearestRank(%v, %d/%d) = %v, want %v", c.sorted, c.num, c.den, got, c.want)
		}
	}
}

// The eight durations of seeds/serving-cell-record.json and what it states.
func TestLinearReproducesTheServingCell(t *testing.T) {
	durations := []float64{3923.377, 6931.26, 3801.035, 4393.57, 4387.226, 3203.412, 3635.69, 6869.321}
	slices.Sort(durations)
	if got, want := Median(durations), 4155.3015; got != want {
		t.Errorf("median = %v, want %v", got, want)
	}
	if got, want := Linear(durations, 0.95), 6909.58135; got != want {
		t.Errorf("p95 = %v, want %v", got, want)
	}
	if got := Linear([]float64{7}, 0.95); got != 7 {
		t.Errorf("p95 of one value = %v, want it", got)
	}
}

// product is rounded on its own on every machine.
//
//go:noinline
func product(a, b float64) float64 { return a * b }

// A machine that fuses the position with what is taken from it would write other
// bytes, and so another run id: arm64, or amd64 under GOAMD64=v3.
func TestLinearRoundsThePositionBeforeItsFraction(t *testing.T) {
	for n := 2; n < 300; n++ {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = 1000 * float64(i*i)
		}
		position := product(float64(n-1), 0.95)
		k := int(position)
		if k >= n-1 {
			continue
		}
		want := xs[k] + product(xs[k+1]-xs[k], position-float64(k))
		if got := Linear(xs, 0.95); got != want {
			t.Fatalf("p95 of %d values = %v, want %v", n, got, want)
		}
	}
}

func BenchmarkDescribe100(b *testing.B) {
	xs := make([]float64, 100)
	for i := range xs {
		xs[i] = 20000 / (1 + 0.37*float64(i))
	}
	b.ReportAllocs()
	for b.Loop() {
		Describe(xs)
	}
}
