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
	for _, u := range d.unknown {
		r.Problem("/dataset", file+": "+u.fault.Error(), d.meant(u.grader))
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
	graders []string // of the plan
	items   rows.Items
	first   string // id of the first row
	unknown []unknownGrader
}

// An unknownGrader is one that rows name and the plan does not have.
type unknownGrader struct {
	grader string
	fault  error // of the first row that names it
}

// maxUnknown bounds the graders that are reported: rows that were made for
// another plan may name any number.
const maxUnknown = 8

// readRows reads a dataset up to the first row that is broken; nil where no file
// can be opened.
func readRows(r *stage.Resolution, file string) (*dataset, error) {
	if r.Open == nil || file == "" {
		return nil, nil
	}
	f, err := r.Open(file)
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	d := &dataset{graders: graderIDs(r), items: rows.Items{}}
	return d, rows.Heads(f, d.add)
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
		told := slices.ContainsFunc(d.unknown, func(u unknownGrader) bool { return u.grader == id })
		if !told && len(d.unknown) < maxUnknown && !slices.Contains(d.graders, id) {
			d.unknown = append(d.unknown, unknownGrader{id, rows.UnknownGrader(line, h.ID, id)})
		}
	}
	return d.items.Add(h.ID, line)
}

// meant is the hint for a grader that the plan does not have.
func (d *dataset) meant(grader string) string {
	if near, ok := schemas.Closest(grader, d.graders); ok {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Sprintf("the plan has %q; correct the row, or add the grader", d.graders)
}
