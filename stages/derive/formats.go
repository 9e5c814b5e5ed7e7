package derive

import (
	"anvil/pipeline/stage"
	"anvil/schemas"
	"anvil/stages/record"
)

// A Format is one document that summarize writes.
type Format struct {
	Name   string // of the output
	Schema schemas.ID
	Wanted func(SummarizeConfig) bool
	Build  func(*Summary, stage.LimitationSet) ([]byte, error)
}

// Formats is the table: a new format is one file and one line here.
func Formats() []Format {
	return []Format{
		{"record.json", record.FinalSchema, always, (*Summary).Document},
	}
}

func always(SummarizeConfig) bool { return true }
