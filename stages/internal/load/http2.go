package load

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Streams share connections over HTTP/2 and the library reads these, so stamps are
// those of the moment when bytes came out of it.

// A stream is one request over HTTP/2, from its beginning until its answer is read
// up.
type stream struct {
	conn   *shared // nil until it has one
	body   io.ReadCloser
	cancel context.CancelCauseFunc
	stop   func() bool
}

// exchange2 is exchange where HTTP/2 is asked for. A server that does not speak it
// is recorded, not refused: it is asked over HTTP/1.1.
func (w *Worker) exchange2(ctx context.Context, payload []byte) (keep bool) {
	if w.wire == nil {
		w.wire = w.client.takeIdle()
	}
	if w.wire == nil {
		w.over2(ctx, payload)
	}
	if w.wire == nil {
		return false
	}
	return w.exchange(ctx, payload)
}

// over2 sends the request over HTTP/2 and reads its answer. Where the server
// chooses HTTP/1.1 nothing is sent and the worker has a wire.
func (w *Worker) over2(ctx context.Context, payload []byte) {
	ctx, cancel := context.WithCancelCause(ctx)
	w.stream = &stream{cancel: cancel, stop: context.AfterFunc(w.client.ctx, func() { cancel(errAborted) })}
	w.guard = newGuard(&w.client.clock, w.limit(), cancel)
	if l := w.client.cfg.Limits.Connect; l > 0 {
		w.guard.connecting(w.s.Start + int64(l))
	}
	var st stamps2
	resp := w.ask2(ctx, payload, &st) //nolint:bodyclose // closeStream does, once it is read up
	if resp == nil {
		w.closeStream()
		return
	}
	// An answer may be here before the library has said that the request went out.
	defer func() { w.s.Written = st.stamp() }()
	w.stream.body = resp.Body
	w.s.Headers, w.s.Status = w.client.clock.now(), int32(resp.StatusCode)
	w.s.RetryAfter = retryAfter([]byte(resp.Header.Get("Retry-After"))) * int64(time.Second)
	w.client.tally.protocol.Store(versionOf(resp.ProtoMajor, resp.ProtoMinor))
	head, err := httputil.DumpResponse(resp, false)
	if err != nil {
		w.failed(err, EndBroken)
		return
	}
	w.keepHead(head)
	w.watch.Reset(head)
	w.read2(ctx, resp.Body)
}

// ask2 sends the request until a connection takes it, and waits for the header
// block of its answer. Without one, what happened stands in the sample, or the
// worker has a wire.
func (w *Worker) ask2(ctx context.Context, payload []byte, st *stamps2) *http.Response {
	for {
		conn, err := w.join(ctx)
		if err != nil {
			w.failed2(ctx, err, EndConnect)
			return nil
		}
		if conn == nil {
			return nil
		}
		w.stream.conn = conn
		if w.guard.connected(); ctx.Err() != nil {
			conn.Release()
			w.failed2(ctx, context.Cause(ctx), EndConnect)
			return nil
		}
		w.s.Conn, w.s.Reused = conn.wire.number, w.s.Connected == None
		used := conn.used.Swap(true)
		resp, err := w.send2(ctx, conn, payload, st)
		if w.s.Reused && ctx.Err() == nil && st.unsent(err) {
			w.client.fleet.forget(conn)
			w.replace()
			continue
		}
		if used {
			w.client.tally.reused.Add(1)
		}
		if err != nil {
			w.s.Written = st.stamp()
			w.failed2(ctx, err, EndBroken)
			return nil
		}
		return resp
	}
}

