package grade

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"anvil/pipeline/stage"
	"anvil/stages/internal/prompt"
)

// resolveItems refuses rows of which none is of an item that is sent: there
// would be an answer for every request and a verdict on none. That single items
// have no row is the author's choice. Where the plan does not tell what is sent,
// as below an import, the answers show it.
func resolveItems(r *stage.Resolution, file string, d *dataset) {
	var from *sending
	var whose stage.Peer
	for _, p := range r.Upstream {
		switch {
		case !p.Direct:
			continue
		case p.Kind == "import":
			return
		case p.Kind != "measure":
			continue
		}
		s := sendingOf(r, p, d)
		if s == nil || s.met {
			return
		}
		if from == nil {
			from, whose = s, p
		}
	}
	if from == nil || from.rows == 0 {
		return
	}
	r.Problem("/dataset", fmt.Sprintf("%s: no row has the id of an item that stage %q sends", file, whose.Of),
		fmt.Sprintf("rows are found by their id: the first of these is %q, of those that are sent %q", d.first, from.first))
}

// A sending is what is read of the rows that a measure stage sends: as far as to
// the first that has a row in the dataset.
type sending struct {
	of    *dataset
	most  int    // rows that are sent; -1: all
	rows  int    // that were looked at
	first string // id of the first
	met   bool
	line  []byte // the beginning of the next
}

// sendingOf reads the rows that a stage sends; nil where the plan does not tell.
func sendingOf(r *stage.Resolution, p stage.Peer, d *dataset) *sending {
	w := workload(p.With)
	file, _ := w["file"].(string)
	format, _ := w["format"].(string)
	if w["source"] != "dataset" || file == "" || !prompt.KnownFormat(format) {
		return nil
	}
	f, err := r.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	s := &sending{of: d, most: -1}
	load, _ := p.With["load"].(map[string]any)
	if n := whole(load["requests"]); w["order"] == "file" && n > 0 {
		s.most = int(n)
	}
	if err := prompt.Project(format, f, s); err != nil && !errors.Is(err, errEnough) {
		return nil // that stage reports it
	}
	return s
}

// errEnough ends the reading.
var errEnough = errors.New("enough is known")

// Write takes the lines of a projection.
func (s *sending) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		s.line, rest = append(s.line, line...), after
		if !ended {
			break
		}
		if err := s.row(s.line); err != nil {
			return 0, err
		}
		s.line = s.line[:0]
	}
	return len(p), nil
}

func (s *sending) row(line []byte) error {
	if s.rows == s.most {
		return errEnough
	}
	var row struct{ ID string }
	if err := json.Unmarshal(line, &row); err != nil {
		return err
	}
	if s.rows++; s.rows == 1 {
		s.first = row.ID
	}
	if s.met = s.of.items.Has(row.ID); s.met {
		return errEnough
	}
	return nil
}
