package load

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A piece is what a scripted server writes after a pause.
type piece struct {
	after time.Duration
	text  string
}

// script is a server at the other end of a pipe: it reads a request whole and
// then plays its pieces; a last piece of "close" closes the connection.
type script struct {
	pieces func(conn, request int) []piece
	conns  int
	got    []string // bodies
	over   chan struct{}
}

func newScript(tb testing.TB, pieces func(conn, request int) []piece) *script {
	tb.Helper()
	s := &script{pieces: pieces, over: make(chan struct{})}
	tb.Cleanup(func() { close(s.over) })
	return s
}

func (s *script) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	n := s.conns
	s.conns++
	go s.serve(server, n)
	return client, nil
}

func (s *script) serve(conn net.Conn, n int) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for request := 0; ; request++ {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		s.got = append(s.got, string(body))
		for _, p := range s.pieces(n, request) {
			select {
			case <-time.After(p.after): // in the bubble's own time
			case <-s.over:
				return
			}
			if p.text == "close" {
				return
			}
			if _, err := io.WriteString(conn, p.text); err != nil {
				return
			}
		}
	}
}

// lineWatcher takes every "data:" line for output and "[DONE]" for the end mark.
type lineWatcher struct{ rest []byte }

func (w *lineWatcher) Reset([]byte) { w.rest = w.rest[:0] }
func (w *lineWatcher) Close()       {}

func (w *lineWatcher) Feed(b []byte) (saw Saw) {
	w.rest = append(w.rest, b...)
	for {
		i := bytes.IndexByte(w.rest, '\n')
		if i < 0 {
			return saw
		}
		switch line := w.rest[:i]; {
		case bytes.Equal(line, []byte("data: [DONE]")):
			saw |= SawEnd
		case bytes.HasPrefix(line, []byte("data:")):
			saw |= SawOutput
		}
		w.rest = w.rest[:copy(w.rest, w.rest[i+1:])]
	}
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func chunk(s string) string { return chunks(s) }

// chunks writes each text as a chunk of its own.
func chunks(texts ...string) string {
	var b strings.Builder
	for _, s := range texts {
		b.WriteString(strings.ToUpper(hex(len(s))) + "\r\n" + s + "\r\n")
	}
	return b.String()
}

func hex(n int) string {
	const digits = "0123456789abcdef"
	if n < 16 {
		return digits[n : n+1]
	}
	return hex(n/16) + digits[n%16:n%16+1]
}

const lastChunk = "0\r\n\r\n"

func newTestClient(tb testing.TB, dial func(context.Context, string, string) (net.Conn, error), l Limits) (*Client, *Capture) {
	tb.Helper()
	u := &url.URL{Scheme: "http", Host: "engine.test", Path: "/v1/chat/completions"}
	c := NewClient(Config{Dialer: Dialer{Target: u, Dial: dial}, URL: u, Header: http.Header{"X-Test": {"1"}}, Limits: l})
	return c, NewCapture(&memory{}, 2, Hiding{})
}

// memory is a Storage in memory.
type memory struct{ b []byte }

func (m *memory) Write(p []byte) (int, error) {
	m.b = append(m.b, p...)
	return len(p), nil
}

func (m *memory) ReadAt(p []byte, off int64) (int, error) { return bytes.NewReader(m.b).ReadAt(p, off) }

// replayed is the answer of one try as text, with the stamp of each read.
type replayed struct {
	head, body string
	at         []int64
	empty      []int64
}

func replay(tb testing.TB, c *Capture, request int) (r replayed) {
	tb.Helper()
	err := c.Replay(request, 0, func(b []byte) { r.head += string(b) }, func(read Read, b []byte) {
		r.body += string(b)
		r.at = append(r.at, read.At)
		r.empty = append(r.empty, read.Empty)
	})
	if err != nil {
		tb.Fatalf("replay: %v", err)
	}
	return r
}

func ms(n int64) int64 { return n * int64(time.Millisecond) }

func TestEveryStampIsThatOfItsMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, func(int, int) []piece {
			return []piece{
				{ms2(100), streamHead},
				{ms2(50), chunk(": ping\n\n")},
				{ms2(50), chunk("data: a\n")},
				{ms2(20), chunks("data: b\n", "data: c\n")},
				{ms2(30), chunk("data: [DONE]\n") + lastChunk},
			}
		})
		c, capture := newTestClient(t, s.dial, Limits{})
		w := c.NewWorker(capture, &lineWatcher{})
		c.Begin()
		time.Sleep(ms2(10))
		sample := NewSample(0)
		if f := w.Do(t.Context(), Job{Payload: []byte(`{"a":1}`)}, &sample); f != (Fault{}) {
			t.Fatalf("fault %+v", f)
		}
		w.Close()
		if err := capture.Close(); err != nil {
			t.Fatal(err)
		}
		want := Sample{
			Due: 0, Start: ms(10), Connected: ms(10), Sent: ms(10), Written: ms(10), Headers: ms(110), FirstByte: ms(160),
			FirstOutput: ms(210), LastOutput: ms(230), End: ms(260), Bytes: 45, Conn: 1, Status: 200, Ending: EndMark, Begun: true,
		}
		if sample != want {
			t.Errorf("sample\n got %+v\nwant %+v", sample, want)
		}
		got := replay(t, capture, 0)
		if want := ": ping\n\ndata: a\ndata: b\ndata: c\ndata: [DONE]\n"; got.body != want {
			t.Errorf("body %q, want %q", got.body, want)
		}
		if !strings.HasPrefix(got.head, "HTTP/1.1 200 OK\r\n") {
			t.Errorf("head %q", got.head)
		}
		if want := []int64{ms(160), ms(210), ms(230), ms(260)}; !equal(got.at, want) {
			t.Errorf("arrivals %v, want %v", got.at, want)
		}
		if want := []int64{ms(110), ms(160), ms(210), ms(230)}; !equal(got.empty, want) {
			t.Errorf("seen empty %v, want %v", got.empty, want)
		}
		if len(s.got) != 1 || s.got[0] != `{"a":1}` {
			t.Errorf("server got %q", s.got)
		}
	})
}

