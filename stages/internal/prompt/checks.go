package prompt

import (
	"regexp"
	"strings"

	"anvil/stages/record"
)

var markerRule = regexp.MustCompile(`ANVIL_REQ_-?[0-9]+_[0-9]+`)

// CheckCanary looks for the marker in an answer. Complete says that the whole
// answer was there to look at.
func CheckCanary(marker, answer string, complete bool) *record.Canary {
	c := &record.Canary{Marker: marker, CaptureComplete: complete}
	text := strings.TrimLeft(answer, " \t\r\n")
	for _, at := range markerRule.FindAllStringIndex(text, -1) {
		if text[at[0]:at[1]] != marker {
			c.ForeignMarkerCount++
			continue
		}
		c.ObservedMarkerCount++
		c.MarkerAtStart = c.MarkerAtStart || at[0] == 0
	}
	c.Passed = c.MarkerAtStart && c.ForeignMarkerCount == 0 && complete
	return c
}

// CheckWords compares an answer, less its marker, with the code words that were
// asked for, word by word.
func CheckWords(requested int, strict bool, marker, answer string, complete bool) *record.ControlledOutput {
	c := &record.ControlledOutput{Policy: "observe", RequestedWords: requested, CaptureComplete: complete, Passed: true}
	if strict {
		c.Policy = "strict"
	}
	for w := range strings.FieldsSeq(answer) {
		w = strings.Trim(w, ".,;:")
		switch {
		case marker != "" && w == marker:
		case c.ObservedCodeWords < requested && w == CodeWord(c.ObservedCodeWords+1):
			c.ObservedCodeWords++
		default:
			c.ObservedExtraWords++
		}
	}
	if complete {
		exact := c.ObservedCodeWords == requested && c.ObservedExtraWords == 0
		c.ExactAdherence = &exact
	}
	if strict {
		c.Passed = c.ExactAdherence != nil && *c.ExactAdherence
	}
	return c
}
