package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

// A fleet is the connections of a client that is asked for HTTP/2. Where the
// server speaks it, requests share them, a stream each. Where it speaks HTTP/1.1
// alone each worker has a wire of its own, as a client has that is asked for that.
type fleet struct {
	client    *Client
	transport *http.Transport // speaks HTTP/2 on a connection that it is handed

	mu      sync.Mutex
	conns   []*shared // in the order in which they were opened
	opening *opening  // nil: none
	alone   bool      // the server chose HTTP/1.1 when it was last asked
	dials   sync.WaitGroup
}

func (c *Client) newFleet() *fleet {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true) // TLS, if any, stands already and has agreed on HTTP/2
	return &fleet{client: c, transport: &http.Transport{
		Protocols: &p, DialContext: handed, DisableCompression: true, DisableKeepAlives: c.cfg.Fresh, MaxResponseHeaderBytes: maxHead,
	}}
}

// A shared is a connection of HTTP/2.
type shared struct {
	*http.ClientConn
	wire    *wire
	greeted <-chan struct{} // closed once the server has said what it allows, or with the connection
	used    atomic.Bool     // by a request
}

// open tells whether it is known how many requests the connection may carry.
func (s *shared) open() bool {
	select {
	case <-s.greeted:
		return true
	default:
		return false
	}
}

// admit takes a stream for a request. A connection that has no stream to give and
// carries none is gone: the server has closed it, or is about to.
func (s *shared) admit() (admitted, gone bool) {
	for range 2 { // its last stream may end between two looks
		switch {
		case s.Reserve() == nil:
			return true, false
		case s.Err() != nil:
			return false, true
		case s.InFlight() > 0:
			return false, false
		}
	}
	return false, true
}

// take returns a connection with a stream for a request, nil if there is none. It
// tells whether one was found gone.
func (f *fleet) take() (found *shared, gone bool) {
	found, lost := f.find()
	for _, s := range lost { // not under the lock: to close says goodbye
		f.discard(s)
	}
	return found, len(lost) > 0
}

func (f *fleet) find() (found *shared, lost []*shared) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = slices.DeleteFunc(f.conns, func(s *shared) bool {
		if found != nil || !s.open() {
			return false
		}
		admitted, gone := s.admit()
		if admitted {
			found = s
		}
		if gone {
			lost = append(lost, s)
		}
		return gone
	})
	return found, lost
}

func (f *fleet) discard(s *shared) {
	_ = s.Close()
	f.client.drop(s.wire)
}

// forget takes a connection out of use.
func (f *fleet) forget(s *shared) {
	f.mu.Lock()
	f.conns = slices.DeleteFunc(f.conns, func(other *shared) bool { return other == s })
	f.mu.Unlock()
	f.discard(s)
}

func (f *fleet) keep(s *shared) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = append(f.conns, s)
}

// single tells whether the server chose HTTP/1.1 when it was last asked.
func (f *fleet) single() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.alone
}

// dial opens a connection: one that can be shared, or a wire where the server
// chose HTTP/1.1.
func (f *fleet) dial(ctx context.Context) (*shared, *wire, error) {
	w, err := f.client.dial(ctx, "h2", "http/1.1")
	if err != nil {
		return nil, nil, err
	}
	f.mu.Lock()
	f.alone = !w.http2
	f.mu.Unlock()
	if !w.http2 {
		return nil, w, nil
	}
	s, err := f.share(ctx, w)
	if err != nil {
		f.client.drop(w)
		return nil, nil, &DialError{"connect", err}
	}
	return s, nil, nil
}

// share sends the client's preface and settings.
func (f *fleet) share(ctx context.Context, w *wire) (*shared, error) {
	stop := context.AfterFunc(ctx, func() { _ = w.socket.Close() })
	defer stop()
	w.socket.clock = nil // the library reads also between two phases
	g := &greeter{Conn: w.conn, done: make(chan struct{})}
	// Whatever the scheme of the requests, nothing more is to be laid over this connection.
	conn, err := f.transport.NewClientConn(context.WithValue(ctx, handover{}, g), "http", hostPort(f.client.cfg.URL))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w.buf = nil // the library has buffers of its own
	return &shared{ClientConn: conn, wire: w, greeted: g.done}, err
}

// handover is the key of the connection in the context of its dial.
type handover struct{}

