package sim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStreamArrivesAsPlanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.PrefillTokS, cfg.DecodeTokS, cfg.ReasoningTokens, cfg.TokensPerEvent = 100, 50, 5, 2
		c := pipeClient(t, cfg)
		r := c.mustChat(t, "one two three four", map[string]any{"max_tokens": 9})
		var got []time.Duration
		for _, at := range r.arrivals {
			got = append(got, at.Sub(r.began))
		}
		// 12 prompt tokens at 100/s, then 20 ms a token; the role goes out with the first event, the end with the last.
		ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
		want := []time.Duration{ms(160), ms(160), ms(200), ms(220), ms(260), ms(300), ms(300), ms(300), ms(300)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("arrivals (-want +got):\n%s\n%s", diff, r.body)
		}
	})
}

// What a running engine does must be what Plan says of the same arrivals: the
// times of 1,000 events and more, to the nanosecond.
func TestLiveEngineKeepsToThePlan(t *testing.T) {
	cfg, arrivals := plannedThousand()
	cfg.PrefixCache = false
	synctest.Test(t, func(t *testing.T) {
		c := pipeClient(t, cfg)
		start := time.Now()
		var mu sync.Mutex
		got := map[string][]time.Duration{}
		c.engine.Observe(func(s Sent) {
			mu.Lock()
			defer mu.Unlock()
			if !s.Before.Equal(s.Planned) {
				t.Errorf("event %d of %s left at %v, planned %v", s.Event, s.ID, s.Before.Sub(start), s.Planned.Sub(start))
			}
			got[s.ID] = append(got[s.ID], s.Planned.Sub(start))
		})
		replies := make([]*reply, len(arrivals))
		var wg sync.WaitGroup
		for i, a := range arrivals {
			wg.Go(func() {
				time.Sleep(a.At + time.Duration(i)) // one nanosecond apart: the order is certain
				replies[i] = c.mustChat(t, fmt.Sprintf("%s question %d", strings.Repeat("word ", a.Prompt), i), nil)
			})
		}
		wg.Wait()
		asRun := make([]Arrival, len(arrivals))
		for i, r := range replies {
			asRun[i] = Arrival{At: arrivals[i].At + time.Duration(i)}
			if r.status == 200 {
				asRun[i].Prompt, asRun[i].Content = r.usage.Prompt, r.usage.Completion
			}
		}
		events := 0
		for i, want := range Plan(cfg, asRun) {
			if want.Refused != (replies[i].status == 503) {
				t.Fatalf("request %d: refused %v, status %d", i, want.Refused, replies[i].status)
			}
			if want.Refused {
				continue
			}
			if diff := cmp.Diff(want.Events, got[replies[i].chunks[0].ID]); diff != "" {
				t.Fatalf("request %d (-planned +sent):\n%s", i, diff)
			}
			events += len(want.Events)
		}
		if events < 1000 {
			t.Errorf("compared %d events, want at least 1,000", events)
		}
	})
}

// Little's law holds for any queue that empties in the end: the mean number of
// requests inside, as the engine's gauges say it, is their rate of arrival
// times the mean time that clients see.
func TestLittlesLawHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Slots, cfg.Queue, cfg.Jitter, cfg.DecodeTokS, cfg.TokensPerEvent, cfg.Seed = 4, 1000, 0.2, 100, 16, 3
		c := pipeClient(t, cfg)
		const n = 400
		r := stream(1, "poisson", 0)
		start := time.Now()
		var wg sync.WaitGroup
		var mu sync.Mutex
		inside := time.Duration(0) // the sum of all times in the system
		at := time.Duration(0)
		for i := range n {
			at += time.Duration(r.ExpFloat64() * 0.26e9) // 3.8/s against a capacity of some 4.1/s
			due := at
			wg.Go(func() {
				time.Sleep(due)
				reply := c.mustChat(t, fmt.Sprintf("question %d", i), nil)
				mu.Lock()
				defer mu.Unlock()
				inside += reply.ended.Sub(reply.began)
			})
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		samples, sum, waited := 0, 0, 0
		for running := true; running; {
			select {
			case <-done:
				running = false
			case <-time.After(293 * time.Millisecond):
				in, wait := c.gauges(t)
				samples, sum, waited = samples+1, sum+in+wait, waited+wait
			}
		}
		elapsed := time.Since(start)
		mean := float64(sum) / float64(samples)
		law := n / elapsed.Seconds() * (inside.Seconds() / n)
		t.Logf("L = %.3f, λW = %.3f over %v, mean queue %.2f", mean, law, elapsed, float64(waited)/float64(samples))
		if math.Abs(mean-law) > 0.02*law {
			t.Errorf("L = %.3f, λW = %.3f: more than 2%% apart", mean, law)
		}
		if waited == 0 {
			t.Error("nothing ever waited; the law was not put to the test")
		}
	})
}

func (c *client) gauges(t *testing.T) (running, waiting int) {
	t.Helper()
	m := c.scrape(t)
	return int(m[`vllm:num_requests_running`]), int(m[`vllm:num_requests_waiting`])
}

func TestClosedLoopIsServedByAllSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Slots, cfg.PrefillTokS = 2, 1e9
		c := pipeClient(t, cfg)
		began := time.Now()
		var wg sync.WaitGroup
		ends := make([]time.Duration, 6)
		for i := range ends {
			wg.Go(func() {
				r := c.mustChat(t, "go", map[string]any{"max_tokens": 10, "ignore_eos": true})
				ends[i] = r.ended.Sub(began).Truncate(time.Millisecond)
			})
		}
		wg.Wait()
		slices.Sort(ends)
		ms := time.Millisecond
		if want := []time.Duration{100 * ms, 100 * ms, 200 * ms, 200 * ms, 300 * ms, 300 * ms}; !slices.Equal(ends, want) {
			t.Errorf("answers end at %v, want %v", ends, want)
		}
	})
}

func TestFullQueueRefusesWithRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Slots, cfg.Queue = 1, 1
		c := pipeClient(t, cfg)
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() { c.mustChat(t, fmt.Sprint("first ", i), nil) })
		}
		synctest.Wait()
		r := c.mustChat(t, "third", nil)
		if r.status != 503 || r.header.Get("Retry-After") != "1" || !strings.Contains(r.body, `"error"`) {
			t.Errorf("got %d, Retry-After %q, %s", r.status, r.header.Get("Retry-After"), r.body)
		}
		wg.Wait()
		if n := c.scrape(t)[`vllm:admission_rejections_total reason=max_num_queued_reqs`]; n != 1 {
			t.Errorf("rejections = %v, want 1", n)
		}
	})
}

func TestClientThatLeavesFreesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Slots, cfg.PrefillTokS = 1, 1e9
		c := pipeClient(t, cfg)
		long := map[string]any{"max_tokens": 1000, "ignore_eos": true}
		leave := func(after time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			if r, err := c.chat(ctx, "leaving", long); err == nil && r.err == nil {
				t.Error("an answer of 10 s was whole after", after)
			}
		}
		var wg sync.WaitGroup
		began := time.Now()
		wg.Go(func() { leave(3 * time.Second) }) // holds the slot
		time.Sleep(time.Millisecond)
		wg.Go(func() { leave(time.Second) }) // waits
		time.Sleep(time.Millisecond)
		r := c.mustChat(t, "staying", map[string]any{"max_tokens": 100, "ignore_eos": true})
		wg.Wait()
		if got, want := r.ended.Sub(began).Round(10*time.Millisecond), 4*time.Second; got != want {
			t.Errorf("answer ended after %v, want %v: the slot was free at 3 s", got, want)
		}
		synctest.Wait()
		if running, waiting := c.gauges(t); running != 0 || waiting != 0 {
			t.Errorf("%d running and %d waiting after all went, want none", running, waiting)
		}
		if n := c.scrape(t)[`vllm:request_success_total finished_reason=abort`]; n != 2 {
			t.Errorf("aborts = %v, want 2", n)
		}
	})
}

func TestSecondIdenticalPromptSkipsTheCachedPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.PrefillTokS = 100
		c := pipeClient(t, cfg)
		text := strings.Repeat("stone ", 200)
		first := c.mustChat(t, text, map[string]any{"max_tokens": 1})
		second := c.mustChat(t, text, map[string]any{"max_tokens": 1})
		other := c.mustChat(t, "river "+text, map[string]any{"max_tokens": 1})
		n := first.usage.Prompt
		for i, want := range []struct {
			r      *reply
			cached int
		}{{first, 0}, {second, (n - 1) / cacheBlock * cacheBlock}, {other, 0}} {
			if got := want.r.usage.Details.Cached; got != want.cached {
				t.Errorf("request %d: %d cached tokens, want %d", i, got, want.cached)
			}
			ttft := time.Duration(want.r.usage.Prompt-want.cached)*10*time.Millisecond + 10*time.Millisecond
			if got := want.r.arrivals[1].Sub(want.r.began); got != ttft {
				t.Errorf("request %d: first token after %v, want %v", i, got, ttft)
			}
		}
		m := c.scrape(t)
		if q, h := m["vllm:prefix_cache_queries_total"], m["vllm:prefix_cache_hits_total"]; int(q) != 2*n+other.usage.Prompt || int(h) != (n-1)/cacheBlock*cacheBlock {
			t.Errorf("queries %v, hits %v", q, h)
		}
		if r := c.mustPost(t, "/reset_prefix_cache", "{}"); r.status != 200 || r.body != `{"success":true}` {
			t.Errorf("reset: %d %s", r.status, r.body)
		}
		if got := c.mustChat(t, text, map[string]any{"max_tokens": 1}).usage.Details.Cached; got != 0 {
			t.Errorf("%d cached tokens after the reset, want 0", got)
		}
	})
}

func TestEngineThatClosesEndsItsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Slots = 1
		c := pipeClient(t, cfg)
		var wg sync.WaitGroup
		for range 2 { // one runs, one waits
			wg.Go(func() {
				r, err := c.chat(t.Context(), "long", map[string]any{"max_tokens": 1000, "ignore_eos": true})
				if err == nil && r.err == nil {
					t.Error("the answer ended in order")
				}
			})
		}
		time.Sleep(time.Second)
		if err := c.engine.Close(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if r := c.mustChat(t, "late", nil); r.status != 503 {
			t.Errorf("got status %d after Close, want 503", r.status)
		}
	})
}
