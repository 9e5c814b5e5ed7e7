package load

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A lot is a real server of a test: it counts its connections and requests.
type lot struct {
	dialer          Dialer
	conns, requests atomic.Int64
}

// kind is how a server is reached.
type kind struct {
	name, protocol string
	secure         bool
}

var kinds = []kind{
	{"HTTP/2 over TLS", "HTTP/2.0", true},
	{"HTTP/2 in the clear", "HTTP/2.0", false},
	{"HTTP/1.1 over TLS", "HTTP/1.1", true},
}

func newLot(t *testing.T, k kind, cfg http.HTTP2Config, answer http.HandlerFunc) *lot {
	t.Helper()
	l := &lot{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.requests.Add(1)
		if r.Proto != k.protocol {
			t.Errorf("asked in %s, want %s", r.Proto, k.protocol)
		}
		answer(w, r)
	}))
	s.Config.HTTP2 = &cfg
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(k.protocol == "HTTP/1.1")
	s.Config.Protocols.SetHTTP2(k.protocol == "HTTP/2.0" && k.secure)
	s.Config.Protocols.SetUnencryptedHTTP2(!k.secure)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			l.conns.Add(1)
		}
	}
	if s.EnableHTTP2 = k.protocol == "HTTP/2.0"; k.secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	to, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	l.dialer = Dialer{Target: to, TLS: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // its own server
	return l
}

func (l *lot) client(t *testing.T, fresh bool, limits Limits) *Client {
	t.Helper()
	c := NewClient(Config{Dialer: l.dialer, URL: l.dialer.Target, HTTP2: true, Fresh: fresh, Limits: limits, Header: http.Header{}})
	t.Cleanup(c.Close)
	return c
}

// ends answers as an engine does: the end mark, then the end of the body.
func ends(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "data: a\n\n")
	w.(http.Flusher).Flush()
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
	w.(http.Flusher).Flush()
}

// crowd sends n requests from each worker; they stand together at the start.
func crowd(t *testing.T, c *Client, workers, n int) (all []Sample) {
	t.Helper()
	capture := NewCapture(&memory{}, workers, Hiding{})
	all = make([]Sample, workers*n)
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range workers {
		w := c.NewWorker(capture, &lineWatcher{})
		wg.Go(func() {
			defer w.Close()
			<-gate
			for k := range n {
				s := &all[i*n+k]
				*s = NewSample(0)
				if f := w.Do(t.Context(), Job{Request: i*n + k, Payload: []byte("{}")}, s); s.Ending != EndMark {
					t.Errorf("request %d: ending %d, %+v", i*n+k, s.Ending, f)
				}
			}
		})
	}
	c.Begin()
	close(gate)
	wg.Wait()
	if err := capture.Close(); err != nil {
		t.Error(err)
	}
	return all
}

func setUps(all []Sample) (n int) {
	for _, s := range all {
		if s.Connected != None {
			n++
		}
	}
	return n
}

// Whatever the server speaks: warm connections stand before the phase, without a
// request; connections are kept after the end mark; or each request has its own.
func TestConnectionsAreOpenedWhenThePlanSays(t *testing.T) {
	const workers, each = 2, 5
	for _, k := range kinds {
		shared := k.protocol == "HTTP/2.0"
		for _, tc := range []struct {
			mode         string
			set          int // requests with a set-up, -1: those that came while it went on
			opened, kept int64
		}{
			{"warm", 0, workers, workers*each - workers},
			{"reuse", workers, workers, workers*each - workers},
			{"new", workers * each, workers * each, 0},
		} {
			t.Run(k.name+", "+tc.mode, func(t *testing.T) {
				l := newLot(t, k, http.HTTP2Config{}, ends)
				c := l.client(t, tc.mode == "new", Limits{Connect: time.Minute})
				opened, kept := tc.opened, tc.kept
				if shared && tc.mode != "new" {
					opened, kept = 1, workers*each-1
				}
				if tc.mode == "warm" {
					if n := c.Warm(t.Context(), workers); int64(n) != opened || c.Connections().Opened != opened || l.requests.Load() != 0 {
						t.Errorf("%d connections stand, %+v, after %d requests", n, c.Connections(), l.requests.Load())
					}
				}
				all := crowd(t, c, workers, each)
				want := Connections{Opened: opened, Reused: kept, Protocol: k.protocol}
				if k.secure {
					want.TLS = "TLS 1.3"
				}
				if got := c.Connections(); got != want || l.conns.Load() != opened {
					t.Errorf("%+v, want %+v; the server saw %d", got, want, l.conns.Load())
				}
				// A second worker may come when the connection already stands.
				if n := setUps(all); n != tc.set && (!shared || tc.mode != "reuse" || n < 1 || n > workers) {
					t.Errorf("%d requests show a set-up, want %d", n, tc.set)
				}
				for i, s := range all {
					if s.Reused != (s.Connected == None) || s.Conn == 0 || s.Replaced {
						t.Errorf("request %d: %+v", i, s)
					}
				}
			})
		}
	}
}

