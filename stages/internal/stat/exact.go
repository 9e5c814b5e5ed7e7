package stat

import (
	"math"
	"math/big"
)

// A sum holds Σx and Σx² of float64 values without any rounding: both are
// integers, in units of 2^exp and 2^(2·exp).
type sum struct {
	n    int64
	x, q big.Int
	exp  int
	bad  bool // an infinity or a NaN was among the values
}

// newSum adds up xs. With squares it takes twice as long.
func newSum(xs []float64, squares bool) *sum {
	s := &sum{n: int64(len(xs)), exp: math.MaxInt}
	for _, x := range xs {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			s.bad = true
			return s
		}
		if _, e := split(x); x != 0 && e < s.exp {
			s.exp = e
		}
	}
	var term big.Int
	for _, x := range xs {
		if x == 0 {
			continue
		}
		m, e := split(x)
		term.Lsh(term.SetInt64(m), uint(e-s.exp))
		s.x.Add(&s.x, &term)
		if squares {
			s.q.Add(&s.q, term.Mul(&term, &term))
		}
	}
	if s.exp == math.MaxInt {
		s.exp = 0 // all zeros
	}
	return s
}

// split returns m and e with x = m·2^e and m a 53-bit integer.
func split(x float64) (m int64, e int) {
	frac, exp := math.Frexp(x)
	return int64(math.Ldexp(frac, 53)), exp - 53
}

// quo returns num·2^exp / den rounded once, to the nearest double.
func quo(num, den *big.Int, exp int) float64 {
	negative := num.Sign() < 0
	var n big.Int
	n.Abs(num)
	// 64 bits of quotient and a sticky bit for what the division leaves: then
	// the one rounding is that of the exact quotient.
	shift := max(0, 66-n.BitLen()+den.BitLen())
	var q, rest big.Int
	q.QuoRem(n.Lsh(&n, uint(shift)), den, &rest)
	f := rounded(&q, rest.Sign() != 0, exp-shift)
	if negative {
		return -f
	}
	return f
}

// root returns √(num·2^(2·exp) / den) rounded once.
func root(num, den *big.Int, exp int) float64 {
	if num.Sign() <= 0 {
		return 0
	}
	shift := max(0, 132-num.BitLen()+den.BitLen())
	shift += shift & 1
	var n, q, rest, r big.Int
	q.QuoRem(n.Lsh(num, uint(shift)), den, &rest)
	r.Sqrt(&q)
	sticky := rest.Sign() != 0 || n.Mul(&r, &r).Cmp(&q) != 0
	return rounded(&r, sticky, exp-shift/2)
}

// rounded returns (i, and a little more when sticky)·2^exp.
func rounded(i *big.Int, sticky bool, exp int) float64 {
	var wide big.Int
	wide.Lsh(i, 1)
	if sticky {
		wide.SetBit(&wide, 0, 1)
	}
	var f big.Float
	f.SetInt(&wide) // exact: the precision follows the integer
	f.SetMantExp(&f, exp-1)
	v, _ := f.Float64()
	return v
}
