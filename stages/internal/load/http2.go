package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"sync/atomic"
	"time"
)

// newHTTP2 makes the transport that carries requests over HTTP/2. Streams share
// connections there and the library reads them, so stamps are those of the
// moment when bytes came out of it.
func (c *Client) newHTTP2() *http.Transport {
	var p http.Protocols
	p.SetHTTP2(true)
	if c.cfg.URL.Scheme == "http" {
		p.SetHTTP2(false)
		p.SetUnencryptedHTTP2(true)
	} else {
		p.SetHTTP1(true) // what the server does not speak is recorded, not refused
	}
	t := &http.Transport{
		Protocols: &p, TLSClientConfig: c.cfg.Dialer.TLS.Clone(), DialContext: c.cfg.Dialer.Dial, DisableCompression: true,
		TLSHandshakeTimeout: c.cfg.Limits.Connect, DisableKeepAlives: c.cfg.Fresh, MaxIdleConnsPerHost: math.MaxInt32,
	}
	if c.cfg.Dialer.Proxy != nil {
		t.Proxy = http.ProxyURL(c.cfg.Dialer.Proxy)
	}
	return t
}

// stamps2 are taken by the library's goroutines, hence atomic.
type stamps2 struct {
	connected, sent, written atomic.Int64
	reused                   atomic.Bool
}

func (w *Worker) trace(st *stamps2) *httptrace.ClientTrace {
	now, c := w.client.clock.now, w.client
	for _, s := range []*atomic.Int64{&st.connected, &st.sent, &st.written} {
		s.Store(None)
	}
	return &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			st.reused.Store(i.Reused)
			if i.Reused {
				c.tally.reused.Add(1)
			} else {
				c.tally.opened.Add(1)
				st.connected.Store(now())
			}
			st.sent.Store(now())
		},
		TLSHandshakeDone: func(s tls.ConnectionState, err error) {
			if err == nil {
				name := tls.VersionName(s.Version)
				c.tally.tls.Store(&name)
			}
		},
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			if i.Err == nil {
				st.written.Store(now())
			}
		},
	}
}

// exchange2 is exchange over HTTP/2.
func (w *Worker) exchange2(ctx context.Context, payload []byte) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.client.ctx, func() { cancel(errAborted) })()
	var st stamps2
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, w.trace(&st)), http.MethodPost, w.client.cfg.URL.String(), bytes.NewReader(payload))
	if err != nil {
		w.failed(err, EndBroken)
		return
	}
	req.Header = w.client.cfg.Header.Clone()
	w.guard = newGuard(&w.client.clock, w.limit(), cancel)
	defer w.guard.timer.Stop()
	// An answer may be here before the library has said that the request went out.
	defer func() { w.s.Written = st.written.Load() }()
	resp, err := w.client.http2.RoundTrip(req)
	w.s.Connected, w.s.Sent, w.s.Reused = st.connected.Load(), st.sent.Load(), st.reused.Load()
	if err != nil {
		w.failed2(ctx, err, EndBroken)
		return
	}
	defer resp.Body.Close()
	w.s.Headers, w.s.Status = w.client.clock.now(), int32(resp.StatusCode)
	w.client.tally.protocol.Store(&resp.Proto)
	head, err := httputil.DumpResponse(resp, false)
	if err != nil {
		w.failed(err, EndBroken)
		return
	}
	w.keepHead(head)
	w.watch.Reset(head)
	w.read2(ctx, resp.Body)
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
		default:
			w.failed2(ctx, err, EndReset)
			return
		}
	}
}

// errAborted is the cause of a context that Abort ended.
var errAborted = errors.New("given up by the client")

// failed2 sees the limit behind a cancelled context.
func (w *Worker) failed2(ctx context.Context, err error, ending Ending) {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if w.s.Sent == None {
		ending = EndConnect
	}
	w.failed(err, ending)
}

// A guard ends a request when its limit has passed. The limit moves with every
// output, the timer only when it must.
type guard struct {
	clock *clock
	limit atomic.Int64
	timer *time.Timer
	fires int64 // when the timer does; owned by the worker, the timer itself only sets it later
}

func newGuard(c *clock, limit int64, cancel context.CancelCauseFunc) *guard {
	g := &guard{clock: c, fires: limit}
	g.limit.Store(limit)
	left := func() time.Duration { return time.Duration(g.limit.Load() - c.now()) }
	ready := make(chan struct{})
	g.timer = time.AfterFunc(left(), func() {
		<-ready
		if d := left(); d > 0 {
			g.timer.Reset(d)
			return
		}
		cancel(errLimit)
	})
	close(ready)
	return g
}

func (g *guard) move(limit int64) {
	g.limit.Store(limit)
	if limit < g.fires {
		g.fires = limit
		g.timer.Reset(time.Duration(limit - g.clock.now()))
	}
}
