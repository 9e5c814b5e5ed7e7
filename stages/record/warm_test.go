package record

import (
	"slices"
	"testing"
)

func TestWarmRowsStandFiveTimesAboveTheMedianOfFourOrMore(t *testing.T) {
	for _, c := range []struct {
		name   string
		rates  []float64 // by index, from the last to the first
		warm   []int64
		median float64
	}{
		{"none", nil, nil, 0},
		{"three have no typical one", []float64{100, 100, 900}, nil, 0},
		{"exactly five times", []float64{500, 100, 100, 100}, []int64{3}, 100},
		{"just below", []float64{499.99, 100, 100, 100}, nil, 100},
		{"in order of index", []float64{800, 100, 100, 600, 100}, []int64{1, 4}, 100},
		{"nearest rank: half of them are no exception", []float64{900, 900, 100, 100}, []int64{2, 3}, 100},
		{"more than half are the typical ones", []float64{900, 900, 900, 100}, nil, 900},
	} {
		var rates []PrefillRate
		for i, x := range c.rates {
			rates = append(rates, PrefillRate{Index: int64(len(c.rates) - 1 - i), TokensPerS: x})
		}
		warm, median := WarmRows(rates)
		if !slices.Equal(warm, c.warm) || median != c.median {
			t.Errorf("%s: %v with median %v, want %v with %v", c.name, warm, median, c.warm, c.median)
		}
	}
}
