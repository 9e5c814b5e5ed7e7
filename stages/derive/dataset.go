package derive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"anvil/pipeline/stage"
	"anvil/stages/internal/rows"
)

// A dataset is what graders need of a dataset file: by item the members that
// they point into, never the prompts unless one does.
type dataset struct{ rows map[string]*datasetRow }

type datasetRow struct {
	members map[string]any // numbers are json.Number
	tags    []string
	graders []string // nil: all
	line    int
}

// readDataset reads rows of anvil.dataset/v1. Of each it keeps the given members.
func readDataset(ctx context.Context, a stage.Artifact, keep []string) (d dataset, err error) {
	file, err := a.Open(ctx)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	d.rows = map[string]*datasetRow{}
	return d, rows.Heads(file, func(line int, head rows.Head, raw []byte) error { return d.add(line, head, raw, keep) })
}

func (d *dataset) add(line int, head rows.Head, raw []byte, keep []string) error {
	if old, ok := d.rows[head.ID]; ok {
		return rows.Twice(head.ID, old.line)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	row := &datasetRow{members: map[string]any{}, tags: head.Tags, graders: head.Graders, line: line}
	for name, raw := range members {
		if !slices.Contains(keep, name) && !slices.Contains(keep, "") {
			continue
		}
		v, err := decodeNumbers(raw)
		if err != nil {
			return err
		}
		row.members[name] = v
	}
	d.rows[head.ID] = row
	return nil
}

// decodeNumbers decodes one JSON value and keeps the text of its numbers.
func decodeNumbers(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("content after the value")
	}
	return v, nil
}

// member is the first step of a JSON pointer: the member of a row that it needs.
func member(pointer string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	return unescapePointer(first)
}

func unescapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
}

// validPointer tells whether s is a JSON pointer (RFC 6901).
func validPointer(s string) bool {
	if s != "" && !strings.HasPrefix(s, "/") {
		return false
	}
	rest := strings.ReplaceAll(strings.ReplaceAll(s, "~0", ""), "~1", "")
	return !strings.Contains(rest, "~")
}

// lookup follows a JSON pointer.
func lookup(v any, pointer string) (any, bool) {
	if pointer == "" {
		return v, true
	}
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		step = unescapePointer(step)
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[step]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(at) || strconv.Itoa(i) != step {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}
