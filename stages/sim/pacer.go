package sim

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// A pacer waits for moments. Its waits end early only with an error.
type pacer interface {
	wait(ctx context.Context, at time.Time) error
	close() error
}

// timerPacer waits with the timers of package time: up to a millisecond late
// on a real clock (golang/go#53824), exact in a testing/synctest bubble.
type timerPacer struct{}

func (timerPacer) close() error { return nil }

func (timerPacer) wait(ctx context.Context, at time.Time) error {
	d := time.Until(at)
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// An alarmPacer serves all waits from one alarm that is more precise than the
// timers of package time. The goroutine that run occupies wakes whose time has come.
type alarmPacer struct {
	alarm alarm
	done  chan struct{}

	mu      sync.Mutex // guards what follows
	sleeper sleeperHeap
}

// An alarm goes off once, a given time after it was last set.
type alarm interface {
	set(d time.Duration) error // also while another goroutine waits
	wait() error               // fails once the alarm is closed
	close() error
}

type sleeper struct {
	at    time.Time
	wake  chan struct{}
	index int // in the heap; -1: out of it
}

func newAlarmPacer(a alarm) *alarmPacer {
	p := &alarmPacer{alarm: a, done: make(chan struct{})}
	go p.run()
	return p
}

func (p *alarmPacer) wait(ctx context.Context, at time.Time) error {
	d := time.Until(at)
	if d <= 0 {
		return ctx.Err()
	}
	s := &sleeper{at: at, wake: make(chan struct{})}
	if err := p.add(s, d); err != nil {
		return timerPacer{}.wait(ctx, at) // the alarm is gone: late, but never lost
	}
	select {
	case <-s.wake:
		return nil
	case <-ctx.Done():
		p.remove(s)
		return ctx.Err()
	case <-p.done:
		return timerPacer{}.wait(ctx, at)
	}
}

func (p *alarmPacer) add(s *sleeper, d time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	heap.Push(&p.sleeper, s)
	if s.index > 0 {
		return nil
	}
	if err := p.alarm.set(d); err != nil {
		heap.Remove(&p.sleeper, s.index)
		return err
	}
	return nil
}

func (p *alarmPacer) remove(s *sleeper) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.index >= 0 {
		heap.Remove(&p.sleeper, s.index)
	}
}

func (p *alarmPacer) run() {
	defer close(p.done)
	for p.alarm.wait() == nil {
		if p.wakeDue() != nil {
			return
		}
	}
}

// wakeDue wakes everybody whose time has come and sets the alarm for the next.
func (p *alarmPacer) wakeDue() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for len(p.sleeper) > 0 {
		if d := p.sleeper[0].at.Sub(now); d > 0 {
			return p.alarm.set(d)
		}
		close(heap.Pop(&p.sleeper).(*sleeper).wake)
	}
	return nil
}

func (p *alarmPacer) close() error {
	err := p.alarm.close()
	<-p.done
	return err
}

type sleeperHeap []*sleeper

func (h sleeperHeap) Len() int           { return len(h) }
func (h sleeperHeap) Less(a, b int) bool { return h[a].at.Before(h[b].at) }
func (h sleeperHeap) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].index, h[b].index = a, b
}

func (h *sleeperHeap) Push(x any) {
	s := x.(*sleeper)
	s.index = len(*h)
	*h = append(*h, s)
}

func (h *sleeperHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	s.index = -1
	return s
}
