package derive

import (
	"fmt"
	"slices"

	"anvil/stages/record"
)

// checkIdentities checks what must add up within the record itself, beside
// what package record checks of any: cases, correctness, groups.
func (v *validation) checkIdentities() {
	for i, c := range v.final.Cells {
		at := fmt.Sprintf("/cells/%d", i)
		v.checkCases(c, at)
		v.checkCorrectness(c, at)
	}
	for i, g := range v.final.Groups {
		for j, id := range g.Cells {
			if !slices.ContainsFunc(v.final.Cells, func(c record.Cell) bool { return c.ID == id }) {
				v.problem(record.LevelConsistent, v.rec, fmt.Sprintf("/groups/%d/cells/%d", i, j), "group", id, nil, "no cell has this id")
			}
		}
	}
}

func (v *validation) checkCases(c record.Cell, at string) {
	if len(c.Cases) != c.Accounting.Planned {
		v.problem(record.LevelConsistent, v.rec, at+"/cases", "cases", len(c.Cases), c.Accounting.Planned, "there is not one case for each planned request")
	}
	outcomes, verdicts := map[record.Outcome]int{}, map[record.Verdict]int{}
	for i, k := range c.Cases {
		outcomes[k.Outcome]++
		if k.Verdict != nil {
			verdicts[*k.Verdict]++
		}
		if k.Index != i {
			v.problem(record.LevelConsistent, v.rec, fmt.Sprintf("%s/cases/%d/index", at, i), "cases", k.Index, i, "the cases are not in order of index")
		}
	}
	for _, o := range record.Outcomes() {
		if outcomes[o] != c.Accounting.Outcomes[o] {
			v.problem(record.LevelConsistent, v.rec, at+"/accounting/outcomes/"+string(o), "cases", c.Accounting.Outcomes[o], outcomes[o], "the cases count another number of outcome %s", o)
		}
	}
	for _, k := range record.Verdicts() {
		if verdicts[k] != c.Accounting.Verdicts[k] {
			v.problem(record.LevelConsistent, v.rec, at+"/accounting/verdicts/"+string(k), "cases", c.Accounting.Verdicts[k], verdicts[k], "the cases count another number of verdict %s", k)
		}
	}
}

func (v *validation) checkCorrectness(c record.Cell, at string) {
	if c.Correctness == nil {
		if c.Accounting.Verdicts != nil {
			v.problem(record.LevelConsistent, v.rec, at+"/correctness", "correctness", nil, nil, "there are verdicts and no correctness")
		}
		return
	}
	want := correctness(c.Accounting.Verdicts, c.Accounting.Planned, c.Correctness.Reduced, share{})
	for _, p := range []struct {
		name         string
		stored, want record.Proportion
	}{
		{"strict", c.Correctness.Strict, want.Strict},
		{"answered", c.Correctness.Answered, want.Answered},
		{"coverage", c.Correctness.Coverage, want.Coverage},
	} {
		if p.stored.Numerator != p.want.Numerator || p.stored.Denominator != p.want.Denominator {
			v.problem(record.LevelConsistent, v.rec, at+"/correctness/"+p.name, "correctness",
				fmt.Sprintf("%d/%d", p.stored.Numerator, p.stored.Denominator), fmt.Sprintf("%d/%d", p.want.Numerator, p.want.Denominator),
				"%s is not the share that the verdicts give", p.name)
		}
	}
}
