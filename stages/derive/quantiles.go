package derive

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"anvil/stages/internal/stat"
)

// The definitions of a quantile that a plan may choose.
const (
	NearestRank = "nearest_rank"
	Linear      = "linear"
)

// Need is the least count of samples for the quantile percent/100: below it
// the sample quantile may be no bound at all. It is ⌈ln 0.05 / ln q⌉, so that
// the largest sample lies above the quantile with 95% confidence, and 5 for the
// median and anything below it.
func Need(percent int) int {
	if percent <= 50 {
		return 5
	}
	return int(math.Ceil(math.Log(0.05) / math.Log(float64(percent)/100)))
}

// percentOf reads "p95"; ok is false for a statistic that is no quantile.
func percentOf(statistic string) (percent int, ok bool) {
	digits, ok := strings.CutPrefix(statistic, "p")
	if !ok {
		return 0, false
	}
	percent, err := strconv.Atoi(digits)
	return percent, err == nil
}

// series are the samples of one figure. Sorted once, it answers every statistic.
type series struct {
	ns      []int64   // durations, or
	numbers []float64 // anything else
}

func (s *series) sort() {
	slices.Sort(s.ns)
	slices.Sort(s.numbers)
}

func (s *series) len() int { return len(s.ns) + len(s.numbers) }

// at is the i-th smallest sample in the metric's unit.
func (s *series) at(i int) float64 {
	if s.ns != nil {
		return float64(s.ns[i]) / nsPerMS
	}
	return s.numbers[i]
}

// mean is the exact sum divided by the count, rounded once.
func (s *series) mean() float64 {
	if s.ns == nil {
		return stat.Mean(s.numbers)
	}
	return meanMS(s.ns)
}

func meanMS(ns []int64) float64 {
	var sum, part big.Int
	var chunk int64
	for _, v := range ns {
		if v >= 1<<53 || v <= -1<<53 {
			sum.Add(&sum, part.SetInt64(v))
			continue
		}
		if chunk += v; chunk >= 1<<62 || chunk <= -1<<62 {
			sum.Add(&sum, part.SetInt64(chunk))
			chunk = 0
		}
	}
	sum.Add(&sum, part.SetInt64(chunk))
	den := big.NewInt(int64(len(ns)))
	mean, _ := new(big.Rat).SetFrac(&sum, den.Mul(den, part.SetInt64(nsPerMS))).Float64()
	return mean
}

// statistic computes one of mean, min, max, p<percent>. The count that a
// quantile needs is compared with requests, which are independent; the gaps of
// one request are not. The reason is not empty when there is no value.
func (s *series) statistic(name, method string, requests int) (value float64, reason string) {
	n := s.len()
	percent, quantile := percentOf(name)
	switch {
	case n == 0:
		return 0, "no samples"
	case name == "mean":
		return s.mean(), ""
	case name == "min":
		return s.at(0), ""
	case name == "max":
		return s.at(n - 1), ""
	case !quantile:
		return 0, fmt.Sprintf("unknown statistic %q", name)
	case requests < Need(percent):
		return 0, fmt.Sprintf("withheld: %s, %s needs %d", plural(requests, "sample"), name, Need(percent))
	case method == Linear:
		return s.linear(percent), ""
	}
	return s.at(nearestRank(percent, n)), ""
}

// nearestRank is the 0-based index of the value at the 1-based rank ceil(percent·n/100).
func nearestRank(percent, n int) int { return max(0, (percent*n+99)/100-1) }

func (s *series) linear(percent int) float64 {
	n := s.len()
	position := float64(n-1) * float64(percent) / 100
	k := int(math.Floor(position))
	if k >= n-1 {
		return s.at(n - 1)
	}
	low, high := s.at(k), s.at(k+1)
	return low + float64((high-low)*(position-float64(k)))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
