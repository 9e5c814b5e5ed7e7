package record

import (
	"bytes"
	"encoding/json"
	"fmt"

	"anvil/pipeline/digest"
	"anvil/schemas"
	"anvil/stages/internal/jsontree"
)

// A Status is the word that `artifact check` prints for a file.
type Status string

// The statuses. Unverified is no fault: nothing in reach witnesses the figures.
const (
	StatusOK         Status = "ok"
	StatusProblems   Status = "problems"
	StatusUnverified Status = "unverified"
)

// A Report says what one file is and whether it holds (contracts.md 5).
type Report struct {
	File       string          `json:"file"`
	Kind       *schemas.ID     `json:"kind"`  // null when it is no known kind
	Shape      *string         `json:"shape"` // of benchmark records
	OK         bool            `json:"ok"`    // no rule is violated
	Status     Status          `json:"status"`
	Problems   []Problem       `json:"problems"`
	Notes      []Note          `json:"notes"`
	Recomputed json.RawMessage `json:"recomputed"` // nests as the record does

	// Unreadable tells that the file could not be read as what it claims to
	// be: no regular file, no JSON, too large.
	Unreadable bool `json:"-"`

	runID  string        // of the kinds that have one
	digest digest.Digest // of the bytes, where they were held
}

// A Problem is one rule that the record violates. Stored and Computed are null
// where there is no such value.
type Problem struct {
	Pointer  string          `json:"pointer"`
	Rule     string          `json:"rule"`
	Stored   json.RawMessage `json:"stored"`
	Computed json.RawMessage `json:"computed"`
	Text     string          `json:"text"`
}

// A Note is a finding that is no fault.
type Note struct {
	Pointer string `json:"pointer"`
	Rule    string `json:"rule"`
	Text    string `json:"text"`
}

// maxProblems bounds what one report holds: a file of a million bad rows is
// bad after the first thousand.
const maxProblems = 1000

// A checker collects what is found in one document.
type checker struct {
	report     Report
	options    Options
	dir        string // where the file lies, "" when it does not
	text       []byte // of a document
	dropped    int
	unverified bool
	recomputed jsontree.Obj
}

func newChecker(file string, options Options) *checker {
	return &checker{options: options, report: Report{File: file, Problems: []Problem{}, Notes: []Note{}}}
}

// done closes the report.
func (c *checker) done() Report {
	r := c.report
	if c.dropped > 0 {
		c.note("", "report.cut", "%d more problems are not listed", c.dropped)
		r.Notes = c.report.Notes
	}
	r.OK = len(r.Problems) == 0
	switch {
	case !r.OK:
		r.Status = StatusProblems
	case c.unverified:
		r.Status = StatusUnverified
	default:
		r.Status = StatusOK
	}
	r.Recomputed = jsonText(c.recomputed)
	return r
}

func (c *checker) kind(id schemas.ID) { c.report.Kind = &id }

// problem adds one; computed is whatever the renderer takes.
func (c *checker) problem(pointer, rule string, stored jsontree.Value, computed any, format string, args ...any) {
	if len(c.report.Problems) >= maxProblems {
		c.dropped++
		return
	}
	p := Problem{Pointer: pointer, Rule: rule, Stored: storedText(stored), Computed: jsonText(computed), Text: fmt.Sprintf(format, args...)}
	c.report.Problems = append(c.report.Problems, p)
}

// unreadable makes the report one of a file that cannot be read.
func (c *checker) unreadable(rule, format string, args ...any) Report {
	c.problem("", rule, jsontree.Value{}, nil, format, args...)
	c.report.Unreadable = true
	return c.done()
}

func (c *checker) note(pointer, rule, format string, args ...any) {
	if len(c.report.Notes) < maxProblems {
		c.report.Notes = append(c.report.Notes, Note{pointer, rule, fmt.Sprintf(format, args...)})
	}
}

// storedText keeps the source text of scalars; what is longer than a reader
// wants to see is left to the pointer.
func storedText(v jsontree.Value) json.RawMessage {
	switch v.Kind() {
	case jsontree.Missing, jsontree.Array, jsontree.Object:
		return json.RawMessage("null")
	default:
	}
	if len(v.Raw()) > 512 {
		return json.RawMessage("null")
	}
	return bytes.Clone(v.Raw())
}

func jsonText(v any) json.RawMessage {
	if o, ok := v.(jsontree.Obj); ok && o == nil {
		return json.RawMessage("{}")
	}
	text, err := jsontree.Renderer{}.Render(v)
	if err != nil {
		return json.RawMessage("null") // a NaN: there is no such figure
	}
	return bytes.TrimSuffix(text, []byte("\n"))
}
