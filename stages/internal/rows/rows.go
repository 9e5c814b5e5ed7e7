// Package rows reads datasets line by line. Who sends the rows and who grades by
// them read them here, so that no file is fit to be measured and then unfit to
// be graded.
package rows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"anvil/stages/internal/jsontree"
	"anvil/stages/record"
)

// Each calls do for every line that is not blank, with its number from 1 and
// its text without white space around it, valid until do returns. A byte order
// mark before the first line is left aside; the file is plain or zstd.
func Each(file io.Reader, do func(line int, raw []byte) error) (err error) {
	lines, err := record.NewLineReader(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lines.Close()) }()
	for {
		raw, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if lines.Line() == 1 {
			raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
		}
		if raw = bytes.TrimSpace(raw); len(raw) == 0 {
			continue
		}
		if err := do(lines.Line(), raw); err != nil {
			return err
		}
	}
}

// Strict refuses what a lenient reader would change: duplicate keys, bytes that
// are no UTF-8, numbers beyond a double.
func Strict(raw []byte) error {
	if len(raw) == 0 || raw[0] != '{' {
		return fmt.Errorf("want one JSON object a line, got %.20q", raw)
	}
	_, err := jsontree.Parse(raw)
	if fault, ok := errors.AsType[*jsontree.Error](err); ok {
		return fmt.Errorf("not a JSON object: column %d: %s", fault.Column, fault.Message)
	}
	return err
}

// A Head is what of a row of anvil.dataset/v1 tells it from the others.
type Head struct {
	ID      string   `json:"id"`
	Tags    []string `json:"tags"`
	Graders []string `json:"graders"` // nil: all
}

// ReadHead reads the head of a row that Strict has passed.
func ReadHead(raw []byte) (Head, error) {
	var h Head
	if err := json.Unmarshal(raw, &h); err != nil {
		return h, Readable(err)
	}
	if h.ID == "" {
		return h, errors.New(`a row needs an "id", a text`)
	}
	return h, nil
}

// Readable says what is wrong with a document in words that are not Go's.
func Readable(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%q: want %s, got %s", wrong.Field, plain(wrong.Type.String()), wrong.Value)
	}
	return err
}

func plain(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasSuffix(goType, "string"):
		return "a text"
	}
	return goType
}
