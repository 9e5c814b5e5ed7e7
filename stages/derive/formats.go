package derive

import (
	"anvil/pipeline/stage"
	"anvil/schemas"
	"anvil/stages/record"
)

// A Format is one document that summarize writes.
type Format struct {
	Name     string // of the output
	Schema   schemas.ID
	Optional bool // written on request, and only where the evidence allows it
	Wanted   func(SummarizeConfig) bool
	Build    func(*Summary, stage.LimitationSet) ([]byte, error)
}

// Formats is the table: a new format is one file and one line here.
func Formats() []Format {
	return []Format{
		{"record.json", record.FinalSchema, false, always, (*Summary).Document},
		servingCellFormat,
		derivedSummaryFormat,
	}
}

// SummarizeOutputs returns the outputs of summarize: the table's.
func SummarizeOutputs() []stage.Port {
	return mapOf(Formats(), func(f Format) stage.Port {
		return stage.Port{Name: f.Name, Schema: f.Schema, Optional: f.Optional}
	})
}

func always(SummarizeConfig) bool { return true }
