package load

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// canned serves one fixed answer to each request, without allocating.
func canned(tb testing.TB, answer []byte) *url.URL {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buf := make([]byte, 64<<10)
				got := 0
				for {
					n, err := conn.Read(buf[got:])
					if err != nil {
						return
					}
					if got += n; !bytes.HasSuffix(buf[:got], []byte("END")) {
						continue
					}
					got = 0
					if _, err := conn.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return &url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/v1/chat/completions"}
}

func streamOf(events int) []byte {
	var b strings.Builder
	b.WriteString(streamHead)
	for range events {
		b.WriteString(chunk("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"}}]}\n"))
	}
	b.WriteString(chunk("data: [DONE]\n") + lastChunk)
	return []byte(b.String())
}

func canWorker(tb testing.TB, events int) (*Worker, *Capture) {
	tb.Helper()
	u := canned(tb, streamOf(events))
	c := NewClient(Config{
		Dialer: Dialer{Target: u}, URL: u, Header: http.Header{"Content-Type": {"application/json"}},
		Limits: Limits{FirstOutput: time.Minute, Gap: time.Minute, Total: time.Hour, MaxBody: 1 << 30},
	})
	capture := NewCapture(discard{}, 2, Hiding{})
	w := c.NewWorker(capture, &lineWatcher{})
	c.Begin()
	tb.Cleanup(func() {
		w.Close()
		if err := capture.Close(); err != nil {
			tb.Error(err)
		}
	})
	return w, capture
}

type discard struct{ io.Writer }

func (discard) Write(p []byte) (int, error)       { return len(p), nil }
func (discard) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

var payload = []byte(strings.Repeat("x", 4096) + "END")

// A request allocates a small number of times however long its answer is.
func TestAllocationsDoNotGrowWithTheAnswer(t *testing.T) {
	if testing.Short() {
		t.Skip("counts allocations")
	}
	cost := func(events int) float64 {
		w, _ := canWorker(t, events)
		i := 0
		return testing.AllocsPerRun(200, func() {
			s := NewSample(0)
			if f := w.Do(t.Context(), Job{Request: i, Payload: payload}, &s); s.Ending != EndMark {
				t.Fatalf("request %d: %+v %+v", i, s, f)
			}
			i++
		})
	}
	short, long := cost(4), cost(1000)
	t.Logf("allocations a request: %v with 4 events, %v with 1,000", short, long)
	if short > 12 {
		t.Errorf("a request of 4 events allocates %v times", short)
	}
	if long > short+3 { // the capture's index grows with its frames
		t.Errorf("a request of 1,000 events allocates %v times, one of 4 events %v", long, short)
	}
}

func BenchmarkRequest(b *testing.B) {
	for _, bench := range []struct {
		name   string
		events int
	}{{"1 event", 1}, {"64 events", 64}, {"1000 events", 1000}} {
		b.Run(bench.name, func(b *testing.B) {
			w, _ := canWorker(b, bench.events)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				s := NewSample(0)
				w.Do(b.Context(), Job{Request: i, Payload: payload}, &s)
				i++
			}
			b.ReportMetric(float64(b.N)*float64(bench.events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
