package derive

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"anvil/stages/internal/stat"
	"anvil/stages/record"
)

// repetition is the axis whose values are repetitions of one point.
const repetition = "rep"

// sortedAxes is a point of the matrix without its repetition, in one spelling.
func sortedAxes(axes map[string]any) string {
	point := maps.Clone(axes)
	delete(point, repetition)
	text, err := json.Marshal(point) // keys sorted
	if err != nil {
		return fmt.Sprint(point)
	}
	return string(text)
}

// groups gathers the cells that differ in their repetition alone, in the order
// in which their first cells stand. Without that axis there are none.
func groups(cells []record.Cell) []record.Group {
	out := []record.Group{}
	at := map[string][]record.Cell{}
	var order []string
	for _, c := range cells {
		if _, ok := c.Axes[repetition]; !ok {
			continue
		}
		point := sortedAxes(c.Axes)
		if _, ok := at[point]; !ok {
			order = append(order, point)
		}
		at[point] = append(at[point], c)
	}
	for _, point := range order {
		out = append(out, groupOf(at[point]))
	}
	return out
}

func groupOf(cells []record.Cell) record.Group {
	axes := maps.Clone(cells[0].Axes)
	delete(axes, repetition)
	g := record.Group{Axes: axes, Cells: mapOf(cells, func(c record.Cell) string { return c.ID }), Metrics: []record.GroupMetric{}}
	for i := range cells[0].Metrics {
		g.Metrics = append(g.Metrics, groupMetric(mapOf(cells, func(c record.Cell) record.Metric { return c.Metrics[i] })))
	}
	return g
}

// groupMetric is the mean of one figure over repetitions. A repetition that
// cannot state the figure withholds the mean: leaving it out would choose.
func groupMetric(ms []record.Metric) record.GroupMetric {
	var values []float64
	for _, m := range ms {
		if m.Value != nil {
			values = append(values, *m.Value)
		}
	}
	out := record.GroupMetric{Metric: ms[0]}
	out.Samples, out.Excluded, out.Observations = len(values), len(ms)-len(values), nil
	out.Method = "mean_of_cells"
	out.Value, out.Interval, out.Reason = nil, nil, nil
	if out.Excluded > 0 {
		out.Reason = new(fmt.Sprintf("withheld: %d of %s cannot state it", out.Excluded, plural(len(ms), "repetition")))
		out.IntervalReason = new("there is no value")
		return out
	}
	out.Value, out.Min, out.Max = new(stat.Mean(values)), new(slices.Min(values)), new(slices.Max(values))
	out.IntervalReason = new(notComputed)
	return out
}
