package sim

import (
	"container/heap"
	"container/list"
	"time"
)

// A scheduler gives slots to requests in order of arrival. It is a discrete
// event simulation: it knows no clock, its callers say what happened when, in
// order of time, and a slot is free from the very moment when its request was
// planned to end.
type scheduler struct {
	slots, queue int
	running      jobHeap
	waiting      *list.List // of *job, in order of arrival
}

func newScheduler(slots, queue int) *scheduler {
	return &scheduler{slots: slots, queue: queue, waiting: list.New()}
}

// A job is one request in the scheduler.
type job struct {
	seq     int
	pace    pace
	service time.Duration // forever: until it leaves
	state   jobState
	begin   time.Duration
	end     time.Duration
	begun   chan struct{} // closed when it begins; nil where nobody waits
	spot    *list.Element // in the queue
	index   int           // among the running
}

type jobState int

const (
	refused jobState = iota
	waiting
	running
	ended
	dropped // left before its turn came
)

// full says whether a job that arrives at that time is refused.
func (s *scheduler) full(at time.Duration) bool {
	s.advance(at)
	return len(s.running) >= s.slots && s.waiting.Len() >= s.queue
}

// arrive takes a job in at that time, or refuses it because the queue is full.
func (s *scheduler) arrive(j *job, at time.Duration) bool {
	switch {
	case s.full(at):
		return false
	case len(s.running) < s.slots:
		s.start(j, at)
	default:
		j.state, j.spot = waiting, s.waiting.PushBack(j)
	}
	return true
}

// leave takes a job out whose client went away at that time.
func (s *scheduler) leave(j *job, at time.Duration) {
	s.advance(at)
	switch j.state {
	case waiting:
		s.waiting.Remove(j.spot)
		j.state = dropped
	case running:
		heap.Remove(&s.running, j.index)
		j.state, j.end = ended, at
		s.startNext(at)
	default: // it was over already
	}
}

// advance ends every job whose end has come and starts those that waited.
func (s *scheduler) advance(to time.Duration) {
	for len(s.running) > 0 && s.running[0].end <= to {
		if s.running[0].end == forever {
			return
		}
		j := heap.Pop(&s.running).(*job)
		j.state = ended
		s.startNext(j.end)
	}
}

// next returns when the next waiting job begins, if one waits and that is known.
func (s *scheduler) next() (time.Duration, bool) {
	if s.waiting.Len() == 0 || s.running[0].end == forever {
		return 0, false
	}
	return s.running[0].end, true
}

func (s *scheduler) startNext(at time.Duration) {
	if head := s.waiting.Front(); head != nil {
		s.start(s.waiting.Remove(head).(*job), at)
	}
}

func (s *scheduler) start(j *job, at time.Duration) {
	j.state, j.begin, j.end = running, at, forever
	if j.service < forever-at {
		j.end = at + j.service
	}
	heap.Push(&s.running, j)
	if j.begun != nil {
		close(j.begun)
	}
}

// timeline returns what became of a job that is over.
func (j *job) timeline() Timeline {
	switch j.state {
	case refused:
		return Timeline{Refused: true}
	case dropped:
		return Timeline{Dropped: true}
	default:
	}
	t := Timeline{Begin: j.begin, End: j.end}
	for _, offset := range j.pace.events {
		if at := j.begin + offset; at <= j.end {
			t.Events = append(t.Events, at)
		}
	}
	return t
}

// jobHeap orders running jobs by their end, then by arrival.
type jobHeap []*job

func (h jobHeap) Len() int { return len(h) }
func (h jobHeap) Less(a, b int) bool {
	if h[a].end != h[b].end {
		return h[a].end < h[b].end
	}
	return h[a].seq < h[b].seq
}

func (h jobHeap) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].index, h[b].index = a, b
}

func (h *jobHeap) Push(x any) {
	j := x.(*job)
	j.index = len(*h)
	*h = append(*h, j)
}

func (h *jobHeap) Pop() any {
	old := *h
	j := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return j
}

// A leaveHeap holds who will leave when, earliest first and those of one
// moment by arrival: who goes first decides whether the next still gets a slot.
type leaveHeap []leaving

type leaving struct {
	at  time.Duration
	job *job
}

func (h *leaveHeap) add(j *job, at time.Duration) { heap.Push(h, leaving{at, j}) }

// before carries out what happens up to and at that time.
func (h *leaveHeap) before(at time.Duration, s *scheduler) {
	for len(*h) > 0 && (*h)[0].at <= at {
		l := heap.Pop(h).(leaving)
		s.leave(l.job, l.at)
	}
}

func (h leaveHeap) Len() int { return len(h) }
func (h leaveHeap) Less(a, b int) bool {
	if h[a].at != h[b].at {
		return h[a].at < h[b].at
	}
	return h[a].job.seq < h[b].job.seq
}

func (h leaveHeap) Swap(a, b int) { h[a], h[b] = h[b], h[a] }
func (h *leaveHeap) Push(x any)   { *h = append(*h, x.(leaving)) }

func (h *leaveHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	*h = old[:len(old)-1]
	return l
}
