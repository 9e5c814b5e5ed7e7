// Package stage is the vocabulary that a kind speaks: what a kind declares, what
// a stage is given, and what it may publish.
//
// A kind sees this package and the shared packages beside the kinds, never the
// store, the plan or the executor. It can add limitations and can drop none:
// the executor forms the set of every output.
package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"anvil/schemas"
)

// Class says whether a stage is a function of its inputs or reads the world.
type Class string

// The classes. Pure stages are restored when their key is known; observational
// ones run in every new run.
const (
	Pure          Class = "pure"
	Observational Class = "observational"
)

// A Stage is a kind with its configuration, ready to run once.
type Stage interface {
	// Run does the work. It reads in, writes to out and returns an error only
	// when it could not do its work: what weakens the evidence is out.Limit, a
	// gate that fails is out.Finding. An error that wraps ErrAborted publishes
	// what was written with the status "aborted". When ctx ends it stops at once.
	Run(ctx context.Context, env Env, in Inputs, out *Outputs) error
}

// A Preflighter is a Stage that can find out before anything runs that it
// cannot work: a missing program, an unreadable directory.
type Preflighter interface {
	Preflight(ctx context.Context, env Env) error
}

// A Skipper is a Stage that may have nothing to do; the reason stands in the run.
type Skipper interface {
	Skip(in Inputs) (reason string, skip bool)
}

// ErrAborted is wrapped by the error of a stage that stopped before its end
// and published what it had.
var ErrAborted = errors.New("aborted")

// An AbortedError is an ErrAborted that tells what the stage was at: the run
// says it beside the cause.
type AbortedError struct{ While error }

func (e *AbortedError) Error() string { return ErrAborted.Error() + ": " + e.While.Error() }

// Unwrap makes it an ErrAborted.
func (e *AbortedError) Unwrap() []error { return []error{ErrAborted, e.While} }

// ErrFinal is wrapped by the error of a stage that must not be tried again,
// whatever the plan's "retries": its phase sent a measured request.
var ErrFinal = errors.New("not to be tried again")

// A Recoverer is a Stage that can turn what an attempt left in its folder when
// its process was killed into partial evidence. It runs in that attempt's name,
// publishes what it can decode as an aborted stage does, and touches nothing
// but the folder. An error says that nothing could be decoded.
type Recoverer interface {
	Recover(ctx context.Context, env Env, in Inputs, out *Outputs) error
}

// A Port is one input or one output.
type Port struct {
	Name     string     // an output's is its file name: "measurement.json"
	Schema   schemas.ID // "" on an output of a kind that has Spec.Outputs
	Many     bool       // takes any number of artifacts
	Optional bool
	Closure  bool // a resolver over all that the bound input reaches by digest; all of it enters the key
}

// A Spec declares a kind: what it reads, what it writes, what configures it.
type Spec struct {
	Name      string     // the plan's "uses:"
	Contract  int        // raise when the same inputs would now give a different output; in the key and the buildType
	Config    schemas.ID // schema of "with"
	In, Out   []Port
	Class     Class
	Exclusive bool // while one runs, nothing else does, and its endpoint is locked
	Gates     bool // a finding blocks what depends on the stage: scout, verify-weights
	Drains    bool // watches Env.Stop; other stages are cancelled at the first interrupt
	Collects  bool // collects every matrix axis unless the plan says otherwise

	// Resolve, which may be nil, runs once for each stage when a plan is read,
	// after defaults were filled and the configuration fits its schema: it sets
	// the defaults that come from the plan or from another stage and reports
	// what a schema cannot say.
	Resolve func(r *Resolution)

	// Outputs, which may be nil, gives the outputs of one stage from its resolved
	// configuration where they are not the same for every stage of the kind.
	Outputs func(with map[string]any) []Port

	// Project, which may be nil, writes what of a file named in "with" is read:
	// this enters the key and is what Inputs.File gives, while the whole file is
	// stored as well. It returns false for a pointer that has no projection.
	Project func(config json.RawMessage, pointer string, file io.Reader, w io.Writer) (schema schemas.ID, ok bool, err error)
}

// A Kind makes stages.
type Kind interface {
	Spec() Spec
	// New makes a stage from a resolved configuration. It does no I/O.
	New(config json.RawMessage) (Stage, error)
}

// Define makes a Kind whose stages see their own configuration type. Unknown
// fields of a configuration are an error.
func Define[C any](spec Spec, make func(C) (Stage, error)) Kind {
	return kind[C]{spec: spec, make: make}
}

type kind[C any] struct {
	spec Spec
	make func(C) (Stage, error)
}

func (k kind[C]) Spec() Spec { return k.spec }

func (k kind[C]) New(config json.RawMessage) (Stage, error) {
	var c C
	dec := json.NewDecoder(bytes.NewReader(config))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", k.spec.Name, err)
	}
	return k.make(c)
}

// A Set holds kinds by name.
type Set map[string]Kind

// NewSet panics on a duplicate name: a fault of the build.
func NewSet(kinds ...Kind) Set {
	s := make(Set, len(kinds))
	for _, k := range kinds {
		name := k.Spec().Name
		if _, ok := s[name]; ok {
			panic("kind " + name + " is listed twice")
		}
		s[name] = k
	}
	return s
}
