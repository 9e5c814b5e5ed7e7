package load

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// The rows of failures.md about arrivals, each against servers that answer at
// once, in virtual time: what is wrong there was the client's own arithmetic.
func TestRatesAreReachedAndHeld(t *testing.T) {
	for name, row := range map[string]struct {
		rate   float64
		length time.Duration
		window time.Duration
	}{
		"vllm 21104, 183.5 requests/s for 200 asked": {200, time.Minute, time.Minute},
		"evalscope 1367, a rate that decays":         {20, 10 * time.Minute, time.Minute},
		"aiperf 1185, a timer of 1 ms":               {2000, 10 * time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				due, err := Arrival{Process: "constant", Rate: row.rate, Duration: row.length}.Schedule(nil)
				if err != nil {
					t.Fatal(err)
				}
				tr := newTrial(Plan{Due: due, Duration: row.length, Drain: time.Second}, same(0))
				if r := tr.phase.Run(t.Context(), nil); r.Begun != int(row.rate*row.length.Seconds()) {
					t.Fatalf("%d requests, want %v", r.Begun, row.rate*row.length.Seconds())
				}
				windows := make([]float64, row.length/row.window)
				lags := make([]int64, 0, len(due))
				for i, at := range tr.start {
					windows[at/int64(row.window)]++
					lags = append(lags, at-due[i])
				}
				want := row.rate * row.window.Seconds()
				for i, n := range windows {
					if math.Abs(n-want) > 0.005*want {
						t.Errorf("window %d: %v requests, want %v", i, n, want)
					}
				}
				if l := LagsOf(lags, time.Millisecond); l.Samples != len(due) || *l.MaxUS != 0 {
					t.Errorf("send lags %+v", l)
				}
			})
		})
	}
}

// vllm-omni 5548, litellm 25654: a limit of 300 s that nobody asked for. A first
// token after 310 s is one, unless the plan's own limit is shorter. vllm-omni
// 7130: silence after tokens ends by the gap, tokens for ever by the total.
func TestNoLimitButThePlans(t *testing.T) {
	answer := func(first time.Duration, events int, between time.Duration, end bool) []piece {
		out := []piece{{first, streamHead}}
		for range events {
			out = append(out, piece{between, chunk("data: a\n")})
		}
		if end {
			return append(out, piece{0, chunk("data: [DONE]\n") + lastChunk})
		}
		return append(out, piece{1000 * time.Hour, ""})
	}
	for name, row := range map[string]struct {
		pieces []piece
		limits Limits
		want   Ending
		at     time.Duration
	}{
		"310 s with 10 minutes":     {answer(310*time.Second, 1, 0, true), Limits{FirstOutput: 10 * time.Minute}, EndMark, 310 * time.Second},
		"310 s with no limit":       {answer(310*time.Second, 1, 0, true), Limits{}, EndMark, 310 * time.Second},
		"310 s with 5 minutes":      {answer(310*time.Second, 1, 0, true), Limits{FirstOutput: 5 * time.Minute}, EndStalledFirst, 5 * time.Minute},
		"silence after 5 tokens":    {answer(0, 5, time.Second, false), Limits{Gap: 2 * time.Minute, Total: time.Hour}, EndStalledMid, 5*time.Second + 2*time.Minute},
		"a token a second for ever": {answer(0, 4000, time.Second, false), Limits{Gap: 2 * time.Minute, Total: 30 * time.Minute}, EndTotal, 30 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t, func(int, int) []piece { return row.pieces })
				c, capture := newTestClient(t, s.dial, row.limits)
				w := c.NewWorker(capture, &lineWatcher{})
				c.Begin()
				sample := NewSample(0)
				w.Do(t.Context(), Job{}, &sample)
				w.Close()
				if err := capture.Close(); err != nil {
					t.Fatal(err)
				}
				if sample.Ending != row.want || sample.End != int64(row.at) {
					t.Errorf("ending %d at %v, want %d at %v", sample.Ending, time.Duration(sample.End), row.want, row.at)
				}
			})
		})
	}
}

// 2 MB in one event, 64 MB in an error, an answer without end: what is kept in
// memory is the ring, and each ends by its own limit.
func TestHugeAnswersCostTheRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mega := make([]byte, 1<<20)
		for i := range mega {
			mega[i] = 'x'
		}
		repeat := func(head string, n int, end string) []piece {
			out := []piece{{0, head}}
			for range n {
				out = append(out, piece{0, chunk(string(mega))})
			}
			return append(out, piece{0, end})
		}
		const failed = "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n"
		answers := [][]piece{
			repeat(streamHead+chunk("data: "), 2, chunk("\ndata: [DONE]\n")+lastChunk),
			repeat(failed, 64, lastChunk),
			repeat(streamHead+chunk("data: a\ndata: "), 300, ""),
		}
		limits := Limits{MaxBody: 256 << 20, MaxError: 64 << 10}
		for i, want := range []struct {
			ending Ending
			bytes  int64
		}{{EndMark, 2<<20 + 20}, {EndCapped, 64 << 10}, {EndBodyTooLarge, 256 << 20}} {
			s := newScript(t, func(int, int) []piece { return answers[i] })
			c, unused := newTestClient(t, s.dial, limits)
			capture := NewCapture(discard{}, 1, Hiding{})
			w := c.NewWorker(capture, countWatcher{&lineWatcher{}})
			c.Begin()
			sample := NewSample(0)
			w.Do(t.Context(), Job{}, &sample)
			w.Close()
			made := 18 - capture.blocks.room
			for _, c := range []*Capture{capture, unused} {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if sample.Ending != want.ending || sample.Bytes != want.bytes {
				t.Errorf("answer %d: ending %d after %d bytes, want %d after %d", i, sample.Ending, sample.Bytes, want.ending, want.bytes)
			}
			if made > 18 {
				t.Errorf("answer %d: %d blocks", i, made)
			}
		}
	})
}

// countWatcher looks at the last bytes of a read only: an event is as long as
// the server likes, and the test's own memory is not what is measured.
type countWatcher struct{ *lineWatcher }

func (w countWatcher) Feed(b []byte) Saw {
	saw := w.lineWatcher.Feed(b[max(0, len(b)-32):])
	if len(w.rest) > 1<<10 {
		w.rest = w.rest[:copy(w.rest, w.rest[len(w.rest)-64:])]
	}
	return saw
}
