package load

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Config is how a client reaches its server.
type Config struct {
	Dialer Dialer
	URL    *url.URL // of every request
	Header http.Header
	Limits Limits
	Fresh  bool // a connection of its own for each request
	HTTP2  bool
}

// A Client sends prepared requests, over HTTP/1.1 unless asked for HTTP/2. It is
// shared by its workers.
type Client struct {
	cfg   Config
	clock clock
	head  []byte // of every request, up to the value of content-length

	endless atomic.Bool // the last body did not end soon after its answer
	leaves  atomic.Bool // the server closed the last connection behind its answer
	stays   atomic.Bool // the server was seen to keep a connection after an answer, and not to close one since
	fleet   *fleet      // nil: HTTP/1.1, in this package's own hands
	numbers atomic.Int32
	tally   tally

	mu      sync.Mutex
	open    map[*wire]struct{}
	idle    []*wire // opened for the first workers that need one
	aborted atomic.Bool
	ctx     context.Context // ends with Abort; for what is not this package's own
	cancel  context.CancelFunc
}

type tally struct {
	opened, reused, replaced atomic.Int64
	tls                      atomic.Pointer[string]
	protocol                 version
}

// NewClient prepares a client; nothing is opened.
func NewClient(cfg Config) *Client {
	c := &Client{cfg: cfg, open: map[*wire]struct{}{}}
	c.cfg.Dialer.Limit = cfg.Limits.Connect
	c.clock.epoch = time.Now()
	c.head = requestHead(cfg)
	c.tally.tls.Store(new(string))
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if cfg.HTTP2 {
		c.fleet = c.newFleet()
	}
	return c
}

// A version is that of HTTP, major and minor; the zero value is none.
type version struct{ atomic.Uint32 }

func versionOf(major, minor int) uint32 { return uint32(major)<<8 | uint32(minor) }

func (v *version) String() string {
	n := v.Load()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("HTTP/%d.%d", n>>8, n&0xff)
}

func requestHead(cfg Config) []byte {
	var b bytes.Buffer
	target := cfg.URL.RequestURI()
	if p := cfg.Dialer.Proxy; p != nil && cfg.URL.Scheme == "http" {
		u := *cfg.URL
		u.User, u.Fragment = nil, ""
		target = u.String()
	}
	b.WriteString("POST " + target + " HTTP/1.1\r\n")
	h := cfg.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	// One line, and the first: the plan's own takes the place of the URL's.
	_ = http.Header{"Host": {cmp.Or(h.Get("Host"), cfg.URL.Host)}}.Write(&b)
	h.Del("Host")
	if cfg.Fresh {
		h.Set("Connection", "close")
	}
	if auth := proxyAuth(cfg.Dialer.Proxy); auth != "" && cfg.URL.Scheme == "http" {
		h.Set("Proxy-Authorization", auth)
	}
	_ = h.Write(&b) // a buffer takes everything
	b.WriteString("Content-Length: ")
	return b.Bytes()
}

// Begin sets the phase's start: every stamp counts from here. No worker may be
// at work.
func (c *Client) Begin() time.Time {
	c.clock.epoch = time.Now()
	return c.clock.epoch
}

// Now is the time since the phase's start.
func (c *Client) Now() int64 { return c.clock.now() }

// Warm opens the connections that n requests at a time need, a few at a time: n,
// or fewer where requests can share one. What cannot be opened is left to the
// requests, whose outcome says why; the number of those that stand is returned.
func (c *Client) Warm(ctx context.Context, n int) int {
	if c.fleet != nil {
		return c.fleet.warm(ctx, n)
	}
	fewAtATime(n, func() {
		if w, err := c.dial(ctx, "http/1.1"); err == nil {
			c.putIdle(w)
		}
	})
	return c.idling()
}

func fewAtATime(n int, do func()) {
	slots := make(chan struct{}, 64)
	var wg sync.WaitGroup
	for range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do()
		})
	}
	wg.Wait()
}

// connecting limits what opens a connection.
func (c *Client) connecting(ctx context.Context) (context.Context, context.CancelFunc) {
	if limit := c.cfg.Limits.Connect; limit > 0 {
		return context.WithTimeout(ctx, limit)
	}
	return context.WithCancel(ctx)
}

// dial opens a connection on which the server may choose one of the protocols.
func (c *Client) dial(ctx context.Context, protocols ...string) (*wire, error) {
	w, err := c.cfg.Dialer.open(ctx, &c.clock, c.numbers.Add(1), protocols)
	if err != nil {
		return nil, err
	}
	c.tally.opened.Add(1)
	c.tally.tls.Store(&w.tls)
	c.mu.Lock()
	c.open[w] = struct{}{}
	c.mu.Unlock()
	if c.aborted.Load() {
		_ = w.conn.Close()
	}
	return w, nil
}

func (c *Client) putIdle(w *wire) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, w)
}

func (c *Client) idling() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.idle)
}

func (c *Client) takeIdle() *wire {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) == 0 {
		return nil
	}
	w := c.idle[len(c.idle)-1]
	c.idle = c.idle[:len(c.idle)-1]
	return w
}

func (c *Client) drop(w *wire) {
	if w == nil {
		return
	}
	c.mu.Lock()
	delete(c.open, w)
	c.mu.Unlock()
	_ = w.conn.Close()
}

// Abort gives up every open request at once: their endings are EndAborted.
func (c *Client) Abort() {
	c.aborted.Store(true)
	c.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.open {
		_ = w.socket.Close()
	}
}

// Aborted is closed with Abort, or Close.
func (c *Client) Aborted() <-chan struct{} { return c.ctx.Done() }

// Close closes every connection. No worker may be at work.
func (c *Client) Close() {
	c.cancel()
	if c.fleet != nil {
		c.fleet.dials.Wait()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.open {
		_ = w.conn.Close()
	}
	clear(c.open)
	c.idle = nil
}

// Connections counts what the client did with connections.
type Connections struct {
	Opened, Reused, Replaced int64
	TLS                      string // version of the connections, "" without TLS
	Protocol                 string // of the last answer, "" without one
}

// Connections returns the counts so far.
func (c *Client) Connections() Connections {
	return Connections{
		Opened: c.tally.opened.Load(), Reused: c.tally.reused.Load(), Replaced: c.tally.replaced.Load(), TLS: *c.tally.tls.Load(),
		Protocol: c.tally.protocol.String(),
	}
}

// requestBytes is the whole request in one piece, in into.
func (c *Client) requestBytes(into, payload []byte) []byte {
	into = append(into[:0], c.head...)
	into = strconv.AppendInt(into, int64(len(payload)), 10)
	into = append(into, "\r\n\r\n"...)
	return append(into, payload...)
}
