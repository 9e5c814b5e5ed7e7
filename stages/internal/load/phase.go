package load

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A Plan is the load of one phase.
type Plan struct {
	// Closed loop: when each worker begins its first request. Nil in an open loop.
	Workers []int64
	// Open loop: when each request is due, in order.
	Due []int64

	Requests int           // closed loop: so many; 0: until Duration
	Prompts  int           // closed loop until Duration: there are no more to send; 0: without end
	Duration time.Duration // after which nothing is issued; 0: until all are
	InFlight int           // open loop: the client's own cap; 0: none
	Shed     bool          // open loop: drop what finds no slot
	Precise  bool          // open loop: spin for the last part of a wait

	Drain time.Duration // how long open requests may go on after an early end of issuing
}

// A Sender sends request i, which was due then, and returns when its answer has
// ended, with the stamp at which the server let the next one begin. Slot numbers
// the workers from 0: each is one goroutine.
type Sender func(slot, i int, due int64) (free int64)

// A Phase is one run of a plan.
type Phase struct {
	Plan  Plan
	Send  Sender
	Shed  func(i int, due int64) // a due request was dropped
	Now   func() int64           // since the start
	Begin func()                 // sets the start; everything is ready
	Abort func()                 // gives up every open request

	halt   atomic.Bool // nothing more is issued
	halted chan struct{}
	stop   <-chan struct{}
	given  <-chan struct{} // closed when the context ends
}

// Result is how a phase ended.
type Result struct {
	Begun       int   // requests that were sent, or shed; indexes from 0 without a hole
	Interrupted bool  // stop or ctx ended it
	End         int64 // when the last answer ended
}

// Run runs the phase. When stop closes nothing more is issued and what is open
// may go on for Plan.Drain; when ctx ends it is given up at once.
func (p *Phase) Run(ctx context.Context, stop <-chan struct{}) Result {
	p.halted, p.stop, p.given = make(chan struct{}), stop, ctx.Done()
	issued, done := make(chan struct{}), make(chan struct{})
	var r Result
	go func() {
		defer close(done)
		if p.Plan.Workers != nil {
			r.Begun = p.closed(issued)
		} else {
			r.Begun = p.open(issued)
		}
	}()
	r.Interrupted = p.watch(ctx, stop, issued, done)
	<-done
	r.End = p.Now()
	return r
}

// watch ends the issuing when it must end, and the open requests when they
// have had their time. It returns when the phase is over.
func (p *Phase) watch(ctx context.Context, stop, issued, done <-chan struct{}) (interrupted bool) {
	for {
		select {
		case <-done:
			return false
		case <-issued:
			// A count has been issued in full: its requests end by their own limits.
			if p.Plan.Duration == 0 {
				issued = nil
				continue
			}
		case <-stop:
			interrupted = true
		case <-ctx.Done():
			interrupted = true
		}
		break
	}
	p.end()
	if ctx.Err() == nil {
		drain := time.NewTimer(p.Plan.Drain)
		defer drain.Stop()
		for waiting := true; waiting; {
			select {
			case <-done:
				return interrupted
			case <-stop:
				interrupted, stop = true, nil
			case <-drain.C:
				waiting = false
			case <-ctx.Done():
				interrupted, waiting = true, false
			}
		}
	}
	p.Abort()
	return interrupted
}

func (p *Phase) end() {
	p.halt.Store(true)
	close(p.halted)
}

// closed runs N workers. A request is claimed only when it begins, so that the
// indexes of those that began have no hole; issued is closed when the time is up.
// Prompts that are used up before end the issuing as a count does.
func (p *Phase) closed(issued chan<- struct{}) int {
	n, until := cmp.Or(p.Plan.Requests, p.Plan.Prompts), int64(p.Plan.Duration)
	workers := len(p.Plan.Workers)
	if n > 0 {
		workers = min(workers, n)
	}
	var next atomic.Int64
	gate := make(chan struct{})
	var all sync.WaitGroup
	for slot := range workers {
		all.Go(func() {
			<-gate
			due := p.Plan.Workers[slot]
			for p.wait(due) && (until == 0 || p.Now() < until) {
				i := int(next.Add(1)) - 1
				if n > 0 && i >= n {
					return
				}
				due = p.Send(slot, i, due)
			}
		})
	}
	p.Begin()
	close(gate)
	if until > 0 {
		up := time.AfterFunc(p.Plan.Duration, func() { close(issued) })
		defer up.Stop()
	}
	all.Wait()
	if begun := int(next.Load()); n == 0 || begun < n {
		return begun
	}
	return n
}

// over tells whether nothing more is issued. It looks at stop and the context
// itself: what is claimed after they closed must not depend on when a goroutine
// noticed. Requests end at once with the context, and a worker is faster than one.
func (p *Phase) over() bool {
	select {
	case <-p.stop:
		return true
	case <-p.given:
		return true
	default:
		return p.halt.Load()
	}
}

// wait waits until due and tells whether the phase still issues.
func (p *Phase) wait(due int64) bool {
	for {
		left := time.Duration(due - p.Now())
		if over := p.over(); left <= 0 || over {
			return !over
		}
		if p.Plan.Precise && left < 2*time.Millisecond {
			runtime.Gosched()
			continue
		}
		if p.Plan.Precise {
			left -= time.Millisecond
		}
		t := time.NewTimer(left)
		select {
		case <-t.C:
		case <-p.halted:
			t.Stop()
		}
	}
}

// open sends each request when it is due, if a slot is free; else it waits for
// one, which shows as lag, or is shed.
func (p *Phase) open(issued chan<- struct{}) int {
	room := len(p.Plan.Due)
	if p.Plan.InFlight > 0 {
		room = min(room, p.Plan.InFlight)
	}
	type slot chan int // the index of the next request
	idle := make(chan slot, room)
	slots := 0
	var all sync.WaitGroup
	start := func() slot {
		s, number := make(slot, 1), slots
		slots++
		all.Go(func() {
			for i := range s {
				p.Send(number, i, p.Plan.Due[i])
				idle <- s
			}
		})
		return s
	}
	var made []slot
	defer func() {
		close(issued)
		for _, s := range made {
			close(s)
		}
		all.Wait()
	}()
	p.Begin()
	for i, due := range p.Plan.Due {
		if !p.wait(due) {
			return i
		}
		var s slot
		select {
		case s = <-idle:
		default:
			switch {
			case slots < room:
				s = start()
				made = append(made, s)
			case p.Plan.Shed:
				p.Shed(i, due)
				continue
			default:
				select {
				case s = <-idle:
				case <-p.halted:
					return i
				}
			}
		}
		s <- i
	}
	return len(p.Plan.Due)
}
