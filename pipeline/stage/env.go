package stage

import (
	"context"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"anvil/pipeline/digest"
)

// Env is all that a stage may know of the world outside its inputs.
type Env struct {
	Log       zerolog.Logger
	Now       func() time.Time // for what is written; timing uses the monotonic clock of package time
	Seed      digest.Digest    // of the plan's seed; see Rand
	Stage     string           // id of the stage, the child's in a matrix
	Cell      Cell             // the matrix point; empty without one
	PlanDir   string           // relative paths of a configuration start here
	Folder    *os.Root         // the attempt's own folder, for captures and partial evidence; nil for a pure stage
	Progress  *Progress
	Exec      CommandFunc
	Secrets   *Secrets
	Resources *Resources
	Tool      Tool
	Plan      PlanIdentity

	// Stop is closed when the stage should issue nothing more, drain, and
	// publish what it has with an error that wraps ErrAborted. StopCause says why.
	Stop      <-chan struct{}
	StopCause func() error
}

// Rand returns the random stream of that name: ChaCha8, seeded by
// SHA-256(seed, name), so that a new consumer never shifts another's draws.
func (e Env) Rand(name string) *rand.Rand {
	h := sha256.New()
	h.Write(e.Seed[:])
	h.Write([]byte(name))
	return rand.New(rand.NewChaCha8([32]byte(h.Sum(nil))))
}

// SeedOf returns the digest of a plan's seed from which its streams derive.
func SeedOf(seed int64) digest.Digest {
	var b [8]byte
	for i := range b {
		b[i] = byte(uint64(seed) >> (8 * (7 - i)))
	}
	return digest.FromBytes(b[:])
}

// An AxisValue is one coordinate of a matrix point.
type AxisValue struct {
	Axis  string
	Value any // string, json.Number, bool or nil
}

// A Cell is a matrix point, its axes in the order of the plan.
type Cell []AxisValue

// Map returns the cell as an object; never nil.
func (c Cell) Map() map[string]any {
	m := make(map[string]any, len(c))
	for _, a := range c {
		m[a.Axis] = a.Value
	}
	return m
}

// A Tool is the identity of the program that runs; Revision is null with its
// reason where the build has none.
type Tool struct {
	Version        string        `json:"version"`
	Revision       *string       `json:"revision"`
	Dirty          *bool         `json:"dirty"`
	RevisionReason *string       `json:"revision_reason"`
	BinarySHA256   digest.Digest `json:"binary_sha256"`
}

// A PlanIdentity says which plan text a stage ran under. It is no part of any
// key: editing a comment re-runs nothing, and a restored record names the text
// that it was made from.
type PlanIdentity struct {
	Name           string        `json:"name"`
	SHA256         digest.Digest `json:"sha256"`          // of the plan file
	ResolvedSHA256 digest.Digest `json:"resolved_sha256"` // of plan.resolved.json
}

// A CommandFunc runs a program and returns what it printed.
type CommandFunc func(ctx context.Context, argv []string, stdin io.Reader) (stdout, stderr []byte, err error)

// Progress is bumped by a stage and sampled by the executor; nothing in it
// formats text or takes a lock on the way of a request.
type Progress struct {
	Done, Total atomic.Int64

	unit  atomic.Pointer[string]
	tally sync.Map // string to *atomic.Int64
}

// SetUnit names what Done and Total count: "requests", "bytes".
func (p *Progress) SetUnit(unit string) { p.unit.Store(&unit) }

// Unit returns what SetUnit said.
func (p *Progress) Unit() string {
	if u := p.unit.Load(); u != nil {
		return *u
	}
	return ""
}

// Count adds one to the tally of an outcome.
func (p *Progress) Count(outcome string) {
	c, ok := p.tally.Load(outcome)
	if !ok {
		c, _ = p.tally.LoadOrStore(outcome, new(atomic.Int64))
	}
	c.(*atomic.Int64).Add(1)
}

// Tally returns a copy of the counts, nil when there are none.
func (p *Progress) Tally() map[string]int {
	var out map[string]int
	p.tally.Range(func(k, v any) bool {
		if out == nil {
			out = map[string]int{}
		}
		out[k.(string)] = int(v.(*atomic.Int64).Load())
		return true
	})
	return out
}

// Resources are what one run holds on behalf of several of its stages: a
// simulated engine that the scout warmed stays warm for the measurement.
type Resources struct {
	mu    sync.Mutex
	held  map[string]io.Closer
	order []string
}

// Get returns the resource of that name, opening it at the first call.
func (r *Resources) Get(name string, open func() (io.Closer, error)) (io.Closer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.held[name]; ok {
		return c, nil
	}
	c, err := open()
	if err != nil {
		return nil, err
	}
	if r.held == nil {
		r.held = map[string]io.Closer{}
	}
	r.held[name] = c
	r.order = append(r.order, name)
	return c, nil
}

// Close closes everything that was opened, the last first, and returns the
// first error.
func (r *Resources) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var first error
	for _, name := range slices.Backward(r.order) {
		if err := r.held[name].Close(); err != nil && first == nil {
			first = err
		}
	}
	r.held, r.order = nil, nil
	return first
}
