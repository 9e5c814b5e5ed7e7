package imports

import (
	"encoding/json"

	"anvil/schemas"
	"anvil/stages/record"
)

// statedIn are the weaknesses that a record of another producer states in plain
// words, by its kind (records.md 3): they must survive to any later record.
func statedIn(kind schemas.ID, src []byte) []string {
	var doc struct {
		Limitations json.RawMessage `json:"limitations"`  // of a serving cell: texts
		Caveat      json.RawMessage `json:"cache_caveat"` // of a derived summary: a text
		Limits      json.RawMessage `json:"limits"`       // of a live run: a text
	}
	if json.Unmarshal(src, &doc) != nil {
		return nil // the rules of the kind say what it is then
	}
	var texts []string
	switch kind {
	case record.ServingCellSchema:
		_ = json.Unmarshal(doc.Limitations, &texts)
	case record.DerivedSummarySchema:
		texts = text(doc.Caveat)
	case record.LiveRunSchema:
		texts = text(doc.Limits)
	}
	return texts
}

func text(raw json.RawMessage) []string {
	var s string
	if json.Unmarshal(raw, &s) != nil || s == "" {
		return nil
	}
	return []string{s}
}