func handed(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, ok := ctx.Value(handover{}).(net.Conn)
	if !ok {
		return nil, errors.New("no connection was handed over")
	}
	return conn, nil
}

// An opening is a connection that is being opened for everybody. The request that
// began it goes first. How many others the connection may carry nobody knows until
// the server's settings are here, so they wait for these.
type opening struct {
	up, over chan struct{} // closed when it stands, and when others may look for a stream
	conn     *shared       // nil: the server chose HTTP/1.1, or err
	err      error
	silent   error // the server's settings did not come
}

// open begins an opening, or joins the one that is under way.
func (f *fleet) open() (o *opening, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.opening != nil {
		return f.opening, false
	}
	o = &opening{up: make(chan struct{}), over: make(chan struct{})}
	f.opening = o
	f.dials.Go(func() { f.run(o) })
	return o, true
}

// wait waits until it is the request's turn, and returns why it never is.
func (o *opening) wait(ctx context.Context, first bool) error {
	turn := o.over
	if first {
		turn = o.up
	}
	select {
	case <-turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if first || o.err != nil {
		return o.err
	}
	return o.silent
}

// run does not depend on the request that began it: others wait as well.
func (f *fleet) run(o *opening) {
	ctx, cancel := f.client.connecting(f.client.ctx)
	defer cancel()
	var w *wire
	if o.conn, w, o.err = f.dial(ctx); w != nil {
		f.client.putIdle(w)
	}
	if o.conn != nil {
		f.keep(o.conn)
	}
	close(o.up)
	if o.conn != nil {
		o.silent = o.conn.greet(ctx)
	}
	f.mu.Lock()
	f.opening = nil
	f.mu.Unlock()
	close(o.over)
}

// greet waits until it is known how many requests the connection may carry.
func (s *shared) greet(ctx context.Context) error {
	select {
	case <-s.greeted:
		return nil
	case <-ctx.Done():
		return &DialError{"connect", fmt.Errorf("no settings of HTTP/2 came: %w", context.Cause(ctx))}
	}
}

// warm opens what n requests at a time need, and returns how many connections stand.
func (f *fleet) warm(ctx context.Context, n int) int {
	if n < 1 {
		return 0
	}
	streams, err := f.add(ctx)
	if err != nil {
		return 0
	}
	fewAtATime((n-1)/streams, func() { _, _ = f.add(ctx) })
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns) + f.client.idling()
}

// add opens a connection for whoever comes, and returns how many requests it
// carries at a time.
func (f *fleet) add(ctx context.Context) (streams int, err error) {
	ctx, cancel := f.client.connecting(ctx)
	defer cancel()
	s, w, err := f.dial(ctx)
	switch {
	case err != nil:
		return 0, err
	case w != nil:
		f.client.putIdle(w)
		return 1, nil
	}
	f.keep(s)
	if err := s.greet(ctx); err != nil {
		f.forget(s)
		return 0, err
	}
	return max(s.Available(), 1), nil
}

// A greeter watches a connection of HTTP/2 for the server's greeting: its first
// frame, which are its settings. They hold once the library acknowledges them or,
// as it reads in one goroutine, at the latest when it comes back for more.
type greeter struct {
	net.Conn
	done chan struct{} // closed when they do, or with the connection
	once sync.Once
	head [frameHead2]byte // of that frame; for the reading goroutine, as is got
	got  int64
}

const frameHead2 = 9 // RFC 9113 4.1: three bytes of length, then type, flags and stream

// settingsAck is the frame of its name.
var settingsAck = []byte{3: 4, 4: 1, 8: 0}

// Read reads, and does nothing else for a connection that has greeted.
func (g *greeter) Read(p []byte) (int, error) {
	if g.got >= frameHead2 && g.got >= frameHead2+(int64(g.head[0])<<16|int64(g.head[1])<<8|int64(g.head[2])) {
		g.over()
	}
	n, err := g.Conn.Read(p)
	if g.got < frameHead2 {
		copy(g.head[g.got:], p[:n])
	}
	g.got += int64(n)
	return n, err
}

// Write writes.
func (g *greeter) Write(p []byte) (int, error) {
	if bytes.HasSuffix(p, settingsAck) {
		g.over()
	}
	return g.Conn.Write(p)
}

func (g *greeter) over() { g.once.Do(func() { close(g.done) }) }

// Close closes the connection.
func (g *greeter) Close() error {
	g.over()
	return g.Conn.Close()
}