// As many connections are opened as the server's own limit asks for, and no
// request is sent over it: a server refuses what is.
func TestNoConnectionCarriesMoreThanTheServerAllows(t *testing.T) {
	const streams, workers = 2, 5
	for _, k := range kinds[:2] {
		for _, warm := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, warm %v", k.name, warm), func(t *testing.T) {
				var open sync.WaitGroup
				open.Add(workers) // all at once
				l := newLot(t, k, http.HTTP2Config{MaxConcurrentStreams: streams}, func(w http.ResponseWriter, r *http.Request) {
					open.Done()
					open.Wait()
					ends(w, r)
				})
				c := l.client(t, false, Limits{})
				if warm {
					if n := c.Warm(t.Context(), workers); n != 3 {
						t.Errorf("%d connections stand, want 3 for %d requests, %d on each", n, workers, streams)
					}
				}
				all := crowd(t, c, workers, 1)
				if n := c.Connections(); n.Opened != 3 || n.Reused != workers-3 || n.Replaced != 0 {
					t.Errorf("%+v", n)
				}
				if n := setUps(all); warm && n != 0 {
					t.Errorf("%d requests show a set-up though all was warm", n)
				}
			})
		}
	}
}

// A server that never ends the body behind its end mark holds nobody up, and what
// is waited for is none of the answer's.
func TestABodyWithoutEndHoldsNobodyUp(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			l := newLot(t, k, http.HTTP2Config{}, func(w http.ResponseWriter, r *http.Request) {
				ends(w, r)
				<-r.Context().Done()
			})
			c := l.client(t, false, Limits{})
			askN(t, c, NewCapture(&memory{}, 1, Hiding{}), 4, func(i int, w *Worker, s Sample, f Fault) {
				if s.Ending != EndMark || w.Settled() < int64(settleShort) || s.End+w.Settled() > c.Now() {
					t.Errorf("request %d: ending %d at %d, then %d, %+v", i, s.Ending, s.End, w.Settled(), f)
				}
			})
			// A stream is given up without its connection.
			want := Connections{Opened: 1, Reused: 3}
			if k.protocol == "HTTP/1.1" {
				want = Connections{Opened: 4}
			}
			if got := c.Connections(); got.Opened != want.Opened || got.Reused != want.Reused {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

// A buffered connection has room for what is written, as a socket has; a close
// comes behind it.
type buffered struct {
	net.Conn
	out  chan []byte
	once sync.Once
}

func newBuffered(conn net.Conn) *buffered {
	b := &buffered{Conn: conn, out: make(chan []byte, 1000)}
	go func() {
		defer conn.Close()
		for p := range b.out {
			_, _ = conn.Write(p)
		}
	}()
	return b
}

func (b *buffered) Write(p []byte) (int, error) {
	b.out <- slices.Clone(p)
	return len(p), nil
}

func (b *buffered) Close() error {
	b.once.Do(func() {
		close(b.out)
		go func() { _, _ = io.Copy(io.Discard, b.Conn) }()
	})
	return nil
}

// bubble2 is a client in virtual time whose server speaks HTTP/2 by hand.
func bubble2(t *testing.T, l Limits, answer func(conn net.Conn, f frame2) bool) *Client {
	t.Helper()
	to := &url.URL{Scheme: "http", Host: "engine.test"}
	dial := func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go follow2(newBuffered(server), answer)
		return client, nil
	}
	return NewClient(Config{Dialer: Dialer{Target: to, Dial: dial}, URL: to, HTTP2: true, Limits: l, Header: http.Header{}})
}

// A body that ends soon after its end mark is read to its end: its stream is not
// reset, and its end stamp is that of the mark.
func TestAStreamIsReadUpAfterTheEndMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resets := 0
		c := bubble2(t, Limits{}, func(conn net.Conn, f frame2) bool {
			switch {
			case f.kind == h2Reset:
				resets++
			case f.flags&h2EndStream != 0:
				head2(f.stream).write(conn)
				frame2{kind: h2Data, stream: f.stream, payload: []byte("data: [DONE]\n\n")}.write(conn)
				time.AfterFunc(ms2(40), func() { frame2{kind: h2Data, flags: h2EndStream, stream: f.stream}.write(conn) })
			}
			return false
		})
		askN(t, c, NewCapture(&memory{}, 1, Hiding{}), 3, func(i int, w *Worker, s Sample, f Fault) {
			if s.Ending != EndMark || s.End != s.Start || w.Settled() != ms(40) {
				t.Errorf("request %d: ending %d after %d, then %d, %+v", i, s.Ending, s.End-s.Start, w.Settled(), f)
			}
		})
		if n := c.Connections(); resets != 0 || n.Opened != 1 || n.Reused != 2 {
			t.Errorf("%d resets, %+v", resets, n)
		}
		c.Close()
		time.Sleep(time.Minute) // what the library still waits for
	})
}

