package measure

import (
	"io"
	"net"
	"testing"
)

// streams.md 7: what the client waits for after the end mark, as the rest of a
// body, is in no rate.
func TestTheWallClockEndsWithTheLastAnswer(t *testing.T) {
	h := serveRaw(t, func(c net.Conn, _ int) {
		_, _ = io.WriteString(c, sse+chunks(delta("a"), finish("stop"), done)) // the body is not ended
		_, _ = io.Copy(io.Discard, c)
	})
	p, err := newBench(t, map[string]any{"base_url": h.url, "sim": nil, "metrics": "off"}, map[string]any{"load": closed(2, 4), "max_tokens": 8}).run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for _, a := range p.attempts {
		last = max(last, *a.T.End)
	}
	phase := p.measurement.Phase
	if phase.WallClockMS != float64(last)/1e6 {
		t.Errorf("wall clock %v ms, the last answer ended at %d ns", phase.WallClockMS, last)
	}
	if got := phase.FinishedAtUnixNS - phase.StartedAtUnixNS; got < last-5e6 || got > last+5e6 {
		t.Errorf("the labels are %d ns apart, want about %d", got, last)
	}
}
