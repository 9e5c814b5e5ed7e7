package imports

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"anvil/pipeline/stage"
	"anvil/schemas"
	"anvil/stages/internal/jsontree"
	"anvil/stages/record"
)

// contradicts says why a file that is not recognised cannot be what the plan
// claims; nil where it may. Whoever reads an artifact of a schema that anvil has
// relies on it. An id that nobody here knows says nothing that could be wrong.
func contradicts(r *stage.Resolution, file string, claimed schemas.ID, unrecognised error) error {
	if slices.ContainsFunc(record.All(), func(k record.Kind) bool { return k.ID == claimed }) {
		return unrecognised
	}
	if !slices.Contains(schemas.List(), claimed) {
		return nil
	}
	// Not all have a label to go by: a set of limitations, rows of a dataset.
	doc, err := firstValue(r, file)
	if err != nil {
		return err
	}
	broken, err := schemas.Validate(claimed, doc)
	if err == nil && len(broken) > 0 {
		err = broken[0]
	}
	return err
}

// firstValue is the first line of JSON Lines, plain or zstd, else the document
// that a file holds.
func firstValue(r *stage.Resolution, file string) (any, error) {
	if line, err := firstLine(r, file); err == nil && json.Valid(line) {
		return parsed(line)
	}
	f, err := r.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	switch {
	case err != nil:
		return nil, err
	case len(src) > maxDocument:
		return nil, errors.New("the document is too large to be looked at")
	}
	return parsed(src)
}

func parsed(src []byte) (any, error) {
	v, err := jsontree.Parse(src)
	if err != nil {
		return nil, err
	}
	return v.Go(func(text string) any { return json.Number(text) }), nil
}

func firstLine(r *stage.Resolution, file string) (line []byte, err error) {
	f, err := r.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines, err := record.NewLineReader(f)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lines.Close()) }()
	line, err = lines.Next()
	return bytes.Clone(line), err
}
