package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"anvil/stages/internal/jsontree"
)

// ErrIncomplete is wrapped when a JSON Lines artifact ends without its footer.
// What was read before it stands.
var ErrIncomplete = errors.New("incomplete: the footer is missing")

// An AttemptsReader reads anvil.attempts/v1, plain or zstd, one attempt at a
// time in memory that does not grow with the file.
//
//	r, err := record.NewAttemptsReader(file)
//	for a, err := range r.All() { … }
//	footer := r.Footer()
type AttemptsReader struct {
	lines  *LineReader
	header AttemptsHeader
	footer *AttemptsFooter
	rows   int
	doc    jsontree.Doc // of the line being decoded
}

// NewAttemptsReader reads the header. Close the reader; src stays open.
func NewAttemptsReader(src io.Reader) (*AttemptsReader, error) {
	lines, err := NewLineReader(src)
	if err != nil {
		return nil, err
	}
	r := &AttemptsReader{lines: lines}
	if err := r.readHeader(); err != nil {
		return nil, errors.Join(err, lines.Close())
	}
	return r, nil
}

func (r *AttemptsReader) readHeader() error {
	line, err := r.lines.Next()
	if errors.Is(err, io.EOF) {
		return errors.New("line 1: the file is empty, want a header")
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, &r.header); err != nil {
		return fmt.Errorf("line 1: header: %w", err)
	}
	if r.header.Schema != AttemptsSchema {
		return fmt.Errorf("line 1: header: schema is %q, want %q", r.header.Schema, AttemptsSchema)
	}
	return nil
}

// Header is the first line.
func (r *AttemptsReader) Header() AttemptsHeader { return r.header }

// Footer is the last line; nil until All has come to it, and for ever in a
// file that lacks it.
func (r *AttemptsReader) Footer() *AttemptsFooter { return r.footer }

// Close releases what the reader holds.
func (r *AttemptsReader) Close() error { return r.lines.Close() }

// All yields the attempts that are left, in the file's order. An error ends it,
// names the line and comes with a zero attempt; a file that was cut off yields
// ErrIncomplete after its last whole attempt.
func (r *AttemptsReader) All() iter.Seq2[Attempt, error] {
	return func(yield func(Attempt, error) bool) {
		for {
			a, err := r.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(a, err) || err != nil {
				return
			}
		}
	}
}

var footerStart = []byte(`{"footer":`)

// next returns io.EOF after the footer.
func (r *AttemptsReader) next() (Attempt, error) {
	line, err := r.lines.Next()
	switch {
	case errors.Is(err, io.EOF) && r.footer != nil:
		return Attempt{}, io.EOF
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Attempt{}, fmt.Errorf("line %d: %w", r.lines.Line(), ErrIncomplete)
	case err != nil:
		return Attempt{}, err
	case r.footer != nil:
		return Attempt{}, fmt.Errorf("line %d: content after the footer", r.lines.Line())
	case isFooter(line):
		return r.readFooter(line)
	}
	a, err := decodeAttempt(&r.doc, line)
	if err != nil {
		return Attempt{}, r.badLine("attempt", err)
	}
	r.rows++
	return a, nil
}

func (r *AttemptsReader) readFooter(line []byte) (Attempt, error) {
	var f AttemptsFooter
	if err := json.Unmarshal(line, &f); err != nil {
		return Attempt{}, r.badLine("footer", err)
	}
	if f.Lines != r.rows {
		return Attempt{}, fmt.Errorf("line %d: footer: it counts %d lines, the file has %d", r.lines.Line(), f.Lines, r.rows)
	}
	r.footer = &f
	return r.next()
}

// isFooter looks at the first key in any spacing; anvil writes none.
func isFooter(line []byte) bool {
	if bytes.HasPrefix(line, footerStart) {
		return true
	}
	if len(line) > 4096 || !bytes.Contains(line, []byte(`"footer"`)) {
		return false
	}
	var f AttemptsFooter
	return json.Unmarshal(line, &f) == nil && f.Footer
}

// badLine says where a line is wrong, and that the file was cut off when the
// line is its last and stops in the middle.
func (r *AttemptsReader) badLine(what string, err error) error {
	n := r.lines.Line()
	if _, end := r.lines.Next(); errors.Is(end, io.EOF) && !r.lines.whole {
		return fmt.Errorf("line %d: %s: %w (%w)", n, what, ErrIncomplete, err)
	}
	return fmt.Errorf("line %d: %s: %w", n, what, err)
}
