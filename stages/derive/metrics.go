package derive

import (
	"encoding/json"
	"sync"

	"anvil/schemas"
	"anvil/stages/record"
)

// A MetricRow is one row of schemas/metrics.json, the closed list of metrics.
type MetricRow struct {
	ID         string     `json:"id"`
	Label      string     `json:"label"`
	Unit       string     `json:"unit"`
	Direction  *string    `json:"direction"` // which way is better; null: neither
	Definition string     `json:"definition"`
	Method     string     `json:"method"`    // nearest_rank stands for the plan's choice of quantile
	Figure     string     `json:"figure"`    // what one request contributes; "" for a total
	Statistic  string     `json:"statistic"` // p50, mean, …; total
	Seeds      []SeedName `json:"seeds"`     // the same figure in records of other kinds
}

// A SeedName is the name of an equal figure in another record kind.
type SeedName struct {
	Schema schemas.ID `json:"schema"`
	Name   string     `json:"name"`
}

// Metrics returns the closed list in the order in which records show it; do
// not change it.
var Metrics = sync.OnceValue(func() []MetricRow {
	src, err := schemas.Table("metrics.json")
	if err != nil {
		panic(err)
	}
	var rows []MetricRow
	if err := json.Unmarshal(src, &rows); err != nil {
		panic(err)
	}
	return rows
})

// notComputed is the reason for intervals until they are computed.
const notComputed = "not computed yet"

// metric fills what the table says about a figure.
func (row MetricRow) metric(planned int, f figureValue) record.Metric {
	m := record.Metric{
		ID: row.ID, Label: row.Label, Unit: row.Unit, Direction: row.Direction,
		Samples: f.samples, Excluded: planned - f.samples, Observations: f.observations,
		Definition: row.Definition, Method: row.Method,
	}
	if f.method != "" {
		m.Method = f.method
	}
	switch {
	case f.reason != "":
		m.Reason = &f.reason
		m.IntervalReason = new("there is no value")
	default:
		m.Value = &f.value
		m.IntervalReason = new(notComputed)
	}
	return m
}

// A figureValue is a value, or the reason why there is none.
type figureValue struct {
	value        float64
	reason       string
	samples      int // requests
	observations *int
	method       string // "": the table's
}
