package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	jsonv2 "github.com/go-json-experiment/json"

	"anvil/schemas"
	"anvil/stages/internal/jsontree"
)

// ErrIncomplete is wrapped when a JSON Lines artifact ends without its footer.
// What was read before it stands.
var ErrIncomplete = errors.New("incomplete: the footer is missing")

// rows reads the lines between the header and the footer of JSON Lines, one at a
// time in memory that does not grow with the file.
type rows[R any] struct {
	lines  *LineReader
	what   string                                 // a line is, in errors
	decode func(line []byte) (R, error)           // of a row
	footer func(line []byte) (lines int, e error) // keeps it and returns its count
	read   int
	ended  bool // the footer was read
}

// readHeader reads the first line of JSON Lines of a schema; stated is where the
// header says its own.
func readHeader(lines *LineReader, schema schemas.ID, into any, stated *schemas.ID) error {
	line, err := lines.Next()
	if errors.Is(err, io.EOF) {
		return errors.New("line 1: the file is empty, want a header")
	}
	if err != nil {
		return err
	}
	if err := decodeStrict(line, into); err != nil {
		return fmt.Errorf("line 1: header: %w", err)
	}
	if *stated != schema {
		return fmt.Errorf("line 1: header: schema is %q, want %q", *stated, schema)
	}
	return nil
}

// decodeStrict takes one JSON value with every key once, spelt as the field's.
func decodeStrict(text []byte, into any) error { return jsonv2.Unmarshal(text, into) }

// Close releases what the reader holds.
func (r *rows[R]) Close() error { return r.lines.Close() }

// All yields the rows that are left, in the file's order. An error ends it,
// names the line and comes with a zero row; a file that was cut off yields
// ErrIncomplete after its last whole row.
func (r *rows[R]) All() iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for {
			row, err := r.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// next returns io.EOF after the footer.
func (r *rows[R]) next() (row R, err error) {
	line, err := r.lines.Next()
	switch {
	case errors.Is(err, io.EOF) && r.ended:
		return row, io.EOF
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return row, fmt.Errorf("line %d: %w", r.lines.Line(), ErrIncomplete)
	case err != nil:
		return row, err
	case r.ended:
		return row, fmt.Errorf("line %d: content after the footer", r.lines.Line())
	case isFooter(line):
		if err := r.end(line); err != nil {
			return row, err
		}
		return r.next()
	}
	got, err := r.decode(line)
	if err != nil {
		return row, r.badLine(r.what, err)
	}
	r.read++
	return got, nil
}

func (r *rows[R]) end(line []byte) error {
	count, err := r.footer(line)
	if err != nil {
		return r.badLine("footer", err)
	}
	if count != r.read {
		return fmt.Errorf("line %d: footer: it counts %d lines, the file has %d", r.lines.Line(), count, r.read)
	}
	r.ended = true
	return nil
}

// badLine says where a line is wrong, and that the file was cut off when the
// line is its last and stops in the middle.
func (r *rows[R]) badLine(what string, err error) error {
	n := r.lines.Line()
	err = inLine(err)
	if _, end := r.lines.Next(); errors.Is(end, io.EOF) && !r.lines.whole {
		return fmt.Errorf("line %d: %s: %w (%w)", n, what, ErrIncomplete, err)
	}
	return fmt.Errorf("line %d: %s: %w", n, what, err)
}

// inLine takes the line out of an error about one line of a file: it is the
// first of a text that is a line.
func inLine(err error) error {
	if e, ok := errors.AsType[*jsontree.Error](err); ok {
		return fmt.Errorf("column %d: %s", e.Column, e.Message)
	}
	return err
}

var footerStart = []byte(`{"footer":`)

// isFooter looks at the first key in any spacing; anvil writes none.
func isFooter(line []byte) bool {
	if bytes.HasPrefix(line, footerStart) {
		return true
	}
	if len(line) > 4096 || !bytes.Contains(line, []byte(`"footer"`)) {
		return false
	}
	var f struct {
		Footer bool `json:"footer"`
	}
	return json.Unmarshal(line, &f) == nil && f.Footer
}