func ms2(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func equal(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// The body's framing in every legal form, cut at every byte, gives the same bytes.
func TestFramingsGiveTheSameBody(t *testing.T) {
	const text = "data: a\ndata: é中\n\ndata: b\n"
	forms := map[string]string{
		"chunked":           streamHead + chunks("data: a\nda", "ta: é中\n\n", "data: b\n") + lastChunk,
		"chunk extension":   streamHead + "a;x=y\r\n" + text[:10] + "\r\n" + chunk(text[10:]) + "0;last\r\nX-Trailer: 1\r\n\r\n",
		"bare line feeds":   "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n" + strings.ReplaceAll(chunks(text), "\r", "") + "0\n\n",
		"length":            "HTTP/1.1 200 OK\r\nContent-Length: " + itoa(len(text)) + "\r\n\r\n" + text,
		"informational":     "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: " + itoa(len(text)) + "\r\n\r\n" + text,
		"closed connection": "HTTP/1.0 200 OK\r\n\r\n" + text,
	}
	for name, wire := range forms {
		t.Run(name, func(t *testing.T) {
			for cut := 1; cut < len(wire); cut++ {
				synctest.Test(t, func(t *testing.T) {
					s := newScript(t, func(int, int) []piece {
						return []piece{{0, wire[:cut]}, {ms2(1), wire[cut:]}, {0, "close"}}
					})
					c, capture := newTestClient(t, s.dial, Limits{Total: time.Second})
					w := c.NewWorker(capture, &lineWatcher{})
					sample := NewSample(0)
					w.Do(t.Context(), Job{}, &sample)
					w.Close()
					if err := capture.Close(); err != nil {
						t.Fatal(err)
					}
					if got := replay(t, capture, 0); got.body != text {
						t.Fatalf("cut at %d: body %q, want %q (ending %d)", cut, got.body, text, sample.Ending)
					}
					want := EndBody
					if name == "closed connection" {
						want = EndClose
					}
					if sample.Ending != want {
						t.Fatalf("cut at %d: ending %d, want %d", cut, sample.Ending, want)
					}
				})
			}
		})
	}
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

func TestEndings(t *testing.T) {
	limits := Limits{FirstOutput: time.Second, Gap: 500 * time.Millisecond, Total: 10 * time.Second, MaxBody: 1000, MaxError: 8}
	comments := func(n int) (out []piece) {
		for range n {
			out = append(out, piece{ms2(100), chunk(": ping\n")})
		}
		return out
	}
	one := piece{ms2(100), streamHead + chunk("data: a\n")}
	cases := []struct {
		name   string
		pieces []piece
		want   Ending
		end    time.Duration
		class  string
	}{
		{"silence", []piece{{time.Hour, ""}}, EndStalledFirst, time.Second, "first_output"},
		{"comments only", append([]piece{{0, streamHead}}, comments(60)...), EndStalledFirst, time.Second, "first_output"},
		{"silence in mid-stream", []piece{one, {time.Hour, ""}}, EndStalledMid, 600 * time.Millisecond, "gap"},
		{"comments in mid-stream", append([]piece{one}, comments(60)...), EndStalledMid, 600 * time.Millisecond, "gap"},
		{"cut inside a chunk", []piece{one, {ms2(100), "20\r\ndata: b"}, {0, "close"}}, EndCut, 200 * time.Millisecond, "eof"},
		{"cut between chunks", []piece{one, {ms2(100), "close"}}, EndCut, 200 * time.Millisecond, "eof"},
		{"closed without an answer", []piece{{ms2(50), "close"}}, EndBroken, 50 * time.Millisecond, "eof"},
		{"closed inside the headers", []piece{{ms2(50), "HTTP/1.1 200 OK\r\nContent"}, {0, "close"}}, EndBroken, 50 * time.Millisecond, "eof"},
		{"another protocol", []piece{{ms2(50), "SSH-2.0-OpenSSH_9.6\r\n"}, {time.Hour, ""}}, EndBroken, 50 * time.Millisecond, "protocol"},
		{"bad chunk size", []piece{one, {ms2(100), "zz\r\n"}, {time.Hour, ""}}, EndReset, 200 * time.Millisecond, "protocol"},
		{"two lengths", []piece{{0, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"}}, EndBroken, 0, "protocol"},
		{"headers without end", []piece{{0, "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHead) + "\r\n"}, {time.Hour, ""}}, EndBroken, 0, "protocol"},
		{"body too large", []piece{one, {ms2(100), chunk(strings.Repeat("data: x\n", 200))}, {time.Hour, ""}}, EndBodyTooLarge, 200 * time.Millisecond, ""},
		{"error body", []piece{{0, "HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\n" + strings.Repeat("x", 100)}}, EndCapped, 0, ""},
		{"no body", []piece{{ms2(50), "HTTP/1.1 204 None\r\n\r\n"}}, EndBody, 50 * time.Millisecond, ""},
		{"silent error body", []piece{{0, "HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\nx"}, {time.Hour, ""}}, EndStalledFirst, time.Second, "first_output"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t, func(int, int) []piece { return tc.pieces })
				c, capture := newTestClient(t, s.dial, limits)
				w := c.NewWorker(capture, &lineWatcher{})
				c.Begin()
				sample := NewSample(0)
				f := w.Do(t.Context(), Job{}, &sample)
				w.Close()
				if err := capture.Close(); err != nil {
					t.Fatal(err)
				}
				if sample.Ending != tc.want || f.Class != tc.class || sample.End != int64(tc.end) {
					t.Errorf("ending %d class %q at %v (%s), want %d %q at %v",
						sample.Ending, f.Class, time.Duration(sample.End), f.Message, tc.want, tc.class, tc.end)
				}
			})
		})
	}
	t.Run("tokens for ever", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScript(t, func(int, int) []piece {
				out := []piece{{0, streamHead}}
				for range 100 {
					out = append(out, piece{ms2(400), chunk("data:\n")})
				}
				return out
			})
			c, capture := newTestClient(t, s.dial, Limits{FirstOutput: time.Second, Gap: 500 * time.Millisecond, Total: 10 * time.Second})
			w := c.NewWorker(capture, &lineWatcher{})
			c.Begin()
			sample := NewSample(0)
			w.Do(t.Context(), Job{}, &sample)
			w.Close()
			if err := capture.Close(); err != nil {
				t.Fatal(err)
			}
			if sample.Ending != EndTotal || sample.End != int64(10*time.Second) {
				t.Errorf("ending %d at %v", sample.Ending, time.Duration(sample.End))
			}
		})
	})
}

func TestConnectionIsUsedAgainAfterTheEndMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, func(int, int) []piece {
			return []piece{{ms2(10), streamHead + chunk("data: a\n")}, {ms2(10), chunk("data: [DONE]\n")}, {ms2(5), lastChunk}}
		})
		c, capture := newTestClient(t, s.dial, Limits{})
		w := c.NewWorker(capture, &lineWatcher{})
		c.Begin()
		for i := range 3 {
			sample := NewSample(0)
			w.Do(t.Context(), Job{Request: i}, &sample)
			if sample.Ending != EndMark || sample.Reused != (i > 0) || (sample.Connected == None) != (i > 0) {
				t.Errorf("request %d: %+v", i, sample)
			}
			if got := sample.End - sample.Start; got != ms(20) {
				t.Errorf("request %d took %d, want 20 ms: the wait for the last chunk is none of its", i, got)
			}
		}
		w.Close()
		if err := capture.Close(); err != nil {
			t.Fatal(err)
		}
		if n := c.Connections(); n.Opened != 1 || n.Reused != 2 {
			t.Errorf("connections %+v", n)
		}
	})
}

func TestAbortEndsOpenRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, func(int, int) []piece { return []piece{{0, streamHead}, {time.Hour, ""}} })
		c, capture := newTestClient(t, s.dial, Limits{})
		w := c.NewWorker(capture, &lineWatcher{})
		c.Begin()
		time.AfterFunc(time.Second, c.Abort)
		sample := NewSample(0)
		if f := w.Do(t.Context(), Job{}, &sample); sample.Ending != EndAborted || f.Class != "aborted" || sample.End != int64(time.Second) {
			t.Errorf("sample %+v fault %+v", sample, f)
		}
		w.Close()
		_ = capture.Close()
	})
}
