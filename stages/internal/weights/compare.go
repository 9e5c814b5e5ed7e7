package weights

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"anvil/pipeline/digest"
	"anvil/schemas"
)

// VerificationSchema is the id of weights.json.
const VerificationSchema schemas.ID = "anvil.weights-verification/v1"

// A Verification is weights.json less the limitations, which the executor adds.
type Verification struct {
	Schema         schemas.ID     `json:"schema"`
	OK             bool           `json:"ok"`
	ManifestSHA256 *digest.Digest `json:"manifest_sha256"` // null when the replicas differ
	Reference      *Reference     `json:"reference"`
	Repo           *string        `json:"repo"`
	Revision       *string        `json:"revision"`
	Replicas       []Replica      `json:"replicas"`
	Bytes          int64          `json:"bytes"`
}

// A Reference is the manifest that the files were compared with.
type Reference struct {
	SHA256 digest.Digest `json:"sha256"` // of the manifest file as stored
}

// A Replica is one copy of the checkpoint.
type Replica struct {
	Name           string        `json:"name"`
	Root           string        `json:"root"`
	ManifestSHA256 digest.Digest `json:"manifest_sha256"`
	Files          []Checked     `json:"files"`
	Missing        []string      `json:"missing"`
	Unexpected     []string      `json:"unexpected"`
	Ignored        []string      `json:"ignored"`
	Incomplete     []string      `json:"incomplete"`

	reference *Manifest
}

// A Checked is a file beside what the reference says of it. Without a reference
// nobody knows which of two replicas is right: Expected is null then, and OK says
// that every replica has this file with these bytes.
type Checked struct {
	File
	Expected *digest.Digest `json:"expected"`
	OK       bool           `json:"ok"`
}

// Compare holds a scan of dir against the reference (nil: none) and against
// the checkpoint's own shard indices. Root is the directory as people wrote it.
func Compare(name, root, dir string, s *Scan, reference *Manifest) (Replica, error) {
	r := Replica{
		Name: name, Root: root, ManifestSHA256: s.Manifest().Digest(),
		Files: make([]Checked, len(s.Files)), Missing: slices.Clone(s.Dangling), Ignored: slices.Clone(s.Ignored), reference: reference,
	}
	found := make(map[string]bool, len(s.Files))
	for i, f := range s.Files {
		found[f.Path] = true
		r.Files[i] = Checked{File: f, OK: true}
		if reference == nil {
			continue
		}
		want, ok := reference.find(f.Path)
		if !ok {
			r.Files[i].OK = false
			r.Unexpected = append(r.Unexpected, f.Path)
			continue
		}
		r.Files[i].Expected = &want.SHA256
		r.Files[i].OK = want.SHA256 == f.SHA256 && want.Size == f.Size
	}
	if reference != nil {
		for _, f := range reference.Files {
			if !found[f.Path] {
				r.Missing = append(r.Missing, f.Path)
			}
		}
	}
	shards, err := indexed(dir, s)
	if err != nil {
		return r, err
	}
	for _, p := range shards {
		if !found[p] {
			r.Missing = append(r.Missing, p)
		}
	}
	r.Incomplete = slices.Clone(s.Partial)
	if !slices.ContainsFunc(s.Files, func(f File) bool { return holdsWeights(f.Path) }) {
		r.Incomplete = append(r.Incomplete, "no weight file (.safetensors, .gguf, .bin, .pt, .pth, .npz, .onnx) at all")
	}
	for _, list := range []*[]string{&r.Missing, &r.Unexpected, &r.Ignored, &r.Incomplete} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
		if *list == nil {
			*list = []string{}
		}
	}
	return r, nil
}

// OK tells whether the replica is whole and equal to its reference.
func (r Replica) OK() bool {
	return len(r.Missing) == 0 && len(r.Unexpected) == 0 && len(r.Incomplete) == 0 &&
		!slices.ContainsFunc(r.Files, func(f Checked) bool { return !f.OK })
}

// Faults says in words what is wrong with the replica, a line each.
func (r Replica) Faults() []string {
	var out []string
	for _, f := range r.Files {
		if f.Expected != nil && !f.OK {
			out = append(out, fmt.Sprintf("%s differs: has %s, want %s", f.Path, f.SHA256, *f.Expected))
		}
	}
	for _, p := range r.Missing {
		if r.ignores(p) {
			out = append(out, fmt.Sprintf("%s is ignored, and %s lists it: narrow the pattern, or pin a manifest that was made with it", p, r.lister(p)))
			continue
		}
		out = append(out, p+" is missing")
	}
	for _, p := range r.Unexpected {
		out = append(out, p+" is not in the manifest")
	}
	for _, p := range r.Incomplete {
		out = append(out, "incomplete: "+p)
	}
	return out
}

// ignores tells whether a path was left out, itself or with a folder above it.
func (r Replica) ignores(p string) bool {
	return slices.ContainsFunc(r.Ignored, func(i string) bool { return p == i || strings.HasPrefix(p, i+"/") })
}

// lister is what says that a path belongs to the checkpoint.
func (r Replica) lister(p string) string {
	if r.reference != nil {
		if _, ok := r.reference.find(p); ok {
			return "the manifest"
		}
	}
	return "the checkpoint's own index"
}

func holdsWeights(p string) bool {
	switch path.Ext(p) {
	case ".safetensors", ".gguf", ".bin", ".pt", ".pth", ".npz", ".onnx":
		return true
	}
	return false
}

// maxIndex bounds the shard index that is read into memory.
const maxIndex = 256 << 20

// indexed returns the shards that the checkpoint's own index files name.
func indexed(dir string, s *Scan) ([]string, error) {
	var shards []string
	for _, f := range s.Files {
		if !strings.HasSuffix(f.Path, ".index.json") {
			continue
		}
		if f.Size > maxIndex {
			return nil, fmt.Errorf("%s: %d bytes are too many for a shard index", f.Path, f.Size)
		}
		src, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.Path)))
		if err != nil {
			return nil, err
		}
		var index struct {
			WeightMap map[string]string `json:"weight_map"`
		}
		if err := json.Unmarshal(src, &index); err != nil {
			shards = append(shards, f.Path+" (unreadable index)")
			continue
		}
		for _, shard := range index.WeightMap {
			shards = append(shards, path.Join(path.Dir(f.Path), shard))
		}
	}
	slices.Sort(shards)
	return slices.Compact(shards), nil
}

// Verify puts replicas together: they must all be whole and equal.
func Verify(replicas []Replica, reference *digest.Digest, bytes int64) Verification {
	v := Verification{Schema: VerificationSchema, OK: true, Replicas: replicas, Bytes: bytes}
	if reference != nil {
		v.Reference = &Reference{SHA256: *reference}
	}
	same := true
	for _, r := range replicas {
		v.OK = v.OK && r.OK()
		same = same && r.ManifestSHA256 == replicas[0].ManifestSHA256
	}
	v.OK = v.OK && same
	if same {
		v.ManifestSHA256 = &replicas[0].ManifestSHA256
	} else if reference == nil {
		markUnlike(replicas)
	}
	return v
}
