package derive

import (
	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// checkLimitations checks that no set lost a member on its way: the record has
// everything that any artifact of its closure bears, and each artifact all that
// its own inputs bear.
func (v *validation) checkLimitations() {
	for _, a := range v.artifacts() {
		made, ok := v.closure.Made(a.SHA256)
		if !ok {
			continue
		}
		have := a.LimitationSet()
		for _, port := range sortedKeys(made.Inputs) {
			for _, in := range made.Inputs[port] {
				for _, l := range in.LimitationSet().Missing(have) {
					v.problem(record.LevelConsistent, a, "/limitations", "limitation-missing", nil, l,
						"%s of %s came with %s/%s on port %s and is not in its set", l.Code, l.Origin, in.Stage, in.Name, port)
				}
			}
		}
	}
	if _, ok := v.closure.Made(v.rec.SHA256); ok {
		return // compareLimitations does it with what summarize raises
	}
	set := stage.NewLimitationSet(v.final.Limitations...)
	for _, a := range v.artifacts()[1:] {
		v.lacks(set, a.LimitationSet())
	}
}

// lacks reports what the record should hold and does not.
func (v *validation) lacks(set, want stage.LimitationSet) {
	for _, l := range want.Missing(set) {
		v.problem(record.LevelConsistent, v.rec, "/limitations", "limitation-missing", nil, l, "the record lacks %s of %s: %s", l.Code, l.Origin, l.Text)
	}
}

// compareLimitations compares the record's limitations with the closure.
func (v *validation) compareLimitations(want stage.LimitationSet) {
	set := stage.NewLimitationSet(v.final.Limitations...)
	v.lacks(set, want)
	for _, l := range set.Missing(want) {
		v.problem(record.LevelRederived, v.rec, "/limitations", "limitation-unwitnessed", l, nil, "nothing in the closure bears %s of %s", l.Code, l.Origin)
	}
}
