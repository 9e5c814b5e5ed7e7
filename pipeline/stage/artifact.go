package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"anvil/pipeline/digest"
	"anvil/schemas"
)

// A Ref is what travels. All four, always; Limitations is the digest of the
// artifact's limitation set.
type Ref struct {
	Schema      schemas.ID    `json:"schema"`
	SHA256      digest.Digest `json:"sha256"` // of the file as stored
	Size        int64         `json:"size"`   // bytes as stored
	Limitations digest.Digest `json:"limitations"`
}

// An Opener gives the bytes of an object. The reader fails before EOF on
// content of another digest or size (digest.Verify).
type Opener interface {
	Open(ctx context.Context, d digest.Digest, size int64) (io.ReadCloser, error)
}

// An Artifact is bytes with a schema and a digest, written once.
type Artifact struct {
	Ref
	Stage string // id of the stage that made it; "" for a leaf file
	Name  string // "measurement.json"; for a leaf file its base name

	opener Opener
	set    LimitationSet
}

// NewArtifact binds a reference to the place where its bytes are and to its
// limitation set. The executor calls it, and tests do.
func NewArtifact(ref Ref, stage, name string, from Opener, set LimitationSet) Artifact {
	return Artifact{Ref: ref, Stage: stage, Name: name, opener: from, set: set}
}

// Open returns the bytes. The reader verifies size and digest before EOF; the
// caller closes it.
func (a Artifact) Open(ctx context.Context) (io.ReadCloser, error) {
	if a.opener == nil {
		return nil, fmt.Errorf("artifact %s/%s: no bytes behind it", a.Stage, a.Name)
	}
	return a.opener.Open(ctx, a.SHA256, a.Size)
}

// LimitationSet returns the set that travels with the artifact; do not change it.
func (a Artifact) LimitationSet() LimitationSet { return a.set }

// Bytes reads the whole artifact, verified.
func (a Artifact) Bytes(ctx context.Context) (b []byte, err error) {
	r, err := a.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err = io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s/%s: %w", a.Stage, a.Name, err)
	}
	return b, nil
}

// Decode reads a JSON artifact into a T.
func Decode[T any](ctx context.Context, a Artifact) (T, error) {
	var v T
	b, err := a.Bytes(ctx)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return v, fmt.Errorf("decode %s/%s: %w", a.Stage, a.Name, err)
	}
	return v, nil
}

// A Closure is a read-only view of all that one artifact stands on: the
// transitive inputs of the attempt that made it, with leaves.
type Closure interface {
	All() iter.Seq[Artifact]                 // in a stable order, the bound artifact not among them
	Get(d digest.Digest) (Artifact, bool)    // by the digest of its bytes
	Made(d digest.Digest) (Production, bool) // how an artifact of the closure, or the bound one, was made; false for leaves
	Absent() []Ref                           // what an imported document refers to and the store does not hold
}

// A Production is the attempt that made an artifact, as its result names it.
type Production struct {
	Stage    string
	Kind     string
	Contract int
	Config   json.RawMessage       // as it entered the key
	Inputs   map[string][]Artifact // by port; files that "with" names under "with.<pointer>"
	Raised   LimitationSet         // the limitations in the result: inputs' and its own
}

// Inputs are the artifacts bound to a stage's ports.
type Inputs struct {
	ports    map[string][]Artifact
	files    map[string]Artifact
	closures map[string]Closure
}

// NewInputs binds artifacts by port, files by JSON pointer into "with", and
// closures by port. The maps are not copied.
func NewInputs(ports map[string][]Artifact, files map[string]Artifact, closures map[string]Closure) Inputs {
	return Inputs{ports: ports, files: files, closures: closures}
}

// One returns the artifact on a port that takes at most one; ok is false when
// an optional port is unbound.
func (in Inputs) One(port string) (a Artifact, ok bool) {
	as := in.ports[port]
	if len(as) == 0 {
		return Artifact{}, false
	}
	return as[0], true
}

// All returns the artifacts on a port in plan order.
func (in Inputs) All(port string) []Artifact { return in.ports[port] }

// File returns a file that "with" names by its JSON pointer, for example
// "/dataset"; of a file with a projection, the projection.
func (in Inputs) File(pointer string) (a Artifact, ok bool) { a, ok = in.files[pointer]; return a, ok }

// Closure returns the resolver of a port that asked for it, nil for any other.
func (in Inputs) Closure(port string) Closure { return in.closures[port] }
