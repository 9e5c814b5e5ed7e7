package derive

import (
	"fmt"
	"slices"

	"anvil/stages/record"
)

// A Gate says which grades are good enough. Nothing set: no gate.
type Gate struct {
	GateRule
	Tags               map[string]GateRule `json:"tags"`
	WithholdThroughput bool                `json:"withhold_throughput"`
}

// A GateRule bounds two shares from below. The pass rate is over all planned
// requests (strict) or over those that were judged (answered).
type GateRule struct {
	MinPassRate *float64 `json:"min_pass_rate"`
	Denominator string   `json:"denominator"`
	MinCoverage *float64 `json:"min_coverage"`
}

// check returns nil without a gate. A tag is one of the dataset's rows, whose
// verdicts count then; else one of graders, and their verdicts on all rows count.
func (g Gate) check(rows []record.Grade, graderTags map[string][]string) *record.GateResult {
	if g.MinPassRate == nil && g.MinCoverage == nil && len(g.Tags) == 0 {
		return nil
	}
	out := &record.GateResult{Failures: []string{}, WithholdThroughput: g.WithholdThroughput}
	out.Failures = append(out.Failures, g.failures("", countVerdicts(rows), len(rows))...)
	for _, tag := range sortedKeys(g.Tags) {
		tagged := slices.DeleteFunc(slices.Clone(rows), func(r record.Grade) bool { return !slices.Contains(r.Tags, tag) })
		counts, n := countVerdicts(tagged), len(tagged)
		if ids, ok := graderTags[tag]; ok && n == 0 {
			counts, n = countOf(rows, ids), len(rows)
		}
		out.Failures = append(out.Failures, g.Tags[tag].failures("tag "+tag+": ", counts, n)...)
	}
	out.Passed = len(out.Failures) == 0
	return out
}

// countOf tallies the verdicts of some graders alone, one for each row.
func countOf(rows []record.Grade, ids []string) map[record.Verdict]int {
	counts := countVerdicts(nil)
	for _, row := range rows {
		var all []weighted
		for _, r := range row.Graders {
			if slices.Contains(ids, r.ID) {
				all = append(all, weighted{judgement{verdict: r.Verdict}, 1, r.ID})
			}
		}
		one := record.Grade{Outcome: row.Outcome}
		combine(all, &one)
		counts[one.Verdict]++
	}
	return counts
}

func (r GateRule) failures(who string, counts map[record.Verdict]int, planned int) []string {
	var out []string
	passed, judged := counts[record.Pass], counts[record.Pass]+counts[record.Fail]
	of, name := planned, "strict"
	if r.Denominator == "answered" {
		of, name = judged, "answered"
	}
	if r.MinPassRate != nil && !reaches(passed, of, *r.MinPassRate) {
		out = append(out, fmt.Sprintf("%s%s pass rate %s, at least %v is wanted", who, name, ratio(passed, of), *r.MinPassRate))
	}
	if r.MinCoverage != nil && !reaches(judged, planned, *r.MinCoverage) {
		out = append(out, fmt.Sprintf("%scoverage %s, at least %v is wanted", who, ratio(judged, planned), *r.MinCoverage))
	}
	return out
}

// reaches is false for a share of nothing: what nobody judged has not passed.
func reaches(n, of int, least float64) bool { return of > 0 && float64(n)/float64(of) >= least }

func ratio(n, of int) string {
	if of == 0 {
		return "unknown (nothing was judged)"
	}
	return fmt.Sprintf("%.4g (%d of %d)", float64(n)/float64(of), n, of)
}
