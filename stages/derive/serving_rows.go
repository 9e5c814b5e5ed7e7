package derive

import (
	"fmt"
	"slices"
	"strings"

	"anvil/pipeline/digest"
	"anvil/stages/record"
)

// servingRow is what a serving cell takes from one attempt. Rows are kept only
// when the plan asks for one.
type servingRow struct {
	index  int
	prompt digest.Digest
	record.ServingCellCase
}

// servingRow takes an attempt as it is without grades; its verdict comes later.
func (c *cell) servingRow(a *record.Attempt) servingRow {
	r := servingRow{index: a.Index, prompt: a.PromptSHA256}
	r.Outcome, r.Observed = ungraded(a.Outcome), a.T.Start != nil
	r.Answered = answered(a.Outcome)
	r.ModelVerified = a.Model != nil && *a.Model == c.header.Endpoint.Model
	r.InputTokens, r.OutputTokens = a.Usage.Input, a.Usage.Output
	r.DurationMS = spanMS(a.T.Start, a.T.End)
	r.FirstGeneratedMS = spanMS(a.T.Start, a.T.FirstOutput)
	if freeOfThinkTags(a) {
		r.FirstFinalMS = spanMS(a.T.Start, a.T.FirstContent)
	}
	if !a.Outcome.Success() {
		r.Summary = new(strings.ReplaceAll(string(a.Outcome), "_", " "))
	}
	return r
}

func spanMS(from, to *int64) *float64 {
	ns, ok := span(from, to)
	if !ok {
		return nil
	}
	return new(float64(ns) / nsPerMS)
}

// ungraded is the last column of the table in streams.md 5: what was not answered
// in time, or not sent, is no error; an answer that nobody judged is one, being
// neither right nor wrong.
func ungraded(o record.Outcome) string {
	for name, outcomes := range map[string][]record.Outcome{
		"timeout": {record.OutcomeStalledFirst, record.OutcomeStalledMid, record.OutcomeTotalTimeout},
		"not_run": {record.OutcomeClientShed, record.OutcomeClientAbort, record.OutcomeNotStarted},
	} {
		if slices.Contains(outcomes, o) {
			return name
		}
	}
	return "error"
}

// answered tells whether the answer reached its end mark.
func answered(o record.Outcome) bool {
	return o.Success() || slices.Contains([]record.Outcome{record.OutcomeEmpty, record.OutcomeCanaryFailed, record.OutcomeLengthMismatch}, o)
}

// freeOfThinkTags needs the whole visible text: one that was not kept, or not
// to its end, is not known to be free of them.
func freeOfThinkTags(a *record.Attempt) bool {
	return a.Text != nil && !a.TextTruncated && !strings.Contains(*a.Text, "<think") && !strings.Contains(*a.Text, "</think")
}

// servingCases are the rows in order of index with their verdicts. A prompt
// that was sent twice is no second case.
func (c *cell) servingCases() ([]record.ServingCellCase, []digest.Digest, error) {
	rows := slices.SortedFunc(slices.Values(c.rows), func(a, b servingRow) int { return a.index - b.index })
	first := map[digest.Digest]int{}
	cases, prompts := make([]record.ServingCellCase, len(rows)), make([]digest.Digest, len(rows))
	for i, r := range rows {
		if j, twice := first[r.prompt]; twice {
			return nil, nil, fmt.Errorf("requests %d and %d send one prompt: a serving cell counts each prompt once", j, i)
		}
		first[r.prompt] = i
		prompts[i], cases[i] = r.prompt, r.ServingCellCase
		if v := c.out.Cases[i].Verdict; v != nil && (*v == record.Pass || *v == record.Fail) {
			cases[i].Outcome = string(*v)
		}
	}
	return cases, prompts, nil
}
