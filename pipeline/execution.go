package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"anvil/pipeline/event"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/plan"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

// An execution is one call of Executor.Run.
type execution struct {
	x     *Executor
	plan  *plan.Plan
	opt   Options
	graph *graph

	id    string // of the run; "" until a new one begins
	began time.Time
	base  *earlierRun
	reuse *earlierRun
	kept  *earlierRun // the run itself, when it is resumed

	history history // for explanations

	reader    *prov.Reader
	files     fileCache
	sound     sync.Map // digest.Digest of objects that were hashed
	secrets   *stage.Secrets
	resources stage.Resources
	locks     *locks
	exclusive atomic.Int64 // stages that still may need the locks

	folder  *folder // nil until the run has one
	events  *emitter
	pending []prov.Line // for the journal, from before there was one
	mu      sync.Mutex  // guards pending

	settling sync.Mutex // held while the base's folder is

	tool    func() (stage.Tool, error) // which program this is, found out once
	resumed bool
	halt    halt
}

func (x *Executor) newExecution(p *plan.Plan, opt Options) (*execution, error) {
	g, err := newGraph(p)
	if err != nil {
		return nil, err
	}
	e := &execution{x: x, plan: p, opt: opt, graph: g, reader: prov.NewReader(x.Store), tool: sync.OnceValues(x.tool)}
	e.secrets = &stage.Secrets{Env: x.lookupEnv(), TooShort: func(name string) {
		x.Log.Warn().Str("variable", name).Msg("the secret is shorter than six bytes: too short to be kept out of what a server says and of what is written")
	}}
	e.halt.stop = make(chan struct{})
	return e, nil
}

func (e *execution) run(ctx context.Context) (*Run, error) {
	if err := e.name(ctx); err != nil {
		return nil, err
	}
	if e.opt.DryRun {
		return e.dryRun(ctx)
	}
	if err := e.prepare(); err != nil {
		return nil, err
	}
	e.events = newEmitter(e.x.sink(), e.x.now, e.id, e.x.progressEvery())
	defer e.events.close()
	if e.opt.Resume == "" {
		return e.runPrepared(ctx)
	}
	if err := e.reopenFolder(ctx); err != nil {
		return nil, err
	}
	r, err := e.runPrepared(ctx)
	return r, errors.Join(err, e.folder.close())
}

// name settles which run is gone on with, if any, and what is asked of it.
func (e *execution) name(ctx context.Context) (err error) {
	if e.opt.Resume != "" {
		err = e.findResumed(ctx)
	}
	if err == nil {
		err = e.graph.assign(e.opt)
	}
	return err
}

// begin names a new run. It does when nothing keeps the run from beginning any
// more: after it waited, others may have begun that are not newer.
func (e *execution) begin() (err error) {
	e.began = e.x.now()
	if e.id, err = newRunID(e.plan.Name, e.began, e.x.entropy()); err != nil {
		return err
	}
	e.events.run = e.id
	return e.locks.sign(e.holder())
}

// prepare finds out that the workspace can be written, before anything runs.
func (e *execution) prepare() error {
	if err := e.x.Store.Prepare(); err != nil {
		return err
	}
	d, err := disk.Make(filepath.Join(e.x.Workspace, prov.RunsFolder), e.x.hook)
	if err != nil {
		return err
	}
	return d.Close()
}

func (e *execution) runPrepared(ctx context.Context) (*Run, error) {
	if err := e.openEarlier(ctx); err != nil {
		return nil, err
	}
	if err := e.decide(ctx); err != nil {
		return nil, err
	}
	if err := e.lockEndpoints(ctx); err != nil {
		return nil, err
	}
	defer e.locks.release()
	if e.folder != nil {
		return e.walk(ctx)
	}
	if err := e.begin(); err != nil {
		return nil, err
	}
	if err := e.openFolder(); err != nil {
		return nil, err
	}
	r, err := e.walk(ctx)
	return r, errors.Join(err, e.folder.close())
}

// openEarlier opens the runs on which this one builds.
func (e *execution) openEarlier(ctx context.Context) (err error) {
	if len(e.opt.Only) > 0 || len(e.opt.From) > 0 {
		if e.opt.Base == "" {
			base, err := e.x.FindBase(ctx, e.plan.Name, Needs(e.plan), e.opt)
			if err != nil {
				return err
			}
			e.opt.Base = base.Name
		}
		if e.base, err = e.openRun(ctx, &e.opt.Base); err != nil {
			return err
		}
	}
	if e.opt.Reuse != "" {
		e.reuse, err = e.openRun(ctx, &e.opt.Reuse)
	}
	return err
}

// openRun loads a run by any of its names, and puts the one in its place that
// means this run also when newer ones have begun. A run that was removed since
// a resumed one began is gone: what was taken over from it the journal names.
func (e *execution) openRun(ctx context.Context, name *string) (_ *earlierRun, err error) {
	r, err := prov.OpenRun(e.x.Workspace, *name)
	if errors.Is(err, prov.ErrNoRun) && e.kept != nil {
		return &earlierRun{run: filepath.Base(*name), gone: true}, nil
	}
	if err != nil {
		return nil, &BaseError{Base: *name, Reason: err.Error()}
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	*name = e.x.lasting(r)
	return loadRun(ctx, r, e.reader)
}

// lockEndpoints takes the locks of all endpoints that exclusive stages of this
// run may use. Stages that are restored or taken over need none, nor does the
// embedded engine, which belongs to the run alone.
func (e *execution) lockEndpoints(ctx context.Context) error {
	var names []string
	for _, n := range e.graph.order {
		if !n.spec.Exclusive || n.outcome.status != "" {
			continue
		}
		n.locks = true
		e.exclusive.Add(1)
		if n.Endpoint == nil || n.Endpoint.BaseURL == "" {
			continue
		}
		name, err := endpointName(n.Endpoint.BaseURL)
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil
	}
	dir, err := lockFolder(e.x.lookupEnv())
	if err != nil {
		return fmt.Errorf("lock endpoints: %w", err)
	}
	ctx, done := e.untilInterrupt(ctx)
	defer done()
	e.locks, err = lockEndpoints(ctx, dir, names, e.holder(), e.opt.Wait, e.waiting)
	return err
}

// untilInterrupt is for waiting before anything runs: the first interrupt ends it.
func (e *execution) untilInterrupt(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	release := e.halt.watch(ctx, e.opt.Interrupt, func() { cancel(ErrInterrupted) })
	return ctx, func() { release(); cancel(nil) }
}

func (e *execution) waiting(busy *BusyError) {
	e.events.emit(event.Event{Event: event.RunWaiting, Code: "busy", Text: "waiting: " + busy.Error()})
}

// lastExclusive gives the endpoint locks back after the last stage that could
// use them.
func (e *execution) lastExclusive(n *node) {
	if n.locks && e.exclusive.Add(-1) == 0 {
		e.locks.release()
	}
}

// warn tells the user something that stops nothing.
func (e *execution) warn(n *node, code, text string) {
	text = e.secrets.Redact(text)
	e.x.Log.Warn().Str("stage", n.ID).Str("code", code).Msg(text)
	if e.events == nil {
		return
	}
	ev := n.stageEvent(event.StageWarning)
	ev.Code, ev.Text = code, text
	e.events.emit(ev)
}

// note appends a line to the journal, or keeps it until there is one.
func (e *execution) note(l prov.Line) error {
	if e.folder != nil {
		return e.folder.journal.Append(l)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pending = append(e.pending, l)
	return nil
}
