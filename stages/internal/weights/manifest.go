package weights

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"anvil/pipeline/digest"
	"anvil/schemas"
)

// ManifestSchema is the id of a manifest.
const ManifestSchema schemas.ID = "anvil.weights-manifest/v1"

// A Manifest names every file of a checkpoint. Its bytes are canonical: equal
// files under equal names give equal bytes, whatever the machine, so the digest
// of the manifest is the identity of the weights.
type Manifest struct {
	Schema schemas.ID `json:"schema"`
	Files  []File     `json:"files"` // sorted by path in byte order
}

// Manifest returns the manifest of what was found.
func (s *Scan) Manifest() Manifest { return Manifest{Schema: ManifestSchema, Files: s.Files} }

// Encode returns the canonical bytes: indent 2, a final newline.
func (m Manifest) Encode() []byte {
	if m.Files == nil {
		m.Files = []File{}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(m); err != nil {
		panic(err) // strings, integers and digests only
	}
	return b.Bytes()
}

// Digest is the SHA-256 of Encode.
func (m Manifest) Digest() digest.Digest { return digest.FromBytes(m.Encode()) }

// ParseManifest reads a pinned manifest: the shape of its schema, paths that
// stay below the root, sorted and named once.
func ParseManifest(src []byte) (Manifest, error) {
	var m Manifest
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	var doc any
	if err := dec.Decode(&doc); err != nil {
		return m, fmt.Errorf("not JSON: %w", err)
	}
	if dec.More() {
		return m, errors.New("more than one JSON document")
	}
	if err := schemas.Check(ManifestSchema, doc); err != nil {
		return m, err
	}
	if err := json.Unmarshal(src, &m); err != nil {
		return m, err
	}
	for i, f := range m.Files {
		if f.Path != path.Clean(f.Path) || path.IsAbs(f.Path) || strings.HasPrefix(f.Path, "../") || f.Path == ".." {
			return m, fmt.Errorf("files[%d]: path %q leaves the checkpoint's root or is not in its shortest form", i, f.Path)
		}
		if i > 0 && m.Files[i-1].Path >= f.Path {
			return m, fmt.Errorf("files[%d]: path %q is not sorted after %q", i, f.Path, m.Files[i-1].Path)
		}
	}
	return m, nil
}

func (m Manifest) find(p string) (File, bool) {
	i, ok := slices.BinarySearchFunc(m.Files, p, func(f File, p string) int { return strings.Compare(f.Path, p) })
	if !ok {
		return File{}, false
	}
	return m.Files[i], true
}
