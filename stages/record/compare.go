package record

import (
	"math"
	"slices"

	"anvil/stages/internal/jsontree"
)

// tolerance is relative. Stored figures of real records agree with the
// formulas to 1e-15.
const tolerance = 1e-9

func near(a, b float64) bool {
	return a == b || math.Abs(a-b) <= tolerance*math.Max(math.Abs(a), math.Abs(b))
}

// A figure is a number that may be absent.
type figure struct {
	v  float64
	ok bool
}

func known(v float64) figure { return figure{v, !math.IsNaN(v)} }

func figureOf(v jsontree.Value) figure {
	f, ok := v.Float()
	return figure{f, ok}
}

// any is the figure as the renderer takes it.
func (f figure) any() any {
	if !f.ok {
		return nil
	}
	return f.v
}

// wants tells whether a value is there and of a type that can be compared; what
// is not was reported by the schema.
func wants(stored jsontree.Value, kinds ...jsontree.Kind) bool {
	return slices.ContainsFunc(kinds, stored.Is)
}

// figureIs compares a stored number or null with what it must be.
func (c *checker) figureIs(pointer, rule string, stored jsontree.Value, want figure, format string, args ...any) {
	c.figureWithin(pointer, rule, stored, want, 0, format, args...)
}

// figureWithin allows slack, absolute, beside the tolerance.
func (c *checker) figureWithin(pointer, rule string, stored jsontree.Value, want figure, slack float64, format string, args ...any) {
	if !wants(stored, jsontree.Number, jsontree.Null) {
		return
	}
	got := figureOf(stored)
	if got.ok == want.ok && (!got.ok || near(got.v, want.v) || math.Abs(got.v-want.v) <= slack) {
		return
	}
	c.problem(pointer, rule, stored, want.any(), format, args...)
}

// intIs compares a stored integer with what it must be.
func (c *checker) intIs(pointer, rule string, stored jsontree.Value, want int64, format string, args ...any) {
	c.totalIs(pointer, rule, stored, total{n: want}, format, args...)
}

// totalIs compares a stored count with the sum that it must be.
func (c *checker) totalIs(pointer, rule string, stored jsontree.Value, want total, format string, args ...any) {
	if !wants(stored, jsontree.Number, jsontree.Null) {
		return
	}
	if got, ok := stored.Int(); !ok || !want.is(got) {
		c.problem(pointer, rule, stored, want.any(), format, args...)
	}
}

func (c *checker) boolIs(pointer, rule string, stored jsontree.Value, want bool, format string, args ...any) {
	if !wants(stored, jsontree.Bool, jsontree.Null) {
		return
	}
	if got, ok := stored.Bool(); !ok || got != want {
		c.problem(pointer, rule, stored, want, format, args...)
	}
}

func (c *checker) textIs(pointer, rule string, stored jsontree.Value, want, format string, args ...any) {
	if wants(stored, jsontree.String, jsontree.Null) && stored.Str() != want {
		c.problem(pointer, rule, stored, want, format, args...)
	}
}

// holds reports a relation that has no single recomputed value.
func (c *checker) holds(ok bool, pointer, rule string, stored jsontree.Value, computed any, format string, args ...any) {
	if !ok {
		c.problem(pointer, rule, stored, computed, format, args...)
	}
}

// isTime reports the member of that name when it is a text and, as err says, no
// time.
func (c *checker) isTime(doc jsontree.Value, name string, err error) {
	if v := doc.Get(name); v.Is(jsontree.String) && err != nil {
		c.problem("/"+name, "clock.form", v, nil, "no such time")
	}
}
