package derive

import "anvil/stages/record"

// adherence counts the answers that hold exactly the words that were asked for.
// A benchmark record states it of completed requests alone, where a cell half of
// which failed the count reads 1.0; here the failed stay in the denominator
// (records.md 2.5).
type adherence struct {
	asked bool // a length in words was requested
	exact int
}

// ask reads the request for words from the resolved workload.
func (d *adherence) ask(workload any) {
	m, _ := workload.(map[string]any)
	_, asked := wholeNumber(m["response_words"])
	d.asked = d.asked || asked
}

func (d *adherence) add(a *record.Attempt) {
	c := a.ControlledOutput
	if c == nil {
		return
	}
	d.asked = true
	if a.Outcome.Success() && c.ExactAdherence != nil && *c.ExactAdherence {
		d.exact++
	}
}

func (t *tally) adherenceShare(float64) figureValue {
	if !t.words.asked {
		return figureValue{reason: "no length was requested in words"}
	}
	return t.share(t.words.exact)
}