// join gets the request a stream on a shared connection; where the server chose
// HTTP/1.1 there is none, and the worker has a wire. A connection that is being
// opened is waited for, whoever began it: that is this request's set-up, too.
func (w *Worker) join(ctx context.Context) (*shared, error) {
	f, s := w.client.fleet, w.s
	for !w.client.cfg.Fresh && !f.single() {
		conn, gone := f.take()
		if conn != nil {
			return conn, nil
		}
		if gone && s.Connected == None && !s.Replaced {
			w.replace()
		}
		o, first := f.open()
		if err := o.wait(ctx, first); err != nil {
			return nil, err
		}
		s.Connected = w.client.clock.now()
		if o.conn == nil {
			if w.wire = w.client.takeIdle(); w.wire != nil {
				return nil, nil
			}
		} else if first {
			if admitted, gone := o.conn.admit(); admitted || gone { // one that is gone says itself what became of it
				return o.conn, nil
			}
		}
	}
	return w.own(ctx)
}

// own opens a connection for the one request.
func (w *Worker) own(ctx context.Context) (conn *shared, err error) {
	f := w.client.fleet
	if conn, w.wire, err = f.dial(ctx); err != nil {
		return nil, err
	}
	w.s.Connected = w.client.clock.now()
	if conn != nil && !w.client.cfg.Fresh {
		_, _ = conn.admit()
		f.keep(conn)
	}
	return conn, nil
}

// stamps2 are taken by the library's goroutines, hence atomic.
type stamps2 struct {
	headers atomic.Bool // were handed to the connection
	written atomic.Int64
}

func (st *stamps2) trace(c *clock) *httptrace.ClientTrace {
	st.written.Store(None)
	return &httptrace.ClientTrace{
		WroteHeaders: func() { st.headers.Store(true) },
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			if i.Err == nil {
				st.written.Store(c.now())
			}
		},
	}
}

func (st *stamps2) stamp() int64 { return st.written.Load() }

// unsent tells whether a connection refused a request because it is closed: not a
// byte of it went out.
func (st *stamps2) unsent(err error) bool {
	return err != nil && !st.headers.Load() && closedBefore(err.Error())
}

// send2 sends a request once: what a server refuses is its answer.
func (w *Worker) send2(ctx context.Context, conn *shared, payload []byte, st *stamps2) (*http.Response, error) {
	cfg := &w.client.cfg
	ctx = httptrace.WithClientTrace(ctx, st.trace(&w.client.clock))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, cfg.URL.String(), bytes.NewReader(payload))
	if err != nil {
		conn.Release()
		return nil, err
	}
	req.Header, req.Host = cfg.Header.Clone(), cfg.Header.Get("Host")
	w.s.Sent = w.client.clock.now()
	return conn.RoundTrip(req)
}

func (w *Worker) read2(ctx context.Context, body io.Reader) {
	buf := make([]byte, readBuffer)
	stream, most, over := w.bounds()
	for {
		n, err := body.Read(buf)
		if n > 0 && w.take(buf[:n], w.client.clock.now(), None, stream, most, over) {
			return
		}
		w.guard.move(w.limit())
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			w.s.Ending, w.s.End = EndBody, w.client.clock.now()
			return
		case context.Cause(ctx) == nil && closed2(err):
			w.bodyEnded(io.ErrUnexpectedEOF)
			return
		default:
			w.failed2(ctx, err, EndReset)
			return
		}
	}
}

// settle2 is settle over HTTP/2. The connection is kept whatever the server does:
// a stream that it has not ended is reset.
func (w *Worker) settle2() {
	defer w.closeStream()
	if w.s.Ending != EndMark || w.client.cfg.Fresh {
		return
	}
	w.guard.timer.Stop()
	begun, cancel := w.client.clock.now(), w.stream.cancel
	late := time.AfterFunc(w.patienceForEnd(), func() { cancel(errLimit) })
	err := drain2(w.stream.body)
	w.client.endless.Store(!late.Stop() || err == nil)
	w.settled = w.client.clock.now() - begun
}

// drain2 returns io.EOF at the end of the body, nil where there is too much of it.
func drain2(body io.Reader) error {
	buf := make([]byte, 4<<10)
	for range 64 {
		if _, err := body.Read(buf); err != nil {
			return err
		}
	}
	return nil
}

