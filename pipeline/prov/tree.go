package prov

import (
	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

// A Row is one line of the tree that `provenance show` prints: an artifact, at
// the depth at which something was made from it.
type Row struct {
	Depth int
	Name  string // of the artifact, or of the leaf file
	Port  string // on which the row above read it; "" at a root
	stage.Ref

	Stage  string // that made it; "" for a leaf
	Kind   string
	Run    string // that executed it
	How    *How   // null for a leaf and for an attempt of another run
	Result digest.Digest

	Seen bool // its inputs stand further up
}

// Tree lays the document out from its roots to every leaf: the final record
// first, then whatever was published and nothing shown so far stands on.
func (doc *Document) Tree() []Row {
	t := tree{byResult: map[digest.Digest]*ShownStage{}, expanded: map[digest.Digest]bool{}, shown: map[stage.Ref]bool{}}
	for i := range doc.Stages {
		if s := &doc.Stages[i]; s.Result != nil {
			t.byResult[s.ResultSHA256] = s
		}
	}
	if doc.Record != nil {
		t.roots(doc, func(s *ShownStage, o Output) bool {
			return s.Stage == doc.Record.Stage && o.Name == doc.Record.Name
		})
	}
	used := doc.used()
	t.roots(doc, func(_ *ShownStage, o Output) bool { return !used[o.SHA256] })
	return t.rows
}

// used tells which digests a stage of the document reads.
func (doc *Document) used() map[digest.Digest]bool {
	used := map[digest.Digest]bool{}
	for _, s := range doc.Stages {
		if s.Result == nil {
			continue
		}
		for _, in := range s.Result.Inputs {
			used[in.SHA256] = true
		}
	}
	return used
}

type tree struct {
	byResult map[digest.Digest]*ShownStage
	expanded map[digest.Digest]bool
	shown    map[stage.Ref]bool
	rows     []Row
}

func (t *tree) roots(doc *Document, want func(*ShownStage, Output) bool) {
	for i := len(doc.Stages) - 1; i >= 0; i-- {
		s := &doc.Stages[i]
		if s.Result == nil || s.Upstream {
			continue
		}
		for _, o := range s.Result.Outputs {
			if want(s, o) && !t.shown[o.Ref] {
				t.artifact(Row{Name: o.Name, Ref: o.Ref}, s)
			}
		}
	}
}

// artifact adds a row and, unless they stand further up, what it was made from.
func (t *tree) artifact(row Row, by *ShownStage) {
	t.shown[row.Ref] = true
	if by == nil {
		t.rows = append(t.rows, row)
		return
	}
	row.Stage, row.Kind, row.Run, row.How, row.Result = by.Stage, by.Kind, by.Result.Run, by.How, by.ResultSHA256
	row.Seen = t.expanded[by.ResultSHA256] && len(by.Result.Inputs) > 0
	t.rows = append(t.rows, row)
	if t.expanded[by.ResultSHA256] {
		return
	}
	t.expanded[by.ResultSHA256] = true
	for _, in := range by.Result.Inputs {
		var from *ShownStage
		if in.From != nil {
			from = t.byResult[in.From.Result]
		}
		t.artifact(Row{Depth: row.Depth + 1, Name: in.Name, Port: in.Port, Ref: in.Ref}, from)
	}
}
