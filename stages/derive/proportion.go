package derive

import (
	"math"

	"anvil/stages/record"
)

// wilson is the name of the interval of proportions.
const wilson = "wilson"

// A share makes proportions of one cell: at a level of confidence, or without
// bounds for a reason.
type share struct {
	level   float64
	without string
}

// of is n of total; none is the reason where there is nothing to divide by.
func (s share) of(n, total int, none string) record.Proportion {
	p := record.Proportion{Numerator: n, Denominator: total}
	if total == 0 {
		p.Reason, p.IntervalReason = &none, new("there is no value")
		return p
	}
	p.Value = new(float64(n) / float64(total))
	if s.without != "" {
		p.IntervalReason = &s.without
		return p
	}
	low, high := wilsonInterval(n, total, s.level)
	p.Low, p.High, p.Level, p.Method = &low, &high, new(s.level), new(wilson)
	return p
}

// wilsonInterval is the score interval of a binomial proportion (Wilson, 1927):
// all p that a two-sided normal test at that level does not reject. It stays
// inside [0, 1] and has a width where all or none succeeded.
func wilsonInterval(n, total int, level float64) (low, high float64) {
	if level >= 1 {
		return 0, 1
	}
	z := math.Sqrt2 * math.Erfinv(level)
	p, size, zz := float64(n)/float64(total), float64(total), float64(z*z)
	scale := 1 + zz/size
	center := (p + zz/(2*size)) / scale
	half := z * math.Sqrt(float64(p*(1-p))/size+zz/float64(4*size*size)) / scale
	low, high = max(center-half, 0), min(center+half, 1)
	if n == 0 {
		low = 0 // exactly, whatever the rounding
	}
	if n == total {
		high = 1
	}
	return low, high
}