// A stream that a GOAWAY leaves out was not processed, and the message says so in
// words that do not ask the reader to change this program. It is not sent again.
func TestAnUnprocessedStreamSaysWhatHappened(t *testing.T) {
	var asked atomic.Int64
	to := serve2(t, func(conn net.Conn, f frame2) bool {
		if f.kind == h2Headers {
			asked.Add(1)
		}
		if f.flags&h2EndStream != 0 {
			frame2{kind: h2GoAway, payload: make([]byte, 8)}.write(conn) // no stream was processed, no error
		}
		return false
	})
	s, f, c := ask2(t, Dialer{Target: to}, Limits{})
	want := Fault{"goaway", "the server closed the HTTP/2 connection (GOAWAY) before it processed the request"}
	if s.Ending != EndBroken || f != want || !s.Refused() || asked.Load() != 1 || c.Opened != 1 {
		t.Errorf("ending %d, %+v, asked %d times, %+v", s.Ending, f, asked.Load(), c)
	}
}

// A kept connection that the server has closed, or said goodbye on, is replaced
// before anything is sent, and that is noted.
func TestAClosedSharedConnectionIsReplaced(t *testing.T) {
	bye := frame2{kind: h2GoAway, payload: []byte{0, 0, 0, 1, 0, 0, 0, 0}}
	for name, tc := range map[string]struct {
		goodbye []frame2
		closes  bool
	}{
		"closed":                {nil, true},
		"closed after a word":   {[]frame2{bye}, true},
		"open, but for nothing": {[]frame2{bye}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := bubble2(t, Limits{}, func(conn net.Conn, f frame2) bool {
					if f.flags&h2EndStream == 0 || f.kind == h2Reset {
						return false
					}
					head2(f.stream).write(conn)
					frame2{kind: h2Data, flags: h2EndStream, stream: f.stream, payload: []byte("data: [DONE]\n\n")}.write(conn)
					for _, f := range tc.goodbye {
						f.write(conn)
					}
					return tc.closes
				})
				askN(t, c, NewCapture(&memory{}, 1, Hiding{}), 3, func(i int, _ *Worker, s Sample, f Fault) {
					if s.Ending != EndMark || s.Connected == None || s.Reused || s.Replaced != (i > 0) || s.Conn != int32(i+1) {
						t.Errorf("request %d: %+v, %+v", i, s, f)
					}
					synctest.Wait() // until the client has seen the close
				})
				if n := c.Connections(); n.Opened != 3 || n.Reused != 0 || n.Replaced != 2 {
					t.Errorf("%+v", n)
				}
				c.Close()
				time.Sleep(time.Minute)
			})
		})
	}
}

// A connection may close between the moment when a request was given its stream and
// the moment when it would be sent. That nothing of it went out is known then.
func TestAClosedConnectionSendsNothing(t *testing.T) {
	for _, requests := range []int{0, 1} {
		l := newLot(t, kinds[1], http.HTTP2Config{}, ends)
		c := l.client(t, false, Limits{})
		if c.Warm(t.Context(), 1) != 1 {
			t.Fatal("no connection")
		}
		crowd(t, c, 1, requests)
		conn, gone := c.fleet.take()
		if conn == nil || gone {
			t.Fatalf("connection %v, gone %v", conn, gone)
		}
		_ = conn.Close()
		w, s, st := &Worker{client: c}, NewSample(0), stamps2{}
		w.s = &s
		resp, err := w.send2(t.Context(), conn, []byte("{}"), &st)
		if err == nil {
			_ = resp.Body.Close()
		}
		if !st.unsent(err) || st.stamp() != None {
			t.Errorf("after %d requests: %v, written at %d", requests, err, st.stamp())
		}
	}
}

