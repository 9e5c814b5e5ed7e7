package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	"anvil/pipeline/digest"
	"anvil/pipeline/event"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
)

// The codes of a result's error.
const (
	CodeStage       = "stage_failed"   // the stage said that it could not do its work
	CodeTimeout     = "timeout"        // of the plan
	CodeInterrupted = "interrupted"    // by the user
	CodeChanged     = "input_changed"  // a file that the stage read is another at its end
	CodeInput       = "input_missing"  // what the stage reads is not there or cannot be read
	CodeMissing     = "output_missing" // a declared output was not written
	CodeInvalid     = "output_invalid" // an output does not fit its schema
	CodeDiskFull    = "disk_full"
	CodeReadOnly    = "read_only"
	CodeGone        = "workspace_gone"
	CodePreflight   = "preflight" // the stage found out before anything ran that it cannot work
	CodePanic       = "panic"     // a fault of anvil
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

// paperFault tells a full or vanished disk, which fails the stage that met it
// and whatever comes to the same, from a fault that ends the run.
func (e *execution) paperFault(err error) error {
	if codeOf(err, "") != "" {
		return nil
	}
	return err
}

// codeOf gives the code of an error that has one of its own.
func codeOf(err error, otherwise string) string {
	var full *store.FullError
	var readOnly *store.ReadOnlyError
	var gone *store.GoneError
	switch {
	case errors.As(err, &full):
		return CodeDiskFull
	case errors.As(err, &readOnly):
		return CodeReadOnly
	case errors.As(err, &gone):
		return CodeGone
	}
	return otherwise
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
	if changed := unchanged(a.b.leaves); changed != nil && a.cause == nil {
		return prov.Failed, &codedError{CodeChanged, changed}
	}
	switch {
	case err == nil:
		return prov.OK, nil
	case a.stack != nil:
		a.final = true
		return prov.Failed, &codedError{CodePanic, err}
	case errors.Is(err, stage.ErrAborted):
		a.final = true
		if a.cause != nil {
			err = a.cause
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

func causeCode(cause error) string {
	var t *timeoutError
	switch {
	case errors.As(cause, &t):
		return CodeTimeout
	case errors.Is(cause, ErrInterrupted):
		return CodeInterrupted
	}
	return CodeStage
}

// A codedError is an error with the code that stands in the result.
type codedError struct {
	code string
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }

func (e *codedError) Unwrap() error { return e.err }

// A timeoutError is the cause with which a stage stops that took too long.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("the stage's timeout of %s is over", e.after)
}

// backstop is how long a stage that drains may take to do so after its timeout.
const backstop = 10 * time.Minute

// watched runs the stage under its timeout and the user's interrupts: a stage
// that drains is asked to stop, any other is cancelled.
func (a *attempt) watched(hard context.Context, s stage.Stage, in stage.Inputs) error {
	ctx, cancel := context.WithCancelCause(hard)
	defer cancel(nil)
	stop := make(chan struct{})
	causes := make(chan error, 1)
	a.env.Stop = stop
	a.env.StopCause = func() error {
		select {
		case cause := <-causes:
			causes <- cause
			return cause
		default:
			return nil
		}
	}
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cause := a.awaitCause(done)
		if cause == nil {
			return
		}
		causes <- cause
		close(stop)
		if !a.n.spec.Drains {
			cancel(cause)
			return
		}
		if !errors.Is(cause, ErrInterrupted) {
			t := time.NewTimer(backstop)
			defer t.Stop()
			select {
			case <-done:
			case <-t.C:
				cancel(cause)
			}
		}
	}()
	err := a.guarded(ctx, s, in)
	close(done)
	<-ended
	a.cause = a.env.StopCause()
	return err
}

// awaitCause waits for what stops a stage before its end; nil is its end.
func (a *attempt) awaitCause(done <-chan struct{}) error {
	var over <-chan time.Time
	if a.n.Timeout > 0 {
		t := time.NewTimer(a.n.Timeout)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-done:
		return nil
	case <-a.e.halt.stop:
		return ErrInterrupted
	case <-over:
		return &timeoutError{a.n.Timeout}
	}
}

func (a *attempt) guarded(ctx context.Context, s stage.Stage, in stage.Inputs) error {
	return a.guard(func() error { return s.Run(ctx, a.env, in, a.outputs.out) })
}

// guard runs a kind's code; a panic becomes an error whose stack goes to the
// attempt's log alone.
func (a *attempt) guard(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			a.stack = debug.Stack()
			a.env.Log.Error().Str("panic", fmt.Sprint(p)).Bytes("stack", a.stack).Msg("stage panicked")
			err = fmt.Errorf("internal fault in %s: %v (the stack is in %s)", a.n.spec.Name, p, filepath.Join(a.folder.disk.Dir(), a.dir, prov.LogName))
		}
	}()
	return run()
}

