package pipeline

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/rs/zerolog"

	"anvil/pipeline/event"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/plan"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
)

// An Executor runs plans in one workspace. Workspace and Store must be set; the
// zero value of every other field stands for the obvious default. It may run
// several plans, one after the other or at once.
type Executor struct {
	Workspace string       // holds .anvil and runs
	Store     *store.Store // of the workspace
	Events    event.Sink   // event.Discard
	Log       zerolog.Logger
	Now       func() time.Time // time.Now; for what is written
	Jobs      int              // the processors; stages that run at once

	// Tool tells which program this is, as every paper says; it is asked when the
	// first is written, because hashing a binary takes its time.
	Tool func() (stage.Tool, error)

	LookupEnv func(name string) (string, bool) // os.LookupEnv
	Exec      stage.CommandFunc
	Entropy   io.Reader // crypto/rand; for run ids and claims

	// ProgressEvery is how often running stages are sampled; a quarter of a second.
	ProgressEvery time.Duration

	hook disk.Hook // of tests: sees every step of writing into a run's folder
}

// Options say what of a plan to run and on what to build.
type Options struct {
	Only  []string // stage ids: these alone, always executed
	From  []string // stage ids: these and what depends on them, as a plain run does
	Force []string // stage ids: executed also when their key is known

	Base   string // the run that Only and From build on; "" is the newest that serves
	Resume string // the run to go on with; ResumeNewest is the newest unfinished one
	Reuse  string // a run whose observations are taken over where their keys are equal

	AcceptAborted bool // take over what was aborted, too
	Wait          bool // for locks that others hold
	DryRun        bool // decide and execute nothing

	// Interrupt, closed or sent to, is the first interrupt: issue nothing more,
	// drain, write what there is. The end of Run's context is the second.
	Interrupt <-chan struct{}
}

// ResumeNewest as Options.Resume names the newest unfinished run of the plan.
const ResumeNewest = "newest"

// Run runs a plan, or those stages of it that opt names.
//
// An error says that there is no run, or that its own papers could not be
// written; a stage that failed is no error: Run.Exit says it. Errors that have
// an exit code of their own are *BusyError (8), *BaseError (3), *BrokenError
// (6), *SelectionError (2) and the store's *FullError, *ReadOnlyError and
// *GoneError (4). Beside one of the last three the run may be given as well.
//
// With opt.DryRun nothing is written and Run.Decisions alone is filled.
func (x *Executor) Run(ctx context.Context, p *plan.Plan, opt Options) (*Run, error) {
	e, err := x.newExecution(p, opt)
	if err != nil {
		return nil, err
	}
	return e.run(ctx)
}

func (x *Executor) now() time.Time {
	if x.Now == nil {
		return time.Now().UTC()
	}
	return x.Now().UTC()
}

func (x *Executor) jobs() int {
	if x.Jobs > 0 {
		return x.Jobs
	}
	return runtime.GOMAXPROCS(0)
}

func (x *Executor) sink() event.Sink {
	if x.Events == nil {
		return event.Discard
	}
	return x.Events
}

func (x *Executor) lookupEnv() func(string) (string, bool) {
	if x.LookupEnv == nil {
		return os.LookupEnv
	}
	return x.LookupEnv
}

func (x *Executor) tool() (stage.Tool, error) {
	if x.Tool == nil {
		return stage.Tool{}, nil
	}
	return x.Tool()
}

func (x *Executor) entropy() io.Reader {
	if x.Entropy == nil {
		return rand.Reader
	}
	return x.Entropy
}

func (x *Executor) progressEvery() time.Duration {
	if x.ProgressEvery > 0 {
		return x.ProgressEvery
	}
	return 250 * time.Millisecond
}
