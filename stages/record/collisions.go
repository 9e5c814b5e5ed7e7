package record

import (
	"anvil/pipeline/digest"
	"anvil/stages/internal/jsontree"
)

// noteCollisions: run ids of whole seconds collide; a collision says that the
// id is none, not that either record is wrong. A copy in another layout is no
// collision, but its bytes have another digest.
func noteCollisions(reports []Report) {
	byID := map[string][]*Report{}
	for i := range reports {
		if r := &reports[i]; r.runID != "" {
			byID[r.runID] = append(byID[r.runID], r)
		}
	}
	for _, group := range byID {
		noteGroup(group)
	}
}

// noteGroup notes on each report of one run id the first that differs in
// content, else the first that differs in its bytes alone.
func noteGroup(group []*Report) {
	var layouts []*Report // the first of each digest
	seen := map[digest.Digest]bool{}
	for _, r := range group {
		if !seen[r.digest] {
			seen[r.digest] = true
			layouts = append(layouts, r)
		}
	}
	if len(layouts) < 2 {
		return
	}
	content := map[digest.Digest]digest.Digest{}
	for _, r := range layouts {
		content[r.digest] = contentDigest(r)
	}
	for _, r := range group {
		var copied, other *Report
		for _, l := range layouts {
			switch {
			case l.digest == r.digest:
			case content[l.digest] != content[r.digest]:
				other = first(other, l)
			default:
				copied = first(copied, l)
			}
		}
		if other != nil {
			r.collides(other, "with other content: the id does not identify a run")
		} else {
			r.collides(copied, "with the same content: it is a copy in another layout")
		}
	}
}

func first(known, next *Report) *Report {
	if known != nil {
		return known
	}
	return next
}

func (r *Report) collides(with *Report, how string) {
	r.Notes = append(r.Notes, Note{"/run_id", "run-id.collides", with.File + " bears " + r.runID + " too, " + how})
}

// contentDigest is the digest of the canonical form (records.md 4.6), which two
// layouts of one document share. The file is read again: few collide, and no
// check keeps what it read. One that has gone has the digest of its bytes.
func contentDigest(r *Report) digest.Digest {
	_, doc, err := readDocument(r.File)
	if err != nil {
		return r.digest
	}
	text, err := jsontree.Canonical(doc)
	if err != nil {
		return r.digest
	}
	return digest.FromBytes(text)
}