// closeStream lets go of what a request over HTTP/2 held.
func (w *Worker) closeStream() {
	st, broken := w.stream, w.s.Ending == EndCut || w.s.Ending == EndReset || w.s.Ending == EndBroken
	w.stream = nil
	if st.body != nil {
		_ = st.body.Close()
	}
	w.guard.timer.Stop()
	st.stop()
	st.cancel(nil)
	if st.conn != nil && (w.client.cfg.Fresh || broken && st.conn.Err() != nil) {
		w.client.fleet.forget(st.conn)
	}
}

// errAborted is the cause of a context that Abort ended.
var errAborted = errors.New("given up by the client")

// closed2 tells whether the server closed the connection in order, with or
// without a word before, while an answer was on its way.
func closed2(err error) bool {
	text := err.Error() // the library's errors have no types
	return errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(text, "server sent GOAWAY and closed the connection") && strings.Contains(text, "ErrCode=NO_ERROR")
}

// failed2 sees the limit behind a cancelled context.
func (w *Worker) failed2(ctx context.Context, err error, ending Ending) {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if w.failed(err, ending); w.fault.Class == "reset" {
		w.fault = fault2(w.fault.Message)
	}
}

// fault2 names a fault of HTTP/2 by the library's words for it, and says in our own
// what these leave unsaid.
func fault2(text string) Fault {
	switch {
	case strings.Contains(text, "graceful shutdown GOAWAY"): // what it says of the streams that a GOAWAY leaves out
		return Fault{"goaway", "the server closed the HTTP/2 connection (GOAWAY) before it processed the request"}
	case closedBefore(text):
		return Fault{"eof", "the server closed the HTTP/2 connection before the request was sent"}
	case strings.Contains(text, "looked like an HTTP/1.1 header"):
		return Fault{"protocol", "the server speaks HTTP/1.1 where HTTP/2 was spoken to it without TLS; http2: false asks it in that"}
	case strings.Contains(text, "REFUSED_STREAM"):
		return Fault{"refused_stream", text}
	case strings.Contains(text, "header list larger than"), strings.Contains(text, "response headers exceeded"),
		strings.Contains(text, "PROTOCOL_ERROR") && !strings.Contains(text, "received from peer"): // found by our own side
		return Fault{"protocol", text}
	}
	return Fault{"reset", text}
}

// closedBefore knows the library's words for a connection that takes no request.
func closedBefore(text string) bool {
	return strings.Contains(text, "client conn not usable") || strings.Contains(text, "client conn could not be established")
}

// A guard ends a request when its limit has passed. The limit moves with every
// output, the timer only when it must.
type guard struct {
	clock *clock
	timer *time.Timer

	mu    sync.Mutex
	limit int64 // of the request
	first int64 // of its connection, until there is one; None afterwards
	fires int64 // when the timer does
}

func newGuard(c *clock, limit int64, cancel context.CancelCauseFunc) *guard {
	g := &guard{clock: c, limit: limit, first: None, fires: limit}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer = time.AfterFunc(g.left(limit), func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		next := g.next()
		if d := g.left(next); d > 0 {
			g.fires = next
			g.timer.Reset(d)
			return
		}
		cancel(errLimit)
	})
	return g
}

func (g *guard) left(limit int64) time.Duration { return time.Duration(limit - g.clock.now()) }

// next is the limit that comes next.
func (g *guard) next() int64 {
	if g.first != None {
		return min(g.first, g.limit)
	}
	return g.limit
}

func (g *guard) move(limit int64) { g.set(func() { g.limit = limit }) }

// connecting sets the limit of the connection, connected lifts it.
func (g *guard) connecting(limit int64) { g.set(func() { g.first = limit }) }
func (g *guard) connected()             { g.set(func() { g.first = None }) }

func (g *guard) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
	if next := g.next(); next < g.fires {
		g.fires = next
		g.timer.Reset(g.left(next))
	}
}
