package pipeline

import (
	"context"
	"errors"
	"sync"
)

// ErrInterrupted is the cause with which a run that was interrupted stops.
var ErrInterrupted = errors.New("interrupted")

// A halt is the first of the two steps in which a run is interrupted: nothing
// more begins, what drains drains, what does not is cancelled.
type halt struct {
	once sync.Once
	stop chan struct{} // closed at the first interrupt
}

// now interrupts.
func (h *halt) now() { h.once.Do(func() { close(h.stop) }) }

// halted tells whether the run was interrupted.
func (h *halt) halted() bool {
	select {
	case <-h.stop:
		return true
	default:
		return false
	}
}

// watch interrupts when the user does, at the latest when ctx ends, and then
// calls what is given. The returned function ends the watch and waits for it.
func (h *halt) watch(ctx context.Context, interrupt <-chan struct{}, then func()) (release func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-done:
			return
		case <-interrupt:
		case <-ctx.Done():
		}
		h.now()
		then()
	})
	return func() { close(done); wg.Wait() }
}
