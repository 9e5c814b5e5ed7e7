package stage

import "io"

// A Resolution is one stage's configuration while its plan is read.
type Resolution struct {
	// With is the configuration with its schema's defaults filled and every
	// reference substituted; numbers are json.Number. Resolve changes it in place.
	// An endpoint stands in it as the whole endpoint object.
	With map[string]any

	ID   string // of the stage
	Plan ResolutionPlan
	// Upstream are the stages that this one depends on, directly or not, the
	// nearest first and in plan order where equally near, already resolved.
	Upstream []Peer
	// Peer finds any stage of the plan by the id that the plan writes, resolved
	// where it stands upstream, else with its schema's defaults alone.
	Peer func(id string) (Peer, bool)

	// Open opens a file that With names, relative to the plan, for a kind that
	// must look at a file to know what it will publish.
	Open func(path string) (io.ReadCloser, error)
	// Once, which may be nil, keeps what was read of a file for all stages of the
	// plan: see Read.
	Once func(key string, read func() any) any

	problems []ResolutionProblem
}

// A ResolutionPlan is what a kind may take from the plan's top level.
type ResolutionPlan struct {
	Dir         string // the folder of the plan file: relative paths of a configuration start here
	Name        string
	Title       string
	Seed        int64
	Deployment  map[string]any // every key of plan-keys.md, null where the plan says nothing
	Conditions  []any          // {label, value}
	Limitations LimitationSet  // origin "plan"
}

// A Peer is another stage of the plan.
type Peer struct {
	ID   string // the child's in a matrix
	Of   string // as the plan writes it
	Kind string
	With map[string]any // do not change it
	// Direct is set of an upstream stage that this one itself names in needs or
	// inputs: its outputs may arrive on a port.
	Direct bool
}

// A ResolutionProblem is a fault of the configuration; Pointer is a JSON
// pointer into With and may name a key that the plan left out.
type ResolutionProblem struct{ Pointer, Message, Hint string }

// Read returns what read makes of a file, which is read once for all stages of a
// plan that give the same key: a sweep has thousands that look at one. What it
// returns is shared: nobody changes it.
func Read[T any](r *Resolution, key string, read func() T) T {
	if r.Once == nil {
		return read()
	}
	return r.Once(key, func() any { return read() }).(T)
}

// Problem reports a fault of the configuration.
func (r *Resolution) Problem(pointer, message, hint string) {
	r.problems = append(r.problems, ResolutionProblem{Pointer: pointer, Message: message, Hint: hint})
}

// Problems returns what was reported.
func (r *Resolution) Problems() []ResolutionProblem { return r.problems }
