// Package stat computes the figures of the record kinds to the last digit.
//
// The rules are those of records.md 4, "For byte equality": a mean is the exact
// rational sum of the float64 values divided by their count and rounded once; a
// sample standard deviation is the square root of the exact rational
// Σ(x−mean)²/(n−1) about the exact mean, rounded once. Order of the values and
// machine make no difference. Nothing here panics: where a figure does not
// exist (no values, or a NaN or an infinity among them) it is NaN, and callers
// that write JSON turn that into null with a reason.
package stat

import (
	"math"
	"math/big"
	"slices"
)

// Sum is the exact sum, rounded once; 0 without values.
func Sum(xs []float64) float64 {
	s := newSum(xs, false)
	if s.bad {
		return math.NaN()
	}
	return quo(&s.x, big.NewInt(1), s.exp)
}

// Mean is Σx/n of exact rationals, rounded once.
func Mean(xs []float64) float64 {
	s := newSum(xs, false)
	if s.bad || s.n == 0 {
		return math.NaN()
	}
	return s.mean()
}

func (s *sum) mean() float64 { return quo(&s.x, big.NewInt(s.n), s.exp) }

// StdDev is the sample standard deviation √(Σ(x−mean)²/(n−1)) of exact
// rationals, rounded once; 0 for one value (records.md 4.5).
func StdDev(xs []float64) float64 {
	s := newSum(xs, true)
	if s.bad || s.n == 0 {
		return math.NaN()
	}
	return s.stddev()
}

// stddev uses Σ(x−mean)² = (n·Σx² − (Σx)²)/n, which is exact here and would
// cancel in floating point.
func (s *sum) stddev() float64 {
	if s.n == 1 {
		return 0
	}
	n := big.NewInt(s.n)
	var num, square, den big.Int
	num.Sub(num.Mul(&s.q, n), square.Mul(&s.x, &s.x))
	den.Mul(n, big.NewInt(s.n-1))
	return root(&num, &den, s.exp)
}

// CI95 is the normal-approximation interval of the mean, mean ∓ (1.96·s)/√n,
// from the rounded mean and deviation and in that order of operations.
func CI95(mean, stddev float64, n int) (low, high float64) {
	half := float64(1.96*stddev) / math.Sqrt(float64(n))
	return mean - half, mean + half
}

// NearestRank is the value at the 1-based rank ceil(num·n/den) of sorted, which
// is in ascending order; the smallest for rank 0. The quantile is num/den: 50
// and 100 for the median, 999 and 1000 for p99.9.
func NearestRank(sorted []float64, num, den int) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	rank := (num*n + den - 1) / den
	return sorted[min(max(rank-1, 0), n-1)]
}

// Linear interpolates between the order statistics at position (n−1)·q:
// x[k] + (x[k+1] − x[k])·frac. Serving cells use it and nothing else does.
func Linear(sorted []float64, q float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	position := float64(float64(n-1) * q) // rounded, not fused with what is taken from it
	k := int(math.Floor(position))
	if k >= n-1 {
		return sorted[n-1]
	}
	frac := position - float64(k)
	return sorted[k] + float64((sorted[k+1]-sorted[k])*frac)
}

// Median is Linear at one half.
func Median(sorted []float64) float64 { return Linear(sorted, 0.5) }

// A Distribution is the thirteen statistics of a benchmark record. With N 0
// the others are NaN.
type Distribution struct {
	N                                      int
	Mean, StdDev, CI95Low, CI95High        float64
	Min, P25, P50, P75, P90, P95, P99, Max float64
}

// Describe returns the distribution of xs, which it does not change.
func Describe(xs []float64) Distribution {
	s := newSum(xs, true)
	d := Distribution{N: len(xs), Mean: math.NaN(), StdDev: math.NaN()}
	if !s.bad && s.n > 0 {
		d.Mean, d.StdDev = s.mean(), s.stddev()
	}
	d.CI95Low, d.CI95High = CI95(d.Mean, d.StdDev, d.N)
	sorted := slices.Sorted(slices.Values(xs))
	rank := func(percent int) float64 { return NearestRank(sorted, percent, 100) }
	d.Min, d.P25, d.P50, d.P75 = rank(0), rank(25), rank(50), rank(75)
	d.P90, d.P95, d.P99, d.Max = rank(90), rank(95), rank(99), rank(100)
	return d
}
