package derive

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"anvil/pipeline/digest"
	"anvil/stages/record"
)

// A grader judges one answer. It is a pure function of the attempt and the
// dataset's row.
type grader interface{ judge(a *answer) judgement }

// An answer is what a grader sees.
type answer struct {
	attempt *record.Attempt
	row     *datasetRow // nil: the request was no item of the dataset
	text    string      // the field, after extraction
	offset  int         // of text in the stored text, bytes; -1: it is no part of it
}

// A judgement is what a grader says. Score is 0 to 1.
type judgement struct {
	verdict   record.Verdict
	score     float64
	extracted *string
	span      *[2]int
	reason    string
}

// maxExtracted bounds what a grade repeats of an answer; the span holds the whole.
const maxExtracted = 1024

func pass(reason string) judgement { return judgement{verdict: record.Pass, score: 1, reason: reason} }

func fail(format string, args ...any) judgement {
	return judgement{verdict: record.Fail, reason: fmt.Sprintf(format, args...)}
}

func unscorable(reason string) judgement {
	return judgement{verdict: record.Unscorable, reason: reason}
}

func graderError(format string, args ...any) judgement {
	return judgement{verdict: record.GraderError, reason: fmt.Sprintf(format, args...)}
}

// passWhen is pass or fail with the same reason.
func passWhen(ok bool, reason string) judgement {
	if ok {
		return pass(reason)
	}
	return judgement{verdict: record.Fail, reason: reason}
}

// from notes which part of the answer's text the judgement is about.
func (j judgement) from(a *answer, from, to int) judgement {
	text := a.text[from:to]
	for cut := maxExtracted; len(text) > maxExtracted; cut-- {
		if utf8.RuneStart(text[cut]) {
			text = text[:cut]
		}
	}
	j.extracted = &text
	if a.offset >= 0 {
		j.span = &[2]int{a.offset + from, a.offset + to}
	}
	return j
}

// quoted shortens text for a reason.
func quoted(s string) string { return fmt.Sprintf("%q", shortened(s)) }

// shown spells a JSON value for a reason: text stands in quotes once, so that
// "7" and 7 are told apart.
func shown(v any) string {
	if s, ok := v.(string); ok {
		return quoted(s)
	}
	return shortened(marshalText(v))
}

func shortened(s string) string {
	const most = 80
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return s
}

// expected follows a pointer into the row; the judgement is why it cannot.
func (a *answer) expected(pointer string) (any, *judgement) {
	if a.row == nil {
		return nil, new(graderError("the request is no item of the dataset, so nothing is expected of it"))
	}
	v, ok := lookup(a.row.members, pointer)
	if !ok {
		return nil, new(graderError("the dataset's row has no %s", pointer))
	}
	return v, nil
}

// A literalSource is `value` or `from`.
type literalSource struct {
	value   any
	given   bool
	pointer string
}

func (l literalSource) get(a *answer) (any, *judgement) {
	if l.given {
		return l.value, nil
	}
	return a.expected(l.pointer)
}

// texts gives the acceptable texts: a scalar, or a list of them.
func (l literalSource) texts(a *answer) ([]string, *judgement) {
	v, problem := l.get(a)
	if problem != nil {
		return nil, problem
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var out []string
	for _, item := range list {
		s, ok := scalarText(item)
		if !ok {
			return nil, new(graderError("what is expected is no text, number or boolean, nor a list of such"))
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, new(graderError("the list of what is expected is empty"))
	}
	return out, nil
}

// scalarText spells a JSON scalar as an answer would.
func scalarText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return fmt.Sprint(v), true
	case nil:
		return "null", true
	}
	return "", false
}

// A wrapped grader is a grader with what all have in common: the field it
// looks at, the extraction, `not`.
type wrapped struct {
	spec    GraderSpec
	subject subject
	inner   grader
	extract *extraction
}

func (w *wrapped) judge(a *answer) judgement {
	here := answer{attempt: a.attempt, row: a.row, offset: -1}
	switch w.subject {
	case ofGraders: // each sees for itself
	case ofAnswer:
		if !hasAnswer(a.attempt) {
			return unscorable(string(a.attempt.Outcome))
		}
	case ofText:
		text, ok, why := fieldText(a.attempt, w.spec.Field)
		if !ok {
			return why
		}
		here.text = text
		if w.spec.Field != fieldToolCalls {
			here.offset = 0
		}
	}
	if w.extract != nil {
		from, to, text, err := w.extract.apply(here.text)
		if err != nil {
			return w.negate(fail("%v", err))
		}
		here.text = text
		if here.offset >= 0 {
			here.offset += from
		}
		if to-from != len(text) {
			here.offset = -1 // a decoded string is no part of the text
		}
	}
	return w.negate(w.inner.judge(&here))
}

func (w *wrapped) negate(j judgement) judgement {
	if !w.spec.Not {
		return j
	}
	switch j.verdict {
	case record.Pass:
		j.verdict, j.score, j.reason = record.Fail, 1-j.score, "not wanted: "+j.reason
	case record.Fail:
		j.verdict, j.score, j.reason = record.Pass, 1-j.score, "as wanted, not so: "+j.reason
	case record.Unscorable, record.GraderError: // there is no answer to turn round
	}
	return j
}

const (
	fieldContent   = "content"
	fieldReasoning = "reasoning"
	fieldToolCalls = "tool_calls"
)

var noText = digest.FromBytes(nil)

// fieldText gives what a text grader looks at; without an answer it is
// unscorable, and the outcome is the reason.
func fieldText(a *record.Attempt, field string) (string, bool, judgement) {
	missing := unscorable(string(a.Outcome))
	switch field {
	case fieldToolCalls:
		if len(a.ToolCalls) == 0 {
			return "", false, missing
		}
		return marshalText(a.ToolCalls), true, judgement{}
	case fieldReasoning:
		if a.Reasoning == nil && a.Text == nil {
			return "", false, unscorable("the text was not stored")
		}
		if a.Reasoning == nil || *a.Reasoning == "" {
			return "", false, missing
		}
		return *a.Reasoning, true, judgement{}
	}
	switch {
	case a.Text == nil && a.T.FirstContent != nil && a.TextSHA256 != noText:
		return "", false, unscorable("the text was not stored")
	case a.Text == nil || *a.Text == "":
		return "", false, missing
	case a.TextTruncated && digest.FromBytes([]byte(*a.Text)) != a.TextSHA256:
		return "", false, unscorable("the stored text is cut")
	}
	return *a.Text, true, judgement{}
}

// hasAnswer tells whether there is anything to judge: a truncated request may
// have ended among its thoughts.
func hasAnswer(a *record.Attempt) bool {
	switch {
	case len(a.ToolCalls) > 0:
		return true
	case a.Text != nil:
		return *a.Text != ""
	}
	return a.T.FirstContent != nil && a.TextSHA256 != noText
}

// errNoMatch is why an extraction found nothing: the answer is not in the form
// that was asked for, which is a failure and no fault of the grader.
var errNoMatch = errors.New("extract: nothing in the answer matches")

// lastLine returns the bounds of the last line that is not blank.
func lastLine(text string) (from, to int) {
	_, to = trimmed(text)
	from = strings.LastIndexByte(text[:to], '\n') + 1
	blank, _ := trimmed(text[from:to])
	return from + blank, to
}
