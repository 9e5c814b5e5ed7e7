package derive_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"anvil/stages/derive"
)

// Newcombe, Statistics in Medicine 17 (1998), table I, method 3: 81/263, 15/148,
// 0/20 and 1/29 at 95%.
func TestWilsonIntervalsOfTheLiterature(t *testing.T) {
	for _, c := range []struct {
		n, total  int
		low, high float64
	}{{81, 263, 0.2553, 0.3662}, {15, 148, 0.0624, 0.1605}, {0, 20, 0, 0.1611}, {1, 29, 0.0061, 0.1718}} {
		low, high := derive.WilsonInterval(c.n, c.total, 0.95)
		if math.Abs(low-c.low) > 5e-5 || math.Abs(high-c.high) > 5e-5 {
			t.Errorf("%d/%d: [%.4f, %.4f], want [%.4f, %.4f]", c.n, c.total, low, high, c.low, c.high)
		}
	}
}

// Each bound is the p at which the score test just rejects: |p̂−p| = z·√(p(1−p)/n).
func TestWilsonBoundsSolveTheScoreEquation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(1, 1_000_000).Draw(t, "total")
		n := rapid.IntRange(0, total).Draw(t, "n")
		level := rapid.Float64Range(0.5, 0.999).Draw(t, "level")
		z := distuv.UnitNormal.Quantile((1 + level) / 2)
		low, high := derive.WilsonInterval(n, total, level)
		share := float64(n) / float64(total)
		if low < 0 || high > 1 || low > share || high < share {
			t.Fatalf("%d/%d: [%v, %v]", n, total, low, high)
		}
		for _, p := range []float64{low, high} {
			score := z * math.Sqrt(p*(1-p)/float64(total))
			if p > 0 && p < 1 && math.Abs(math.Abs(share-p)-score) > 1e-9 {
				t.Errorf("%d/%d at %v: |%v−%v| is not %v", n, total, level, share, p, score)
			}
		}
	})
}

func TestACertainIntervalIsEverything(t *testing.T) {
	if low, high := derive.WilsonInterval(3, 4, 1); low != 0 || high != 1 {
		t.Errorf("level 1: [%v, %v]", low, high)
	}
	if low, high := derive.WilsonInterval(3, 4, 0); low != 0.75 || high != 0.75 {
		t.Errorf("level 0: [%v, %v]", low, high)
	}
}
