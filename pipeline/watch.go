package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"time"

	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

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
