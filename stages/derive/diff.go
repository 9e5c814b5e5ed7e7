package derive

import (
	"cmp"
	"slices"

	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// A RecordDiff is what two final records say differently: `run diff` without
// its stages (contracts.md 5).
type RecordDiff struct {
	Metrics     []MetricDiff    `json:"metrics"`
	Verdicts    []VerdictDiff   `json:"verdicts"`
	Limitations LimitationsDiff `json:"limitations"`
}

// A MetricDiff is a metric of one cell whose value differs. A side is null
// where the record withholds the metric or has no such cell.
type MetricDiff struct {
	Cell   string   `json:"cell"`
	ID     string   `json:"id"`
	Unit   string   `json:"unit"`
	Before *float64 `json:"before"`
	After  *float64 `json:"after"`
}

// A VerdictDiff is a case that was judged differently, or that one side lacks.
type VerdictDiff struct {
	Cell   string  `json:"cell"`
	Item   *string `json:"item"`
	Index  int     `json:"index"`
	Before *string `json:"before"` // verdict, or the outcome where nothing was graded
	After  *string `json:"after"`
	Reason string  `json:"reason"`
}

// LimitationsDiff are the limitations that only one side carries.
type LimitationsDiff struct {
	Added   stage.LimitationSet `json:"added"`
	Removed stage.LimitationSet `json:"removed"`
}

// Diff compares two final records cell by cell. It compares what they say, and
// makes no claim that the two may be compared: that is the business of compare.
func Diff(before, after *record.Final) RecordDiff {
	d := RecordDiff{Metrics: []MetricDiff{}, Verdicts: []VerdictDiff{}, Limitations: LimitationsDiff{
		Added:   append(stage.LimitationSet{}, after.Limitations.Missing(before.Limitations)...),
		Removed: append(stage.LimitationSet{}, before.Limitations.Missing(after.Limitations)...),
	}}
	for _, id := range cellIDs(before, after) {
		b, a := findCell(before, id), findCell(after, id)
		d.Metrics = append(d.Metrics, diffMetrics(id, b.Metrics, a.Metrics)...)
		d.Verdicts = append(d.Verdicts, diffCases(id, b.Cases, a.Cases)...)
	}
	return d
}

func cellIDs(records ...*record.Final) []string {
	var ids []string
	for _, r := range records {
		for _, c := range r.Cells {
			if !slices.Contains(ids, c.ID) {
				ids = append(ids, c.ID)
			}
		}
	}
	return ids
}

func findCell(r *record.Final, id string) record.Cell {
	i := slices.IndexFunc(r.Cells, func(c record.Cell) bool { return c.ID == id })
	if i < 0 {
		return record.Cell{}
	}
	return r.Cells[i]
}

func diffMetrics(cell string, before, after []record.Metric) []MetricDiff {
	values := map[string]*MetricDiff{}
	var order []string
	note := func(m record.Metric) *MetricDiff {
		if values[m.ID] == nil {
			values[m.ID] = &MetricDiff{Cell: cell, ID: m.ID, Unit: m.Unit}
			order = append(order, m.ID)
		}
		return values[m.ID]
	}
	for _, m := range before {
		note(m).Before = m.Value
	}
	for _, m := range after {
		note(m).After = m.Value
	}
	var out []MetricDiff
	for _, id := range order {
		if v := values[id]; !same(v.Before, v.After) {
			out = append(out, *v)
		}
	}
	return out
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func diffCases(cell string, before, after []record.Case) []VerdictDiff {
	cases := map[int]*VerdictDiff{}
	side := func(c record.Case) (*VerdictDiff, *string) {
		v := cases[c.Index]
		if v == nil {
			v = &VerdictDiff{Cell: cell, Item: c.Item, Index: c.Index}
			cases[c.Index] = v
		}
		said := string(c.Outcome)
		if c.Verdict != nil {
			said = string(*c.Verdict)
		}
		return v, &said
	}
	for _, c := range before {
		v, said := side(c)
		v.Before = said
	}
	for _, c := range after {
		v, said := side(c)
		v.After = said
	}
	var out []VerdictDiff
	for _, v := range cases {
		if !same(v.Before, v.After) {
			v.Reason = whyCaseDiffers(v)
			out = append(out, *v)
		}
	}
	slices.SortFunc(out, func(a, b VerdictDiff) int { return cmp.Compare(a.Index, b.Index) })
	return out
}

func whyCaseDiffers(v *VerdictDiff) string {
	switch {
	case v.Before == nil:
		return "only in the second run"
	case v.After == nil:
		return "only in the first run"
	}
	return "judged differently"
}
