package sim

import (
	"math"
	"time"
)

// An Arrival is one request as the latency model sees it. Times count from
// the engine's start.
type Arrival struct {
	At        time.Duration
	Prompt    int           // tokens
	Cached    int           // of them in the prefix cache
	Reasoning int           // tokens made before the answer
	Content   int           // tokens of the answer
	Leave     time.Duration // when the client goes away; 0: it stays to the end
}

// A Timeline is what becomes of an [Arrival]. Times count from the engine's start.
type Timeline struct {
	Refused bool            // the queue was full; nothing else is set
	Dropped bool            // the client left before its turn came; nothing else is set
	Begin   time.Duration   // when it got a slot
	Events  []time.Duration // when each event with output leaves
	End     time.Duration   // when the last token is made and the slot is free again
}

// Plan returns the timeline of each arrival, which must be in order of At. It
// is a pure function of its arguments, and what a running engine does is what
// Plan says of the same arrivals. Faults have no part in it.
func Plan(cfg Config, arrivals []Arrival) []Timeline {
	s := newScheduler(cfg.Slots, cfg.Queue)
	jobs := make([]*job, len(arrivals))
	var leaves leaveHeap
	for i, a := range arrivals {
		leaves.before(a.At, s)
		j := &job{seq: i, pace: newPace(cfg, i, a)}
		j.service = j.pace.end
		jobs[i] = j
		if s.arrive(j, a.At) && a.Leave > 0 {
			leaves.add(j, a.Leave)
		}
	}
	leaves.before(forever, s)
	s.advance(forever)
	out := make([]Timeline, len(jobs))
	for i, j := range jobs {
		out[i] = j.timeline()
	}
	return out
}

// forever is the service time of a request that ends when its client leaves.
const forever = time.Duration(math.MaxInt64)

// A pace is when the events of a request leave, counted from its begin.
type pace struct {
	reasoning int             // how many events are reasoning
	events    []time.Duration // reasoning first
	end       time.Duration   // when the last token is made
}

// newPace times the request that arrived as number seq. Sums are of whole
// nanoseconds, so that they are the same on every machine.
func newPace(cfg Config, seq int, a Arrival) pace {
	m := newMetronome(cfg, seq)
	at := m.step(float64(a.Prompt-a.Cached) / cfg.PrefillTokS)
	count := func(tokens int) int { return (tokens + cfg.TokensPerEvent - 1) / cfg.TokensPerEvent }
	reasoning := count(a.Reasoning)
	events := make([]time.Duration, 0, reasoning+count(a.Content))
	for _, tokens := range []int{a.Reasoning, a.Content} {
		for done := 0; done < tokens; {
			for range min(cfg.TokensPerEvent, tokens-done) {
				at += m.step(1 / cfg.DecodeTokS)
				done++
			}
			events = append(events, at)
		}
	}
	return pace{reasoning: reasoning, events: events, end: at}
}

// cut returns the pace of a request that ends with its n-th event.
func (p pace) cut(n int) pace {
	if n >= len(p.events) {
		return p
	}
	end := p.end
	if n > 0 {
		end = p.events[n-1]
	} else if len(p.events) > 0 {
		end = p.events[0]
	}
	return pace{reasoning: min(p.reasoning, n), events: p.events[:n], end: end}
}

// A metronome lengthens and shortens steps by the jitter of one request.
type metronome struct {
	jitter float64
	draw   func() float64
}

func newMetronome(cfg Config, seq int) metronome {
	if cfg.Jitter == 0 {
		return metronome{draw: func() float64 { return 0.5 }}
	}
	return metronome{jitter: cfg.Jitter, draw: stream(cfg.Seed, "jitter", uint64(seq)).Float64}
}

// step returns how long a step of nominally that many seconds takes. The
// conversions keep a compiler from fusing the products into the sums, which
// would round differently from one architecture to the next.
func (m metronome) step(seconds float64) time.Duration {
	deviation := float64(m.jitter * float64(float64(2*m.draw())-1))
	return time.Duration(math.Round(float64(seconds*float64(1+deviation)) * 1e9))
}
