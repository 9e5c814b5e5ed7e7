package derive

import (
	"cmp"
	"fmt"
	"slices"

	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// withholding returns, by metric id, why a figure of the cell is not stated: a
// void limitation applies to it, or a failed gate takes the throughput away.
// Every document that states one of them asks here. A limitation that stands
// only in the evidence of other cells is theirs.
func (c *cell) withholding(set stage.LimitationSet, all []*cell) map[string]string {
	own := c.limitations()
	why := voided(set, func(l stage.Limitation) bool { return !foreign(l, own, c, all) })
	if c.gateWithholds() {
		for id := range throughputs {
			if why[id] == "" {
				why[id] = "withheld: the gate of the grades of " + c.grades.artifact.Stage + " failed"
			}
		}
	}
	return why
}

// voided returns the metrics to which void limitations apply, each with the
// first reason.
func voided(set stage.LimitationSet, counts func(stage.Limitation) bool) map[string]string {
	why := map[string]string{}
	for _, l := range set {
		if l.Severity != stage.Void || !counts(l) {
			continue
		}
		for _, row := range Metrics() {
			if why[row.ID] == "" && (slices.Contains(l.AppliesTo, row.ID) || slices.Contains(l.AppliesTo, stage.Every)) {
				why[row.ID] = fmt.Sprintf("withheld by limitation %s of %s", l.Code, l.Origin)
			}
		}
	}
	return why
}

// servingTwins are the figures of a serving cell that a metric of the record
// states as well.
var servingTwins = []struct{ id, twin, label string }{
	{"completion_throughput_tps", "output_tokens_per_s", "Completion throughput"},
	{"first_generated_median_ms", "time_to_first_output_p50_ms", "First generated output"},
	{"first_final_content_median_ms", "ttft_p50_ms", "First final content"},
	{"completion_median_ms", "e2e_p50_ms", "Request completion, median"},
	{"completion_p95_ms", "e2e_p95_ms", "Request completion, p95"},
	{"stream_chunk_interval_median_ms", "chunk_gap_p50_ms", "Stream chunk interval"},
	{"batch_duration_seconds", "duration_s", "Measured batch duration"},
}

// servingWithheld takes out of a serving cell what the record withholds, and
// says so in its conditions. The durations of the cases state the median and the
// p95 of completion, so they go with these, and so do the counts behind the
// smallest and the largest input.
func servingWithheld(in *record.ServingCellInput, why map[string]string, say func(label, value string)) {
	for _, t := range servingTwins {
		if reason := why[t.twin]; reason != "" {
			in.Withheld = append(in.Withheld, t.id)
			say(t.label, upperFirst(reason))
		}
	}
	if why["e2e_p50_ms"]+why["e2e_p95_ms"] != "" {
		for i := range in.Cases {
			in.Cases[i].DurationMS = nil
		}
	}
	if reason := cmp.Or(why["prompt_tokens_min"], why["prompt_tokens_max"]); reason != "" {
		for i := range in.Cases {
			in.Cases[i].InputTokens = nil
		}
		say("Actual input tokens", upperFirst(reason))
	}
	if reason := why["in_flight_peak"]; reason != "" {
		in.ObservedPeakInflight = nil
		for i := range in.Conditions {
			if in.Conditions[i].Label == record.PeakOverlapLabel {
				in.Conditions[i].Value = "Not recorded; " + reason
			}
		}
	}
}

func upperFirst(s string) string { return string(s[0]-'a'+'A') + s[1:] } // reasons begin with "withheld"

// copiedFigures are the metrics of the record that a derived summary states.
var copiedFigures = []string{
	"output_tokens_per_s", "ttft_p50_ms", "e2e_p50_ms", "ttft_mean_ms", "e2e_mean_ms", "tpot_mean_ms", "duration_s",
}

// summaryWithheld says why a summary may not copy its source: the kind has no
// null for a figure that the source states.
func (s *Summary) summaryWithheld(set stage.LimitationSet) error {
	why := voided(s.source.artifact.LimitationSet(), func(stage.Limitation) bool { return true })
	for _, c := range s.cells {
		if slices.ContainsFunc(c.own, func(a stage.Artifact) bool { return a.SHA256 == s.source.artifact.SHA256 }) {
			why = c.withholding(set, s.cells)
		}
	}
	for _, id := range copiedFigures {
		if why[id] != "" {
			return fmt.Errorf("it would copy a figure that is not stated: %s is %s", id, why[id])
		}
	}
	return nil
}
