package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"anvil/pipeline/digest"
	"anvil/schemas"
)

// GradesSchema is the id of grades.jsonl.
const GradesSchema schemas.ID = "anvil.grades/v1"

// A Verdict is what grading made of one planned request.
type Verdict string

// The verdicts. Unscorable means that there was no answer to judge,
// grader_error that the grader could not do its work.
const (
	Pass        Verdict = "pass"
	Fail        Verdict = "fail"
	Unscorable  Verdict = "unscorable"
	GraderError Verdict = "grader_error"
)

// Verdicts lists all of them in the order in which tables show them.
func Verdicts() []Verdict { return []Verdict{Pass, Fail, Unscorable, GraderError} }

// A GradesHeader is the first line of grades.jsonl. Every line of the file was
// made by these graders and no other.
type GradesHeader struct {
	Schema         schemas.ID      `json:"schema"`
	Graders        json.RawMessage `json:"graders"`     // resolved list
	SpecSHA256     digest.Digest   `json:"spec_sha256"` // of the JCS form of graders, reducer, k, version and their files
	DatasetSHA256  digest.Digest   `json:"dataset_sha256"`
	AttemptsSHA256 digest.Digest   `json:"attempts_sha256"`
	Reducer        string          `json:"reducer"`
	K              *int            `json:"k"`
}

// A Grade is one line: the verdict on one planned request.
type Grade struct {
	Index     int            `json:"index"`
	Item      *string        `json:"item"`
	Outcome   Outcome        `json:"outcome"`
	Verdict   Verdict        `json:"verdict"`
	Score     *float64       `json:"score"` // 0 to 1, null without a verdict of pass or fail
	Extracted *string        `json:"extracted"`
	Span      *[2]int        `json:"span"` // bytes of the stored text, [from, to)
	Reason    string         `json:"reason"`
	Votes     []any          `json:"votes"`   // of judges
	Graders   []GraderResult `json:"graders"` // what each grader said, in the order of the plan
	Tags      []string       `json:"tags"`    // of the dataset's row
}

// A GraderResult is what one grader said of one answer.
type GraderResult struct {
	ID        string   `json:"id"`
	Verdict   Verdict  `json:"verdict"`
	Score     *float64 `json:"score"`
	Extracted *string  `json:"extracted"`
	Span      *[2]int  `json:"span"`
	Reason    string   `json:"reason"`
}

// A GradesFooter is the last line; a file without one is incomplete.
type GradesFooter struct {
	Footer   bool            `json:"footer"`
	Lines    int             `json:"lines"`
	Complete bool            `json:"complete"`
	Counts   map[Verdict]int `json:"counts"` // all four
	Reduced  *Reduced        `json:"reduced"`
	Gate     *GateResult     `json:"gate"` // null without a gate
}

// A GateResult says whether the gate of a grade stage passed.
type GateResult struct {
	Passed             bool     `json:"passed"`
	Failures           []string `json:"failures"`
	WithholdThroughput bool     `json:"withhold_throughput"`
}

// WriteGrades writes a whole grades.jsonl: header, rows in order of index, footer.
func WriteGrades(w io.Writer, header GradesHeader, rows []Grade, footer GradesFooter) error {
	buffered := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(buffered)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(header); err != nil {
		return fmt.Errorf("write header: %w", err)
	}
	for i := range rows {
		if err := enc.Encode(&rows[i]); err != nil {
			return fmt.Errorf("write grade of request %d: %w", rows[i].Index, err)
		}
	}
	footer.Footer, footer.Lines = true, len(rows)
	if err := enc.Encode(footer); err != nil {
		return fmt.Errorf("write footer: %w", err)
	}
	return buffered.Flush()
}

// A GradesReader reads grades.jsonl, plain or zstd, one line at a time.
type GradesReader struct {
	lines  *LineReader
	header GradesHeader
	footer *GradesFooter
	rows   int
}

// NewGradesReader reads the header. Close the reader; src stays open.
func NewGradesReader(src io.Reader) (*GradesReader, error) {
	lines, err := NewLineReader(src)
	if err != nil {
		return nil, err
	}
	r := &GradesReader{lines: lines}
	line, err := lines.Next()
	switch {
	case errors.Is(err, io.EOF):
		err = errors.New("line 1: the file is empty, want a header")
	case err == nil:
		err = json.Unmarshal(line, &r.header)
		if err == nil && r.header.Schema != GradesSchema {
			err = fmt.Errorf("schema is %q, want %q", r.header.Schema, GradesSchema)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("line 1: header: %w", err), lines.Close())
	}
	return r, nil
}

// Header is the first line.
func (r *GradesReader) Header() GradesHeader { return r.header }

// Footer is the last line; nil until All has come to it.
func (r *GradesReader) Footer() *GradesFooter { return r.footer }

// Close releases what the reader holds.
func (r *GradesReader) Close() error { return r.lines.Close() }

// All yields the grades in the file's order. An error ends it and names the
// line; a file that was cut off yields ErrIncomplete.
func (r *GradesReader) All() iter.Seq2[Grade, error] {
	return func(yield func(Grade, error) bool) {
		for {
			g, err := r.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(g, err) || err != nil {
				return
			}
		}
	}
}

func (r *GradesReader) next() (Grade, error) {
	line, err := r.lines.Next()
	switch {
	case errors.Is(err, io.EOF) && r.footer != nil:
		return Grade{}, io.EOF
	case errors.Is(err, io.EOF):
		return Grade{}, fmt.Errorf("line %d: %w", r.lines.Line(), ErrIncomplete)
	case err != nil:
		return Grade{}, err
	case r.footer != nil:
		return Grade{}, fmt.Errorf("line %d: content after the footer", r.lines.Line())
	case isFooter(line):
		var f GradesFooter
		if err := json.Unmarshal(line, &f); err != nil {
			return Grade{}, fmt.Errorf("line %d: footer: %w", r.lines.Line(), err)
		}
		if f.Lines != r.rows {
			return Grade{}, fmt.Errorf("line %d: footer: it counts %d lines, the file has %d", r.lines.Line(), f.Lines, r.rows)
		}
		r.footer = &f
		return r.next()
	}
	var g Grade
	if err := json.Unmarshal(line, &g); err != nil {
		return Grade{}, fmt.Errorf("line %d: grade: %w", r.lines.Line(), err)
	}
	r.rows++
	return g, nil
}
