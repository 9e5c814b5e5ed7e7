package derive

import (
	"slices"

	"anvil/stages/record"
)

// metrics computes every row of the closed list from the tally of a cell.
func (t *tally) metrics(method string, wallMS float64) []record.Metric {
	out := make([]record.Metric, 0, len(Metrics()))
	for _, row := range Metrics() {
		out = append(out, row.metric(t.planned, t.value(row, method, wallMS)))
	}
	return out
}

func (t *tally) value(row MetricRow, method string, wallMS float64) figureValue {
	switch row.Figure {
	case "":
		return totals[row.ID](t, wallMS)
	case chunkGap:
		v := t.distribution(&t.gaps, t.gapped, row.Statistic, method, noGaps)
		v.observations = new(t.gaps.len())
		return v
	}
	i := slices.IndexFunc(figures, func(f figure) bool { return f.name == row.Figure })
	s := &t.series[i]
	return t.distribution(s, s.len(), row.Statistic, method, figures[i].none)
}

func (t *tally) distribution(s *series, requests int, statistic, method, none string) figureValue {
	v := figureValue{samples: requests}
	if _, quantile := percentOf(statistic); quantile {
		v.method = method
	}
	switch {
	case t.planned == 0:
		v.reason = nothingPlanned
	case requests == 0 && t.succeeded() == 0:
		v.reason = "no request succeeded"
	case requests == 0:
		v.reason = none
	default:
		v.value, v.reason = s.statistic(statistic, method, requests)
	}
	return v
}
