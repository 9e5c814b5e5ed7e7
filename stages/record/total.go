package record

import (
	"math/big"

	"anvil/stages/internal/jsontree"
)

// A total is an exact sum of counts. Each of them fits int64; all of them
// together may not, and a sum that wraps would agree with anything.
type total struct {
	n    int64
	wide *big.Int // once no int64 held the sum
}

func (t *total) add(n int64) {
	if t.wide == nil {
		if sum := t.n + n; (sum > t.n) == (n > 0) {
			t.n = sum
			return
		}
		t.wide = big.NewInt(t.n)
	}
	t.wide.Add(t.wide, big.NewInt(n))
}

// int is the sum when an int64 holds it.
func (t total) int() (int64, bool) {
	if t.wide == nil {
		return t.n, true
	}
	return t.wide.Int64(), t.wide.IsInt64()
}

func (t total) is(n int64) bool {
	sum, ok := t.int()
	return ok && sum == n
}

// any is the sum as the renderer takes it, all its digits kept.
func (t total) any() any {
	if n, ok := t.int(); ok {
		return n
	}
	v, err := jsontree.Parse([]byte(t.String()))
	if err != nil {
		return nil // it has more digits than a double reaches
	}
	return v
}

// String is the sum in digits.
func (t total) String() string {
	if t.wide == nil {
		return big.NewInt(t.n).String()
	}
	return t.wide.String()
}

func totalOf(counts ...int64) (t total) {
	for _, n := range counts {
		t.add(n)
	}
	return t
}

// tallied adds up the members of an object that are counts.
func tallied(object jsontree.Value) (t total) {
	for _, v := range object.Members() {
		n, _ := v.Int()
		t.add(n)
	}
	return t
}

// A counted is a count that may be absent: exact, and as a figure for formulas.
type counted struct {
	figure
	n int64
}

// countedOf takes a number of any form; the schema names what is no count.
func countedOf(v jsontree.Value) counted {
	c := counted{figure: figureOf(v)}
	n, ok := v.Int()
	if !ok && c.ok {
		const edge = 1 << 62 // a double beyond it has no int64
		n = int64(max(-edge, min(c.v, edge)))
	}
	c.n = n
	return c
}

func counting(n int64) counted { return counted{known(float64(n)), n} }
