package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"anvil/pipeline/event"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
)

// execute runs attempts of a stage until one is not failed, or none is left.
func (e *execution) execute(ctx context.Context, n *node) error {
	for tries := 0; ; tries++ {
		leaves, err := storing(e.x.Store).leaves(ctx, n)
		if err != nil {
			return e.refuse(n, codeOf(err, CodeInput), err)
		}
		b, err := e.bind(ctx, n, leaves)
		if err == nil {
			err = b.putLists(ctx, e.x.Store)
		}
		if err != nil {
			return e.refuse(n, codeOf(err, CodeInput), err)
		}
		if e.skips(n, b) {
			return nil
		}
		a := &attempt{e: e, n: n, b: b, folder: e.folder, runID: e.id, number: n.attempts + 1}
		n.attempts++
		if err := a.run(ctx); err != nil {
			// Its papers could not be written: the stage is failed, and so is
			// the run, whose own papers say why if they can be written.
			_ = e.refuse(n, codeOf(err, CodeStage), err)
			return e.paperFault(err)
		}
		if n.outcome.status != prov.Failed || tries >= n.Retries || a.final || e.halt.halted() {
			return nil
		}
		if err := e.close(n); err != nil {
			return err
		}
		n.outcome = outcome{}
	}
}

// skips asks a stage that may have nothing to do.
func (e *execution) skips(n *node, b *bound) bool {
	s, err := n.Kind.New(n.With)
	if err != nil {
		return false // the attempt will say so
	}
	skipper, ok := s.(stage.Skipper)
	if !ok {
		return false
	}
	reason, skip := skipper.Skip(b.stageInputs(e.x.Store))
	if skip {
		n.outcome = outcome{status: prov.Skipped, reason: e.secrets.Redact(reason)}
	}
	return skip
}

// An attempt is one execution of a stage.
type attempt struct {
	e      *execution
	n      *node
	b      *bound
	folder *folder // of the run that it belongs to
	runID  string
	number int

	dir     string // below the run's folder
	token   string
	begun   time.Time // monotonic
	started time.Time // written
	outputs *outputs
	env     stage.Env
	cause   error // why it was stopped; nil when it was not
	stack   []byte
	final   bool // must not be tried again
}

// run claims the attempt, executes it and publishes what it made. An error
// says that its papers could not be written.
func (a *attempt) run(ctx context.Context) error {
	a.dir = filepath.Join(prov.StagesFolder, a.n.Dir, strconv.Itoa(a.number))
	a.begun, a.started = time.Now(), a.e.x.now()
	if err := a.claim(); err != nil {
		return err
	}
	ev := a.n.stageEvent(event.StageStarted)
	ev.Attempt = a.number
	a.e.events.emit(ev)
	status, failure := a.execute(ctx)
	return a.publish(context.WithoutCancel(ctx), status, failure)
}

// execute runs the stage and says what became of it.
func (a *attempt) execute(ctx context.Context) (prov.Status, error) {
	a.outputs = newOutputs(ctx, a.e.x.Store, a.n.spec)
	a.env = a.e.env(a.n)
	closeLog, err := a.openLog()
	if err != nil {
		return prov.Failed, err
	}
	defer closeLog()
	if a.n.spec.Class == stage.Observational {
		if a.env.Folder, err = a.folder.disk.Root().OpenRoot(a.dir); err != nil {
			return prov.Failed, err
		}
		defer a.env.Folder.Close()
	}
	s, err := a.n.Kind.New(a.n.With)
	if err != nil {
		return prov.Failed, err
	}
	in := a.b.stageInputs(a.e.x.Store)
	a.e.events.calls <- started{a.n, a.number, a.env.Progress, a.begun}
	err = a.watched(ctx, s, in)
	a.e.events.calls <- stopped{a.n}
	a.outputs.abandon()
	return a.judge(err)
}

// judge turns the error of a stage into its status.
func (a *attempt) judge(err error) (prov.Status, error) {
	if a.stack != nil {
		a.final = true
		return prov.Failed, &codedError{CodePanic, err}
	}
	if changed := unchanged(a.b.leaves); changed != nil {
		return prov.Failed, &codedError{CodeChanged, a.changed(changed, err)}
	}
	switch {
	case err == nil:
		return prov.OK, nil
	case errors.Is(err, stage.ErrAborted):
		a.final = true
		if a.cause != nil {
			err = because(a.cause, err)
		}
		return prov.Aborted, &codedError{causeCode(a.cause), err}
	case errors.Is(a.cause, ErrInterrupted):
		a.final = true
		return prov.Aborted, &codedError{CodeInterrupted, err}
	case a.cause != nil:
		return prov.Failed, &codedError{causeCode(a.cause), a.cause}
	}
	a.final = errors.Is(err, stage.ErrFinal)
	return prov.Failed, &codedError{codeOf(err, CodeStage), err}
}

// changed is what became of an attempt under which a file changed, however it
// ended. Of one that was stopped nothing is kept either: partial evidence, too,
// would name a content that it may not stand on. What was observed under the
// change is not observed again: the phase may have sent its requests.
func (a *attempt) changed(changed, err error) error {
	aborted := errors.Is(err, stage.ErrAborted)
	a.final = errors.Is(err, stage.ErrFinal) || a.n.spec.Class == stage.Observational && (err == nil || aborted)
	if a.cause != nil {
		changed = fmt.Errorf("%w; the stage was stopped as well: %w", changed, a.cause)
	}
	if aborted {
		changed = fmt.Errorf("%w; what it had until then is not kept, because it may stand on either content", changed)
	}
	return changed
}

// because is why a stage was stopped, and what it was at if it tells.
func because(cause, err error) error {
	if told, ok := errors.AsType[*stage.AbortedError](err); ok {
		return fmt.Errorf("%w: %w", cause, told.While)
	}
	return cause
}

// openLog opens the attempt's log, through which no secret passes.
func (a *attempt) openLog() (closeLog func(), err error) {
	f, err := a.folder.disk.Root().OpenFile(filepath.Join(a.dir, prov.LogName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		return nil, store.Explain(a.dir, err)
	}
	a.env.Log = a.logger(f)
	return func() { f.Close() }, nil
}
