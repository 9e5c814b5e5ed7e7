package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// headline are the metrics of the table that ends a run, in its order.
var headline = []string{
	"ttft_p50_ms", "ttft_p95_ms", "time_to_first_output_p50_ms", "tpot_p50_ms", "e2e_p50_ms", "e2e_p95_ms",
	"output_tokens_per_s", "requests_per_s", goodput, "error_rate",
}

// goodput is shown only of a cell that has objectives.
const goodput = "goodput_per_s"

const simulatedBanner = "\nSIMULATED: the engine is anvil's embedded simulator; no figure below describes hardware or a language model."

// writeRecordTable shows what a final record says: per cell the accounting, the
// correctness and the headline metrics, then every limitation: of the record, and
// of what else the run published.
func writeRecordTable(w io.Writer, r *record.Final, ofRun stage.LimitationSet) {
	if r.EvidenceMode == "controlled" {
		fmt.Fprintln(w, simulatedBanner)
	}
	if r.Status != "completed" {
		fmt.Fprintf(w, "\n%s: the measurement did not reach its end.\n", strings.ToUpper(r.Status))
	}
	for _, c := range r.Cells {
		writeCell(w, c)
	}
	writeLimitations(w, r.Limitations.Union(ofRun))
}

// writeLimitations shows all of them: none is ever left out of a list.
func writeLimitations(w io.Writer, set stage.LimitationSet) {
	fmt.Fprintf(w, "\nLimitations (%d)\n", len(set))
	for _, l := range set {
		fmt.Fprintf(w, "  %-7s %s [%s]\n          %s\n", l.Severity, line(l.Code), line(l.Origin), line(l.Text))
	}
}

func writeCell(w io.Writer, c record.Cell) {
	fmt.Fprintf(w, "\n%s\n", line(c.ID))
	fmt.Fprintf(w, "  requests  %d planned: %s\n", c.Accounting.Planned, tally(c.Accounting.Outcomes))
	switch {
	case c.Correctness != nil:
		fmt.Fprintf(w, "  verdicts  %s\n", tally(c.Accounting.Verdicts))
		fmt.Fprintf(w, "  correct   %s of planned, %s of answered, %s answered\n",
			proportion(c.Correctness.Strict), proportion(c.Correctness.Answered), proportion(c.Correctness.Coverage))
	case c.CorrectnessReason != nil:
		fmt.Fprintf(w, "  correct   %s\n", line(*c.CorrectnessReason))
	}
	writeMetrics(w, c.Metrics)
}

func writeMetrics(w io.Writer, all []record.Metric) {
	var shown []record.Metric
	intervals, why := false, ""
	for _, id := range headline {
		i := slices.IndexFunc(all, func(m record.Metric) bool { return m.ID == id })
		if i < 0 {
			continue
		}
		m := all[i]
		if m.ID == goodput && m.Value == nil && m.Samples == 0 {
			continue
		}
		shown = append(shown, m)
		intervals = intervals || m.Interval != nil
		if m.Value != nil && m.IntervalReason != nil {
			why = *m.IntervalReason
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "  metric\tvalue\tn\texcluded"
	if intervals {
		head += "\tinterval"
	}
	fmt.Fprintln(t, head)
	for _, m := range shown {
		writeMetric(t, m, intervals)
	}
	t.Flush()
	if !intervals && why != "" {
		fmt.Fprintf(w, "  intervals of these figures: %s\n", line(why)) // once, not in every row
	}
}

func writeMetric(w io.Writer, m record.Metric, intervals bool) {
	value, interval := withheld(m.Reason), ""
	if m.Value != nil {
		value = figure(*m.Value) + " " + m.Unit
		interval = withheld(m.IntervalReason)
		if m.Interval != nil {
			interval = fmt.Sprintf("%s to %s (%g%%)", figure(m.Interval.Low), figure(m.Interval.High), 100*m.Interval.Level)
		}
	}
	fmt.Fprintf(w, "  %s\t%s\t%d\t%d", m.ID, line(value), m.Samples, m.Excluded)
	if intervals {
		fmt.Fprintf(w, "\t%s", line(interval))
	}
	fmt.Fprintln(w)
}

// figure shows a value to four significant digits, and whole from 1,000 on: the
// record holds every digit.
func figure(v float64) string {
	if v >= 1000 || v <= -1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func proportion(p record.Proportion) string {
	return fmt.Sprintf("%d/%d", p.Numerator, p.Denominator)
}

func withheld(reason *string) string {
	if reason == nil || *reason == "" {
		return "withheld: no reason stated"
	}
	return "withheld: " + strings.TrimPrefix(*reason, "withheld: ")
}

// tally writes counts as "6 ok, 2 truncated", the commonest first.
func tally[K ~string](counts map[K]int) string {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b K) int {
		if d := counts[b] - counts[a]; d != 0 {
			return d
		}
		return strings.Compare(string(a), string(b))
	})
	var parts []string
	for _, k := range keys {
		if counts[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[k], line(string(k))))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
