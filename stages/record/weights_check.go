package record

import (
	"encoding/json"
	"slices"

	"anvil/stages/internal/jsontree"
	"anvil/stages/internal/weights"
)

// A weightsCheck holds weights.json against itself: every verdict in it follows
// from the digests beside it.
type weightsCheck struct {
	*checker
	doc    jsontree.Value
	pinned bool            // there is a reference
	unlike map[string]bool // paths at which the replicas hold different bytes, or some none
}

func checkWeights(c *checker, doc jsontree.Value) {
	c.ownDocument(weights.VerificationSchema, doc)
	var v weights.Verification
	if json.Unmarshal(doc.Raw(), &v) != nil || len(v.Replicas) == 0 {
		return // the schema names what is wrong
	}
	w := &weightsCheck{c, doc, v.Reference != nil, weights.Unlike(v.Replicas)}
	sizes, whole, same := total{}, true, true
	for i, r := range v.Replicas {
		w.checkReplica(jsontree.Index("/replicas", i), r)
		for _, f := range r.Files {
			sizes.add(f.Size)
		}
		whole = whole && w.whole(r)
		same = same && r.ManifestSHA256 == v.Replicas[0].ManifestSHA256
	}
	c.boolIs("/ok", "weights.ok", doc.Get("ok"), whole && same, "true exactly when every replica is whole, equal to the others and to the reference where there is one")
	c.totalIs("/bytes", "weights.bytes", doc.Get("bytes"), sizes, "the files have %v bytes", sizes)
	if same {
		want := v.Replicas[0].ManifestSHA256
		w.must(v.ManifestSHA256 != nil && *v.ManifestSHA256 == want, "/manifest_sha256", "weights.manifest", want.String(), "the manifest that every replica has")
	} else {
		w.must(v.ManifestSHA256 == nil, "/manifest_sha256", "weights.manifest", nil, "the replicas differ: they have no manifest in common")
	}
	c.recomputed = jsontree.Obj{{Name: "ok", Value: whole && same}, {Name: "bytes", Value: sizes.any()}}
}

// must reports a relation that does not hold; only then the place is looked up.
func (w *weightsCheck) must(ok bool, pointer, rule string, computed any, format string, args ...any) {
	if !ok {
		w.problem(pointer, rule, at(w.doc, pointer), computed, format, args...)
	}
}

// fits tells whether a file is what the reference says; without one, whether every
// replica has it with these bytes.
func (w *weightsCheck) fits(f weights.Checked) bool {
	switch {
	case f.Expected != nil:
		return *f.Expected == f.SHA256
	case w.pinned:
		return false
	}
	return !w.unlike[f.Path]
}

// whole judges a replica by its digests, not by what is said of them.
func (w *weightsCheck) whole(r weights.Replica) bool {
	return len(r.Missing) == 0 && len(r.Unexpected) == 0 && len(r.Incomplete) == 0 &&
		!slices.ContainsFunc(r.Files, func(f weights.Checked) bool { return !w.fits(f) })
}

func (w *weightsCheck) checkReplica(pointer string, r weights.Replica) {
	have, files := map[string]bool{}, make([]weights.File, len(r.Files))
	unexpected, listed := []string{}, []any{}
	for i, f := range r.Files {
		place := jsontree.Index(pointer+"/files", i)
		w.must(f.OK == w.fits(f), place+"/ok", "weights.file", w.fits(f), "true exactly when sha256 is the expected one; without a reference, when every replica has the same")
		w.must(w.pinned || f.Expected == nil, place+"/expected", "weights.reference", nil, "there is no reference to expect anything")
		w.must(i == 0 || r.Files[i-1].Path < f.Path, place+"/path", "weights.order", nil, "the files are not in the order of their paths, each once")
		files[i], have[f.Path] = f.File, true
		if w.pinned && f.Expected == nil {
			unexpected, listed = append(unexpected, f.Path), append(listed, f.Path)
		}
	}
	w.must(slices.Equal(r.Unexpected, unexpected), pointer+"/unexpected", "weights.unexpected", listed, "the files of which the reference says nothing")
	w.checkPaths(pointer+"/missing", r.Missing, have)
	w.checkPaths(pointer+"/ignored", r.Ignored, have)
	want := weights.Manifest{Schema: weights.ManifestSchema, Files: files}.Digest()
	w.must(r.ManifestSHA256 == want, pointer+"/manifest_sha256", "weights.manifest", want.String(), "the digest of the manifest of these files")
}

// checkPaths: what is missing or was left out is no file that was hashed.
func (w *weightsCheck) checkPaths(pointer string, paths []string, have map[string]bool) {
	for i, p := range paths {
		place := jsontree.Index(pointer, i)
		w.must(!have[p], place, "weights.absent", nil, "%s is among the files that were hashed", p)
		w.must(i == 0 || paths[i-1] < p, place, "weights.order", nil, "the paths are not in order, each once")
	}
}
