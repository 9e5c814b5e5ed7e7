package load

import (
	"testing"
	"testing/synctest"
	"time"
)

// asked sends one request to a server that plays pieces, in virtual time.
func asked(t *testing.T, limits Limits, pieces []piece) (s Sample, f Fault) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := newScript(t, func(int, int) []piece { return pieces })
		c, capture := newTestClient(t, server.dial, limits)
		w := c.NewWorker(capture, &lineWatcher{})
		c.Begin()
		s = NewSample(0)
		f = w.Do(t.Context(), Job{}, &s)
		w.Close()
		if err := capture.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return s, f
}

// pings are comments, one a second.
func pings(n int) (out []piece) {
	for range n {
		out = append(out, piece{time.Second, chunk(": ping\n\n")})
	}
	return out
}

// guidellm 107: a limit for the first output and one for the next. A server that
// keeps its connection alive by comments, before the first text or behind it, ends
// by them all the same; without comments at the same moment.
func TestGuideLLM107CommentsResetNoLimit(t *testing.T) {
	limits := Limits{FirstOutput: 10 * time.Second, Gap: 5 * time.Second, Total: time.Hour}
	silence := []piece{{100 * time.Hour, ""}}
	first := []piece{{2 * time.Second, streamHead + chunk("data: a\n")}}
	for name, row := range map[string]struct {
		pieces []piece
		want   Ending
		at     time.Duration
	}{
		"silence before the first text":  {append([]piece{{0, streamHead}}, silence...), EndStalledFirst, 10 * time.Second},
		"comments before the first text": {append([]piece{{0, streamHead}}, pings(60)...), EndStalledFirst, 10 * time.Second},
		"silence in mid-stream":          {append(first[:1:1], silence...), EndStalledMid, 7 * time.Second},
		"comments in mid-stream":         {append(first[:1:1], pings(60)...), EndStalledMid, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if s, f := asked(t, limits, row.pieces); s.Ending != row.want || s.End != int64(row.at) {
				t.Errorf("ending %d at %v (%+v), want %d at %v", s.Ending, time.Duration(s.End), f, row.want, row.at)
			}
		})
	}
}

// vllm-omni 5549: a client gave up after 300 s though nobody had asked it to. The
// headers come at once and the first text after 310 s, with and without comments
// until then: it is an answer, unless the plan's own limit is shorter.
func TestVLLMOmni5549ThereIsNoLimitOf300Seconds(t *testing.T) {
	answer := func(wait ...piece) []piece {
		return append(append([]piece{{0, streamHead}}, wait...), piece{0, chunk("data: a\n") + chunk("data: [DONE]\n") + lastChunk})
	}
	for name, row := range map[string]struct {
		limits Limits
		pieces []piece
		want   Ending
		at     time.Duration
	}{
		"silence, 10 minutes":  {Limits{Connect: 10 * time.Second, FirstOutput: 10 * time.Minute, Gap: time.Minute}, answer(piece{310 * time.Second, ""}), EndMark, 310 * time.Second},
		"silence, no limit":    {Limits{}, answer(piece{310 * time.Second, ""}), EndMark, 310 * time.Second},
		"comments, 10 minutes": {Limits{Connect: 10 * time.Second, FirstOutput: 10 * time.Minute, Gap: time.Minute}, answer(pings(310)...), EndMark, 310 * time.Second},
		"comments, 5 minutes":  {Limits{FirstOutput: 5 * time.Minute}, answer(pings(310)...), EndStalledFirst, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if s, f := asked(t, row.limits, row.pieces); s.Ending != row.want || s.End != int64(row.at) {
				t.Errorf("ending %d at %v (%+v), want %d at %v", s.Ending, time.Duration(s.End), f, row.want, row.at)
			}
		})
	}
}
