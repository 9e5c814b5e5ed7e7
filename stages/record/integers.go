package record

import (
	"anvil/stages/internal/jsontree"
)

// integersFit reports every integer that no int64 holds, at its place. Stamps
// and counts are int64 (records.md 2.1): a rule that reads one as such has
// nothing to say of one that is not.
func (c *checker) integersFit(v jsontree.Value, pointer string) {
	if !hasLongDigits(v.Raw()) || fits(v) {
		return
	}
	c.reportWide(v, pointer)
}

func (c *checker) reportWide(v jsontree.Value, pointer string) {
	for name, m := range v.Members() {
		c.reportWide(m, jsontree.Child(pointer, name))
	}
	for i, e := range v.Elems() {
		c.reportWide(e, jsontree.Index(pointer, i))
	}
	c.holds(!wide(v), pointer, "number.int64", v, nil, "no int64 holds it, and stamps and counts are int64")
}

// fits makes no pointers: nearly every document has no such number.
func fits(v jsontree.Value) bool {
	for _, m := range v.Members() {
		if !fits(m) {
			return false
		}
	}
	for _, e := range v.Elems() {
		if !fits(e) {
			return false
		}
	}
	return !wide(v)
}

func wide(v jsontree.Value) bool {
	if !v.IsInteger() {
		return false
	}
	_, ok := v.Int()
	return !ok
}

// hasLongDigits tells whether as many digits stand together as the largest int64
// has. A run that long has a digit at every distance of its own length.
func hasLongDigits(text []byte) bool {
	const run = len("9223372036854775807")
	digit := func(i int) bool { return '0' <= text[i] && text[i] <= '9' }
	for at := run - 1; at < len(text); at += run {
		if !digit(at) {
			continue
		}
		from, to := at, at+1
		for from > 0 && digit(from-1) {
			from--
		}
		for to < len(text) && digit(to) {
			to++
		}
		if to-from >= run {
			return true
		}
	}
	return false
}
