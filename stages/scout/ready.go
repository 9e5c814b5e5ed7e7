package scout

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Readiness says how the endpoint came to answer.
type readiness struct {
	Probes   int     `json:"probes"`
	WaitedMS float64 `json:"waited_ms"`
	URL      string  `json:"url"`    // that showed it
	Status   int     `json:"status"` // that it answered with
}

// errNotReady is wrapped when an endpoint did not become ready in its time.
var errNotReady = errors.New("endpoint is not ready")

// errStopped ends the waiting before its time.
var errStopped = fmt.Errorf("%w: stopped waiting", errNotReady)

const remedy = "is the server running at this address? (ready.timeout waits longer)"

// firstWord is how long an endpoint that is not ready is waited for in silence.
// The next words come after twice as long each.
const firstWord = 1500 * time.Millisecond

// A looked is what a probe found.
type looked struct {
	url    string
	status int
	err    error
}

// A vigil waits for an endpoint.
type vigil struct {
	prober   *prober
	timeout  time.Duration // 0: as long as one probe takes
	interval time.Duration
	word     time.Duration   // in silence
	say      func(why error) // that it is not ready yet, once in a while
}

// wait asks until the endpoint answers as one that serves, or its time is up.
// A health path that says 200 is enough, and where there is none, a list of
// models that answers with anything but an overload or a server's error.
// Whatever ends the waiting, its error says why the endpoint was not ready. Without
// a time to wait one probe says it all.
func (v vigil) wait(ctx context.Context, stop <-chan struct{}) (r readiness, err error) {
	begun := time.Now()
	word := time.NewTimer(v.word)
	defer word.Stop()
	var over <-chan time.Time
	if v.timeout > 0 {
		over = time.After(v.timeout)
	}
	probes, cancel := context.WithCancel(ctx)
	defer cancel()
	found, again := v.probe(probes), (<-chan time.Time)(nil)
	r.Probes, err = 1, v.prober.noAnswer()
	for {
		select {
		case l := <-found:
			r.WaitedMS = float64(time.Since(begun)) / 1e6
			if l.err == nil {
				r.URL, r.Status = l.url, l.status
				return r, nil
			}
			if ctx.Err() == nil {
				err = l.err
			}
			if v.timeout == 0 {
				return r, fmt.Errorf("%w after one probe: %w; %s", errNotReady, err, remedy)
			}
			found, again = nil, time.After(v.interval)
		case <-again:
			r.Probes++
			found, again = v.probe(probes), nil
		case <-over: // also while a probe hangs
			r.WaitedMS = float64(time.Since(begun)) / 1e6
			return r, fmt.Errorf("%w after %s and %d probes: %w; %s", errNotReady, v.timeout, r.Probes, err, remedy)
		case <-word.C:
			v.say(err)
			word.Reset(2 * time.Since(begun))
		case <-stop:
			return r, fmt.Errorf("%w: %w", errStopped, err)
		case <-ctx.Done():
			return r, fmt.Errorf("%w: %w", errStopped, err)
		}
	}
}

// probe looks without being waited for.
func (v vigil) probe(ctx context.Context) <-chan looked {
	found := make(chan looked, 1)
	go func() {
		url, status, err := v.prober.look(ctx)
		found <- looked{url, status, err}
	}()
	return found
}

// noAnswer is what is known before the first probe has ended.
func (p *prober) noAnswer() error {
	health, err := p.target.Protocol.Endpoint.RootPath("/health")
	if err != nil {
		return err
	}
	return fmt.Errorf("no answer from %s as yet", health)
}