// A server that does not greet is no connection: what is warmed gives up on it
// with the limit of a connection, and so does a request that waits for another's.
func TestAServerThatDoesNotGreetIsNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &url.URL{Scheme: "http", Host: "engine.test"}
		silent := func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, server) }()
			return client, nil
		}
		c := NewClient(Config{
			Dialer: Dialer{Target: to, Dial: silent}, URL: to, HTTP2: true, Header: http.Header{},
			Limits: Limits{Connect: 2 * time.Second, FirstOutput: time.Minute},
		})
		c.Begin()
		if n := c.Warm(t.Context(), 3); n != 0 || c.Now() != ms(2000) {
			t.Errorf("%d stand after %v", n, time.Duration(c.Now()))
		}
		capture := NewCapture(&memory{}, 2, Hiding{})
		var wg sync.WaitGroup
		var ends [2]Sample
		for i := range ends {
			w := c.NewWorker(capture, &lineWatcher{})
			wg.Go(func() {
				defer w.Close()
				ends[i] = NewSample(0)
				w.Do(t.Context(), Job{Request: i}, &ends[i])
			})
			synctest.Wait()
		}
		wg.Wait()
		if ends[0].Ending != EndStalledFirst || ends[1].Ending != EndConnect || ends[1].End != ms(4000) {
			t.Errorf("endings %d and %d at %v", ends[0].Ending, ends[1].Ending, time.Duration(ends[1].End))
		}
		if err := capture.Close(); err != nil {
			t.Error(err)
		}
		c.Close()
		time.Sleep(time.Minute)
	})
}

// An abort ends what waits for a connection as well.
func TestAbortEndsTheWaitForAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &url.URL{Scheme: "http", Host: "engine.test"}
		never := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		c := NewClient(Config{Dialer: Dialer{Target: to, Dial: never}, URL: to, HTTP2: true, Header: http.Header{}})
		time.AfterFunc(time.Second, c.Abort)
		askN(t, c, NewCapture(&memory{}, 1, Hiding{}), 1, func(_ int, _ *Worker, s Sample, f Fault) {
			if s.Ending != EndAborted || f.Class != "aborted" || s.End != int64(time.Second) {
				t.Errorf("ending %d at %v, %+v", s.Ending, time.Duration(s.End), f)
			}
		})
		c.Close()
	})
}

// What the library says for its own callers is said in our words where these leave
// a reader without an answer; the rest stays as it is.
func TestFaultsOfHTTP2HaveAClass(t *testing.T) {
	for text, class := range map[string]string{
		"http2: Transport received Server's graceful shutdown GOAWAY": "goaway",
		"http2: client conn not usable":                               "eof",
		"http2: client conn could not be established":                 "eof",
		"http2: failed reading the frame payload: http2: frame too large, note that the frame header looked like an HTTP/1.1 header": "protocol",
		"stream error: stream ID 1; REFUSED_STREAM; received from peer":                                                              "refused_stream",
		"stream error: stream ID 1; PROTOCOL_ERROR":                                                                                  "protocol",
		"stream error: stream ID 1; PROTOCOL_ERROR; received from peer":                                                              "reset",
	} {
		f := fault2(text)
		kept := class == "reset" || class == "refused_stream" || text == "stream error: stream ID 1; PROTOCOL_ERROR"
		if f.Class != class || kept != (f.Message == text) {
			t.Errorf("%s: %+v, want %s", text, f, class)
		}
	}
}

// Over HTTP/2 as over HTTP/1.1 a server may ask for a pause.
func TestRetryAfterIsHeardOverHTTP2(t *testing.T) {
	for _, k := range kinds {
		l := newLot(t, k, http.HTTP2Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		})
		askN(t, l.client(t, false, Limits{}), NewCapture(&memory{}, 1, Hiding{}), 1, func(_ int, _ *Worker, s Sample, f Fault) {
			if s.RetryAfter != int64(7*time.Second) || !s.Refused() {
				t.Errorf("%s: %+v, %+v", k.name, s, f)
			}
		})
	}
}
