package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"anvil/pipeline"
	"anvil/pipeline/event"
)

var errInterrupted = errors.New("interrupted")

// interruptible makes the first interrupt ask the run to drain and the second
// stop it. The first is acknowledged at once by calling tell.
func interruptible(ctx context.Context, opt *pipeline.Options, tell func()) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	first := make(chan struct{})
	opt.Interrupt = first
	ended := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-signals:
			case <-ended:
				return
			}
			if n == 0 {
				close(first)
				go tell() // a reader that stands still must not keep the second from being heard
			} else {
				cancel(errInterrupted)
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(ended)
		cancel(nil)
	}
}

// outliveReaders lets a run go on when nobody reads its output any more: a write
// to a closed pipe then fails, and does not end the process. The signal is taken
// and dropped rather than ignored, which programs started here would inherit.
func outliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// interruptedText acknowledges the first interrupt.
const interruptedText = "interrupted: nothing more is sent, what is under way may end within its drain; a second Ctrl-C cuts it"

// An acknowledger is a sink into whose events the acknowledgement of an
// interrupt falls, between the first and the last of them.
type acknowledger struct {
	mu    sync.Mutex
	next  event.Sink
	run   string
	ended bool
}

// Emit passes the event on.
func (s *acknowledger) Emit(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run, s.ended = e.Run, e.Event == event.RunFinished
	s.next.Emit(e)
}

// interrupted says that the interrupt was heard, unless all has been said.
func (s *acknowledger) interrupted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.next.Emit(event.Event{Event: event.RunWarning, At: time.Now().UTC(), Run: s.run, Code: "interrupted", Text: interruptedText})
	}
}

// end says that nothing may follow.
func (s *acknowledger) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}
