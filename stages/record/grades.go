package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

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
	rows[Grade]
	header GradesHeader
	last   *GradesFooter
}

// NewGradesReader reads the header. Close the reader; src stays open.
func NewGradesReader(src io.Reader) (*GradesReader, error) {
	lines, err := NewLineReader(src)
	if err != nil {
		return nil, err
	}
	r := &GradesReader{}
	r.rows = rows[Grade]{lines: lines, what: "grade", decode: decodeGrade, footer: r.end}
	if err := readHeader(lines, GradesSchema, &r.header, &r.header.Schema); err != nil {
		return nil, errors.Join(err, lines.Close())
	}
	return r, nil
}

func decodeGrade(line []byte) (g Grade, err error) {
	err = decodeStrict(line, &g)
	return g, err
}

func (r *GradesReader) end(line []byte) (lines int, err error) {
	var f GradesFooter
	if err := decodeStrict(line, &f); err != nil {
		return 0, err
	}
	r.last = &f
	return f.Lines, nil
}

// Header is the first line.
func (r *GradesReader) Header() GradesHeader { return r.header }

// Footer is the last line; nil until All has come to it.
func (r *GradesReader) Footer() *GradesFooter {
	if !r.ended {
		return nil
	}
	return r.last
}
