package load

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const shortAnswer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n" +
	"9\r\ndata: a\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"

// A keeper is a connection that tells its server where the client stands.
type keeper struct {
	*net.TCPConn
	writes  int
	reads   int
	writing func(n int) // before the n-th write, from 1
	reading func(n int) // before the n-th read that follows one with bytes, from 0
	closed  func()      // at the end of the stream
}

func (k *keeper) Write(p []byte) (int, error) {
	k.writes++
	k.writing(k.writes)
	return k.TCPConn.Write(p)
}

func (k *keeper) Read(p []byte) (int, error) {
	k.reading(k.reads)
	n, err := k.TCPConn.Read(p)
	if errors.Is(err, io.EOF) {
		k.closed()
	}
	if n > 0 {
		k.reads++
	}
	return n, err
}

// twice serves one request on a connection, and on the first one then does as it
// is told; every other request is answered.
type twice struct {
	url   *url.URL
	reads atomic.Int64  // requests that were read whole
	begun chan struct{} // the second request is about to be written
	gone  chan struct{} // the server has done
	eof   chan struct{} // the client has seen the end
	more  chan struct{} // the client reads again after the answer
	asks  func()        // closes it
	conns int
}

func serveTwice(t *testing.T, then func(s *twice, conn *net.TCPConn, in *bufio.Reader)) *twice {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &twice{
		url:   &url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/v1/chat/completions"},
		begun: make(chan struct{}), gone: make(chan struct{}), eof: make(chan struct{}), more: make(chan struct{}),
	}
	s.asks = sync.OnceFunc(func() { close(s.more) })
	go func() {
		for first := true; ; first = false {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(conn.(*net.TCPConn), first, then)
		}
	}()
	return s
}

func (s *twice) serve(conn *net.TCPConn, first bool, then func(*twice, *net.TCPConn, *bufio.Reader)) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	if !s.take(in) {
		return
	}
	_, _ = io.WriteString(conn, shortAnswer)
	if first {
		then(s, conn, in)
		close(s.gone)
	}
}

func (s *twice) take(in *bufio.Reader) bool {
	req, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	if _, err = io.Copy(io.Discard, req.Body); err != nil {
		return false
	}
	s.reads.Add(1)
	return true
}

// dial follows the first connection; waits says for the server before the second
// request is written.
func (s *twice) dial(waits bool) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		k := &keeper{TCPConn: conn.(*net.TCPConn), writing: func(int) {}, reading: func(int) {}, closed: func() {}}
		if s.conns++; s.conns == 1 {
			k.writing = func(n int) {
				if n == 2 {
					close(s.begun)
					if waits {
						<-s.gone
					}
				}
			}
			k.reading = func(n int) {
				if n == 1 {
					s.asks()
				}
			}
			k.closed = sync.OnceFunc(func() { close(s.eof) })
		}
		return k, nil
	}
}

func (s *twice) ask(t *testing.T, waits bool) (second Sample) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c := NewClient(Config{Dialer: Dialer{Target: s.url, Dial: s.dial(waits)}, URL: s.url})
	capture := NewCapture(&memory{}, 2, Hiding{})
	w := c.NewWorker(capture, &lineWatcher{})
	for i := range 2 {
		second = NewSample(0)
		w.Do(ctx, Job{Request: i, Payload: []byte(`{"prompt": "two bytes and more"}`)}, &second)
	}
	w.Close()
	if err := capture.Close(); err != nil {
		t.Error(err)
	}
	return second
}

// What llama-server does: it announces keep-alive and closes. The close crosses
// the next request, which looked at the connection before.
func TestAConnectionThatWasClosedBeforeTheRequestCameIsReplaced(t *testing.T) {
	s := serveTwice(t, func(s *twice, conn *net.TCPConn, _ *bufio.Reader) {
		<-s.begun
		_ = conn.Close()
	})
	if got := s.ask(t, true); got.Ending != EndMark || !got.Replaced || got.Connected == None || s.reads.Load() != 2 {
		t.Errorf("second request: %+v, want an answer on a new connection; %d were read", got, s.reads.Load())
	}
}

// The close that comes a moment after the answer is waited for: a request that
// crossed it would be lost, or sent twice.
func TestACloseBehindAnAnswerIsWaitedFor(t *testing.T) {
	s := serveTwice(t, func(s *twice, conn *net.TCPConn, _ *bufio.Reader) {
		<-s.more
		_ = conn.Close()
	})
	if got := s.ask(t, false); got.Ending != EndMark || !got.Replaced || s.reads.Load() != 2 {
		t.Errorf("second request: %+v; %d were read", got, s.reads.Load())
	}
}

// A server that keeps its connections is asked on them, and after its first
// answer nothing is waited for.
func TestAConnectionThatStaysIsUsedAgain(t *testing.T) {
	to := canned(t, streamOf(1))
	c := NewClient(Config{Dialer: Dialer{Target: to}, URL: to})
	askN(t, c, NewCapture(&memory{}, 1, Hiding{}), 3, func(i int, w *Worker, s Sample, _ Fault) {
		if !c.stays.Load() || s.Reused != (i > 0) || s.Replaced {
			t.Errorf("request %d: %+v, stays %v", i, s, c.stays.Load())
		}
	})
}

// A request that the server's side had taken in is not sent again, however the
// connection ends: it may have been read.
func TestARequestThatMayHaveBeenReadIsNotSentAgain(t *testing.T) {
	reset := func(conn *net.TCPConn) {
		_ = conn.SetLinger(0)
		_ = conn.Close()
	}
	for name, then := range map[string]func(*twice, *net.TCPConn, *bufio.Reader){
		"read, then closed": func(s *twice, _ *net.TCPConn, in *bufio.Reader) { s.take(in) },
		"read, then closed in order, then reset": func(s *twice, conn *net.TCPConn, in *bufio.Reader) {
			s.take(in)
			_ = conn.CloseWrite()
			<-s.eof
			reset(conn)
		},
		"read, then reset": func(s *twice, conn *net.TCPConn, in *bufio.Reader) {
			s.take(in)
			reset(conn)
		},
		"one byte read, the rest reset": func(_ *twice, conn *net.TCPConn, in *bufio.Reader) {
			_, _ = in.ReadByte()
			_ = conn.CloseWrite()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveTwice(t, then)
			if got := s.ask(t, false); got.Ending != EndBroken || got.Replaced || s.reads.Load() > 2 {
				t.Errorf("second request: %+v; %d were read", got, s.reads.Load())
			}
		})
	}
}
