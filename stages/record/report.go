package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

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

// A Problem is one rule that the record violates. Stored is the value at the
// pointer as it is written, an object or array included; it is null where there
// is none, for a document or a line as a whole, and for what is longer than a
// reader wants to see, which the text then says. Computed is null where no one value
// would be right.
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
	p := Problem{Pointer: pointer, Rule: rule, Stored: json.RawMessage(null), Computed: compact(jsonText(computed)), Text: fmt.Sprintf(format, args...)}
	switch raw := stored.Raw(); {
	case raw == nil, isWhole(pointer, stored):
	case len(raw) > maxStored:
		p.Text += fmt.Sprintf(" (stored is %s of %d bytes, not repeated here)", describeKind(stored.Kind()), len(raw))
	default:
		p.Stored = compact(raw)
	}
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

// isWhole tells whether the value is all of a document, or of a line of one.
func isWhole(pointer string, v jsontree.Value) bool {
	line, ok := strings.CutPrefix(pointer, "/line/")
	return pointer == "" || ok && !strings.Contains(line, "/") && (v.Is(jsontree.Object) || v.Is(jsontree.Array))
}

// maxStored is how long a value may be that a problem repeats, in bytes: a whole
// set of definitions in words fits.
const maxStored = 4 << 10

const null = "null"

// compact copies JSON without its white space; number text is kept.
func compact(text []byte) json.RawMessage {
	var out bytes.Buffer
	if json.Compact(&out, text) != nil {
		return json.RawMessage(null) // every text comes from a parser or a renderer
	}
	return out.Bytes()
}

func jsonText(v any) json.RawMessage {
	if o, ok := v.(jsontree.Obj); ok && o == nil {
		return json.RawMessage("{}")
	}
	text, err := jsontree.Renderer{}.Render(v)
	if err != nil {
		return json.RawMessage(null) // a NaN: there is no such figure
	}
	return bytes.TrimSuffix(text, []byte("\n"))
}
