package pipeline

import (
	"slices"
	"time"

	"anvil/pipeline/event"
	"anvil/pipeline/stage"
)

// An emitter sends the events of a run to its sink from one goroutine, in the
// order of the calls, and samples the stages that run in between.
type emitter struct {
	sink  event.Sink
	now   func() time.Time
	run   string
	calls chan any // event.Event, started or stopped
	done  chan struct{}
}

// started and stopped tell the sampler which stages run.
type (
	started struct {
		node     *node
		attempt  int
		progress *stage.Progress
		at       time.Time
	}
	stopped struct{ node *node }
)

func newEmitter(sink event.Sink, now func() time.Time, run string, every time.Duration) *emitter {
	m := &emitter{sink: sink, now: now, run: run, calls: make(chan any, 64), done: make(chan struct{})}
	go m.loop(every)
	return m
}

// close waits until everything was sent.
func (m *emitter) close() {
	close(m.calls)
	<-m.done
}

// emit sends an event. It stamps it and names the run.
func (m *emitter) emit(ev event.Event) {
	ev.At, ev.Run = m.now(), m.run
	m.calls <- ev
}

func (m *emitter) loop(every time.Duration) {
	defer close(m.done)
	var running []started
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case call, ok := <-m.calls:
			if !ok {
				return
			}
			switch call := call.(type) {
			case event.Event:
				m.sink.Emit(call)
			case started:
				running = append(running, call)
			case stopped:
				running = slices.DeleteFunc(running, func(s started) bool { return s.node == call.node })
			}
		case <-tick.C:
			for _, s := range running {
				m.sink.Emit(m.sample(s))
			}
		}
	}
}

func (m *emitter) sample(s started) event.Event {
	return event.Event{
		Event: event.StageProgress, At: m.now(), Run: m.run, Stage: s.node.ID, Kind: s.node.spec.Name, Attempt: s.attempt,
		Elapsed: time.Since(s.at), Done: s.progress.Done.Load(), Total: s.progress.Total.Load(),
		Unit: s.progress.Unit(), Tally: s.progress.Tally(),
	}
}

// stageEvent is an event about a stage.
func (n *node) stageEvent(name string) event.Event {
	return event.Event{Event: name, Stage: n.ID, Kind: n.spec.Name}
}
