package record

import (
	"errors"
	"io"

	"anvil/stages/internal/jsontree"
)

// An AttemptsReader reads anvil.attempts/v1, plain or zstd, one attempt at a
// time in memory that does not grow with the file.
//
//	r, err := record.NewAttemptsReader(file)
//	for a, err := range r.All() { … }
//	footer := r.Footer()
type AttemptsReader struct {
	rows[Attempt]
	header AttemptsHeader
	last   *AttemptsFooter
	doc    jsontree.Doc // of the line being decoded
}

// NewAttemptsReader reads the header. Close the reader; src stays open.
func NewAttemptsReader(src io.Reader) (*AttemptsReader, error) {
	lines, err := NewLineReader(src)
	if err != nil {
		return nil, err
	}
	r := &AttemptsReader{}
	r.rows = rows[Attempt]{lines: lines, what: "attempt", decode: r.attempt, footer: r.end}
	if err := readHeader(lines, AttemptsSchema, &r.header, &r.header.Schema); err != nil {
		return nil, errors.Join(err, lines.Close())
	}
	return r, nil
}

func (r *AttemptsReader) attempt(line []byte) (Attempt, error) { return decodeAttempt(&r.doc, line) }

func (r *AttemptsReader) end(line []byte) (lines int, err error) {
	var f AttemptsFooter
	if err := decodeStrict(line, &f); err != nil {
		return 0, err
	}
	r.last = &f
	return f.Lines, nil
}

// Header is the first line.
func (r *AttemptsReader) Header() AttemptsHeader { return r.header }

// Footer is the last line; nil until All has come to it, and for ever in a
// file that lacks it.
func (r *AttemptsReader) Footer() *AttemptsFooter {
	if !r.ended {
		return nil
	}
	return r.last
}