// publish writes the outputs, the statement, the result and what points to it,
// in this order: a crash leaves the old state or the new one.
func (a *attempt) publish(ctx context.Context, status prov.Status, failure error) error {
	n, e := a.n, a.e
	set := a.limitations(status)
	var outs []prov.Output
	if status == prov.OK || status == prov.Aborted {
		var err error
		if outs, err = a.outputs.publish(ctx, set, status == prov.OK, e.secrets); err != nil {
			status, failure, outs = prov.Failed, err, nil
		}
	}
	res := a.result(status, failure, outs, set)
	raw, err := prov.EncodeResult(res)
	if err != nil {
		return err
	}
	sum, err := a.write(ctx, raw)
	if err != nil {
		return err
	}
	err = a.folder.journal.Append(prov.Line{
		Event: prov.StageFinished, Stage: n.ID, Kind: n.spec.Name, Attempt: a.number, Status: status, Key: &a.b.key, Result: &sum, Text: messageOf(res.Error),
	})
	if err != nil {
		return err
	}
	n.outcome = n.stand(&standing{sum: sum, res: &res, how: prov.Executed}, e.x.Store)
	n.outcome.elapsed = elapsed(a.begun)
	n.outcome.internal = a.stack != nil
	if status == prov.OK {
		err = e.x.Store.Point(a.b.key, store.Pointer{Run: a.runID, Stage: n.ID, Attempt: a.number, Result: sum})
	}
	a.copies(outs)
	return err
}

func messageOf(err *prov.ResultError) string {
	if err == nil {
		return ""
	}
	return err.Message
}

func (a *attempt) result(status prov.Status, failure error, outs []prov.Output, set stage.LimitationSet) prov.Result {
	res := prov.Result{
		Schema: prov.ResultSchema, Run: a.runID, Stage: a.n.ID, Kind: a.n.spec.Name, Contract: a.n.spec.Contract, Class: a.n.spec.Class,
		Attempt: a.number, Status: status, Key: a.b.key, Config: a.n.KeyConfig, Salt: a.e.plan.Salt, Inputs: a.b.inputs,
		Outputs: outs, Limitations: set, StartedAt: a.started, FinishedAt: a.e.x.now(), Findings: a.findings(),
	}
	if failure != nil {
		coded := &codedError{codeOf(failure, CodeStage), failure}
		errors.As(failure, &coded)
		res.Error = &prov.ResultError{Code: coded.code, Message: a.e.secrets.Redact(failure.Error())}
	}
	return res
}

func (a *attempt) findings() []stage.Finding {
	if a.outputs == nil {
		return nil
	}
	var out []stage.Finding
	for _, f := range a.outputs.out.Collect().Findings {
		out = append(out, stage.Finding{Code: f.Code, Text: a.e.secrets.Redact(f.Text)})
	}
	return out
}

// write stores the result and puts it, after its statement, into the attempt's
// folder.
func (a *attempt) write(ctx context.Context, result []byte) (digest.Digest, error) {
	sum, err := a.e.x.Store.PutBytes(ctx, result)
	if err != nil {
		return sum, err
	}
	st, err := prov.StageStatement(result, a.e.x.Tool)
	if err != nil {
		return sum, err
	}
	statement, err := st.Encode()
	if err != nil {
		return sum, err
	}
	d := a.folder.disk
	if err := d.WriteFile(filepath.Join(a.dir, prov.StatementName), statement); err != nil {
		return sum, err
	}
	return sum, d.WriteFile(filepath.Join(a.dir, prov.ResultName), result)
}

// copies puts the outputs under readable names. They may be lost; what they
// are copies of may not, so an error is told and stops nothing.
func (a *attempt) copies(outs []prov.Output) {
	for _, o := range outs {
		name := filepath.Join(prov.ArtifactsFolder, a.n.Dir, o.Name)
		if err := a.e.x.Store.Export(o.SHA256, a.folder.disk.Root(), name); err != nil {
			a.e.warn(a.n, "copy_failed", fmt.Sprintf("the readable copy %s: %v", name, err))
		}
	}
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
