package record

import (
	"anvil/stages/internal/jsontree"
)

// The findings of an answer are the same in benchmark records and in attempts
// (records.md 2.3): what follows from what was counted.

// checkCanaryPassed holds for every request_canary.
func (c *checker) checkCanaryPassed(k jsontree.Value, at string) {
	start, _ := k.Get("marker_at_start").Bool()
	foreign, _ := k.Get("foreign_marker_count").Int()
	complete, _ := k.Get("capture_complete").Bool()
	c.boolIs(at+"/passed", "canary.passed", k.Get("passed"), start && foreign == 0 && complete, "at the start, no foreign marker, capture complete")
	if seen, ok := k.Get("observed_marker_count").Int(); ok {
		c.holds(!start || seen >= 1, at+"/observed_marker_count", "canary.count", k.Get("observed_marker_count"), nil, "the answer begins with a marker, so there is at least one")
	}
}

// checkControlledPassed holds for every controlled_output; policy is the one that
// it must have been judged by.
func (c *checker) checkControlledPassed(o jsontree.Value, at, policy string) {
	requested, _ := o.Get("requested_words").Int()
	code, _ := o.Get("observed_code_words").Int()
	extra, _ := o.Get("observed_extra_words").Int()
	complete, _ := o.Get("capture_complete").Bool()
	exact := o.Get("exact_adherence")
	if !complete {
		c.holds(exact.Is(jsontree.Null), at+"/exact_adherence", "controlled.exact", exact, nil, "null when the capture is incomplete")
	} else {
		c.boolIs(at+"/exact_adherence", "controlled.exact", exact, code == requested && extra == 0, "%d code words and %d others where %d were asked for", code, extra, requested)
	}
	isExact, _ := exact.Bool()
	c.boolIs(at+"/passed", "controlled.passed", o.Get("passed"), policy == "observe" || isExact, "under strict exact_adherence, under observe always")
}
