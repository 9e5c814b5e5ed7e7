package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"strings"
	"sync"
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
		Protocols: &p, TLSClientConfig: c.cfg.Dialer.TLS.Clone(), DialContext: c.dial2, DisableCompression: true,
		TLSHandshakeTimeout: c.cfg.Limits.Connect, DisableKeepAlives: c.cfg.Fresh, MaxIdleConnsPerHost: math.MaxInt32,
		MaxResponseHeaderBytes: maxHead,
	}
	if c.cfg.Dialer.Proxy != nil {
		t.Proxy = http.ProxyURL(c.cfg.Dialer.Proxy)
	}
	return t
}

// dial2 opens a connection that the library then makes one of HTTP/2. A request
// gives up by its guard; what it had begun to open does not outlive the limit.
func (c *Client) dial2(ctx context.Context, network, address string) (net.Conn, error) {
	if limit := c.cfg.Limits.Connect; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	conn, err := c.cfg.Dialer.dial(ctx, address)
	if err != nil {
		return nil, dialError(err)
	}
	return conn, nil
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
			w.guard.connected()
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
	req.GetBody = nil // the library would send again, unseen, what a server refuses
	req.Header, req.Host = w.client.cfg.Header.Clone(), w.client.cfg.Header.Get("Host")
	w.guard = newGuard(&w.client.clock, w.limit(), cancel)
	if l := w.client.cfg.Limits.Connect; l > 0 {
		w.guard.connecting(w.s.Start + int64(l))
	}
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
	if w.s.Sent == None {
		ending = EndConnect
	}
	if w.failed(err, ending); w.fault.Class == "reset" {
		w.fault.Class = class2(w.fault.Message)
	}
}

// class2 names a fault of HTTP/2 by the library's words for it.
func class2(text string) string {
	switch {
	case strings.Contains(text, "REFUSED_STREAM"):
		return "refused_stream"
	case strings.Contains(text, "header list larger than"), strings.Contains(text, "response headers exceeded"),
		strings.Contains(text, "PROTOCOL_ERROR") && !strings.Contains(text, "received from peer"): // found by our own side
		return "protocol"
	}
	return "reset"
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
