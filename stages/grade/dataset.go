package grade

import (
	"fmt"
	"path"
	"slices"

	"anvil/pipeline/stage"
	"anvil/schemas"
	"anvil/stages/internal/rows"
)

// resolveRows reads the dataset while the plan is read: what nobody could grade
// by is found before the answers are paid for. That a file cannot be opened is
// the plan's to report, and what is wrong with one that a measure stage sends is
// that stage's.
func resolveRows(r *stage.Resolution) {
	file, _ := r.With["dataset"].(string)
	d, err := readRows(r, file)
	if d == nil {
		return
	}
	ids := graderIDs(r)
	for _, u := range d.unknown(ids) {
		r.Problem("/dataset", file+": "+u.fault.Error(), meant(u.grader, ids))
	}
	sent := slices.ContainsFunc(r.Upstream, func(p stage.Peer) bool { return sends(p, file) })
	switch {
	case err == nil && !sent:
		resolveItems(r, file, d)
	case err != nil && !sent:
		r.Problem("/dataset", file+": "+err.Error(), "")
	}
}

// sends tells whether a stage sends the rows of a file as they stand.
func sends(p stage.Peer, file string) bool {
	w := workload(p.With)
	its, _ := w["file"].(string)
	return p.Kind == "measure" && w["source"] == "dataset" && w["format"] == "anvil" && path.Clean(its) == path.Clean(file)
}

// A dataset is what the plan must know of the rows that answers are graded by.
type dataset struct {
	items rows.Items
	first string // id of the first row
	named []namedGrader
}

// A namedGrader is one that rows name.
type namedGrader struct {
	grader string
	fault  error // of the first row that names it, where the plan does not have it
}

// maxNamed bounds the graders that are kept, maxUnknown those that are reported:
// rows that were made for another plan may name any number.
const (
	maxNamed   = 1024
	maxUnknown = 8
)

// readRows reads a dataset up to the first row that is broken; nil where no file
// can be opened.
func readRows(r *stage.Resolution, file string) (*dataset, error) {
	if r.Open == nil || file == "" {
		return nil, nil
	}
	type outcome struct {
		d   *dataset
		err error
	}
	found := stage.Read(r, "grade rows of "+file, func() outcome {
		f, err := r.Open(file)
		if err != nil {
			return outcome{}
		}
		defer f.Close()
		d := &dataset{items: rows.Items{}}
		return outcome{d, rows.Heads(f, d.add)}
	})
	return found.d, found.err
}

func graderIDs(r *stage.Resolution) []string {
	var ids []string
	list, _ := r.With["graders"].([]any)
	for _, v := range list {
		m, _ := v.(map[string]any)
		if id, ok := m["id"].(string); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

func (d *dataset) add(line int, h rows.Head, _ []byte) error {
	if len(d.items) == 0 {
		d.first = h.ID
	}
	for _, id := range h.Graders {
		if len(d.named) < maxNamed && !slices.ContainsFunc(d.named, func(n namedGrader) bool { return n.grader == id }) {
			d.named = append(d.named, namedGrader{id, rows.UnknownGrader(line, h.ID, id)})
		}
	}
	return d.items.Add(h.ID, line)
}

// unknown are the graders that rows name and the plan does not have.
func (d *dataset) unknown(graders []string) []namedGrader {
	var out []namedGrader
	for _, n := range d.named {
		if len(out) < maxUnknown && !slices.Contains(graders, n.grader) {
			out = append(out, n)
		}
	}
	return out
}

// meant is the hint for a grader that the plan does not have.
func meant(grader string, graders []string) string {
	if near, ok := schemas.Closest(grader, graders); ok {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Sprintf("the plan has %q; correct the row, or add the grader", graders)
}
