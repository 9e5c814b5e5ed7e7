package sim

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// An Engine is one simulated model. It serves any number of connections and
// holds what a real one would: slots, queue, prefix cache, counters.
type Engine struct {
	cfg      Config
	start    time.Time
	pacer    pacer
	mux      *http.ServeMux
	observer atomic.Pointer[func(Sent)]
	handlers sync.WaitGroup // requests being answered
	bodies   *semaphore.Weighted
	tokens   atomic.Int64 // generated

	mu      sync.Mutex // guards what follows
	sched   *scheduler
	told    time.Duration // how far the scheduler's time has come
	timer   *time.Timer   // runs tick when a waiting request begins
	cache   *prefixCache
	faults  *faultPlan
	wrong   spread
	asked   int // questions for facts so far
	seq     int // requests so far
	live    map[*turn]struct{}
	closed  bool
	metrics *metrics
}

// New returns an idle engine. Its clock starts now, and in a testing/synctest
// bubble it is the bubble's.
func New(cfg Config) (*Engine, error) { return newEngine(cfg, timerPacer{}) }

func newEngine(cfg Config, p pacer) (*Engine, error) {
	faults, err := cfg.resolve()
	if err != nil {
		return nil, fmt.Errorf("simulated engine: %w", err)
	}
	e := &Engine{
		cfg: cfg, start: time.Now(), pacer: p,
		sched: newScheduler(cfg.Slots, cfg.Queue), cache: newPrefixCache(),
		faults: faults, wrong: newSpread(cfg.Seed, "accuracy"),
		bodies: semaphore.NewWeighted(maxBodies),
		live:   map[*turn]struct{}{}, metrics: newMetrics(),
	}
	e.timer = time.AfterFunc(time.Hour, e.tick)
	e.timer.Stop()
	e.mux = e.routes()
	return e, nil
}

// Handler returns the engine's HTTP interface.
func (e *Engine) Handler() http.Handler { return e.marked(e.mux) }

// Sent tells of one write of a streamed answer.
type Sent struct {
	ID      string    // of the answer, as the client reads it
	Request int       // in order of arrival, from 0
	Event   int       // the output event that the write holds, from 0; what ends the answer goes with the last
	Planned time.Time // when the event was to leave
	Before  time.Time // just before the write
	After   time.Time // when the kernel had it
}

// Observe has f called after each write that holds an output event, on the
// goroutine that answers, so f must be quick. It replaces what was observing;
// nil ends it.
func (e *Engine) Observe(f func(Sent)) {
	if f == nil {
		e.observer.Store(nil)
		return
	}
	e.observer.Store(&f)
}

// Close ends every answer at once, as a killed engine would. Requests that
// come later are refused with 503.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.timer.Stop()
	for t := range e.live {
		t.cancel()
	}
	return nil
}

// now is the time since the engine's start.
func (e *Engine) now() time.Duration { return time.Since(e.start) }

// tick starts the requests whose turn has come.
func (e *Engine) tick() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sched.advance(e.passed(e.now()))
	e.rearm()
}

// passed returns t, or the latest time that the scheduler was told, if that is
// later. The caller holds mu.
func (e *Engine) passed(t time.Duration) time.Duration {
	e.told = max(e.told, t)
	return e.told
}

// rearm sets the timer for the next request that begins. The caller holds mu.
func (e *Engine) rearm() {
	e.timer.Stop()
	if at, ok := e.sched.next(); ok && !e.closed {
		e.timer.Reset(at - e.now())
	}
}

// A turn is one request and what will become of it.
type turn struct {
	*request
	id      string
	seq     int
	fault   fault
	answer  answer
	cached  int
	arrived time.Duration
	job     *job // nil where a fault answers without a slot
	script  script
	cancel  context.CancelFunc
	counted bool // how it finished; guarded by the engine's mu
}

// admit takes a request in: everything that depends on the order of arrival
// happens here, under one lock. The turn ends with leave.
func (e *Engine) admit(r *request, q question, cancel context.CancelFunc) (*turn, *apiError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, overloaded("the engine is shutting down")
	}
	// A request arrives with the last byte of its body; reading it is not the
	// model's time. Two that were read side by side keep their order here.
	t := &turn{request: r, seq: e.seq, arrived: e.passed(r.arrived), cancel: cancel}
	t.fault = e.faults.of(t.seq)
	e.seq++
	t.id = fmt.Sprintf("%s-sim-%d", map[bool]string{true: "chatcmpl", false: "cmpl"}[r.chat], t.seq)
	if t.fault.slotless() {
		return t, nil
	}
	if e.sched.full(t.arrived) {
		e.metrics.rejected++
		return nil, overloaded(fmt.Sprintf("the queue is full: %d requests wait", e.cfg.Queue))
	}
	e.prepare(t, q)
	t.job.begun = make(chan struct{})
	e.sched.arrive(t.job, t.arrived)
	e.live[t] = struct{}{}
	e.rearm()
	return t, nil
}

// prepare composes the answer and times it. The caller holds mu.
func (e *Engine) prepare(t *turn, q question) {
	blocks, tokens := t.prompt.chain.blocks, t.prompt.chain.tokens
	if e.cfg.PrefixCache {
		t.cached = e.cache.admit(blocks, tokens)
		e.metrics.cacheQueries += tokens
		e.metrics.cacheHits += t.cached
	}
	e.metrics.promptTokens += tokens
	task := task{question: q, prompt: t.prompt.chain.sum, fault: t.fault, limits: t.limits}
	if len(q.facts) > 0 {
		if e.wrong.at(e.asked) >= e.cfg.Accuracy {
			task.wrong = stream(e.cfg.Seed, "wrong", uint64(e.asked))
		}
		e.asked++
	}
	t.answer = e.cfg.answer(task)
	full := newPace(e.cfg, t.seq, Arrival{
		Prompt: tokens, Cached: t.cached,
		Reasoning: len(t.answer.reasoning), Content: len(t.answer.content),
	})
	t.script = newScript(t.fault, len(full.events), t.answer.eventsAsked(full, e.cfg.TokensPerEvent))
	t.job = &job{seq: t.seq, pace: full.cut(t.script.events)}
	t.answer = t.answer.cut(t.job.pace, e.cfg.TokensPerEvent)
	if t.script.finish != "" {
		t.answer.finish = t.script.finish
	}
	t.job.service = t.job.pace.end
	if t.script.endless {
		t.job.service = forever
	}
}

// leave ends a turn: a slot or a place in the queue that it still holds is free.
func (e *Engine) leave(t *turn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.live, t)
	e.sched.leave(t.job, e.passed(e.now()))
	e.rearm()
}

// finished counts a turn whose answer is about to end, once. It comes before
// the last write, so that a client that has its answer finds it counted.
func (e *Engine) finished(t *turn, reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !t.counted {
		t.counted = true
		e.metrics.finish(t, reason)
	}
}

// due returns the moment of an offset from the begin of t's service.
func (e *Engine) due(t *turn, offset time.Duration) time.Time {
	return e.start.Add(t.job.begin + offset)
}
