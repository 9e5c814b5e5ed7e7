package load

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// A DialError says at which step of opening a connection it broke.
type DialError struct {
	Step string // dns, connect, proxy or tls
	Err  error
}

// Error is the cause behind the step.
func (e *DialError) Error() string { return e.Step + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *DialError) Unwrap() error { return e.Err }

// A Dialer opens connections to one server.
type Dialer struct {
	Target *url.URL    // scheme and host are used
	Proxy  *url.URL    // nil: none; that of the environment is never used
	TLS    *tls.Config // for https; nil: the system's roots
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Limit  time.Duration // for the whole of it; 0: none
}

// open opens a connection; the server chooses one of the protocols, where there is
// TLS to say so. Without it the first one is spoken.
func (d *Dialer) open(ctx context.Context, c *clock, number int32, protocols []string) (w *wire, err error) {
	if d.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Limit)
		defer cancel()
	}
	first := d.Target
	if d.Proxy != nil {
		first = d.Proxy
	}
	conn, err := d.dial(ctx, hostPort(first))
	if err != nil {
		return nil, dialError(err)
	}
	// A deadline that is set or lifted by the context's end covers what follows.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		stop()
		if err != nil {
			_ = conn.Close()
			if ctx.Err() != nil {
				err = &DialError{stepOf(err), context.Cause(ctx)}
			}
		}
	}()
	s := &socket{Conn: conn, clock: c, at: None, empty: None, drained: None}
	w = &wire{conn: s, socket: s, number: number, http2: protocols[0] == "h2", buf: make([]byte, readBuffer), expires: None}
	if d.Proxy != nil && d.Target.Scheme == "https" {
		if err := d.tunnel(s); err != nil {
			return nil, &DialError{"proxy", err}
		}
	}
	if d.Target.Scheme == "https" {
		if err := d.secure(ctx, w, protocols); err != nil {
			return nil, &DialError{"tls", err}
		}
	}
	if !stop() {
		return nil, &DialError{"connect", context.Cause(ctx)}
	}
	return w, nil
}

func (d *Dialer) dial(ctx context.Context, address string) (net.Conn, error) {
	if d.Dial != nil {
		return d.Dial(ctx, "tcp", address)
	}
	var n net.Dialer // Nagle is off by Go's default
	return n.DialContext(ctx, "tcp", address)
}

func (d *Dialer) secure(ctx context.Context, w *wire, protocols []string) error {
	cfg := d.TLS.Clone()
	if cfg == nil {
		cfg = &tls.Config{}
	}
	if cfg.ServerName == "" {
		cfg.ServerName = d.Target.Hostname()
	}
	cfg.NextProtos = protocols
	t := tls.Client(w.socket, cfg)
	if err := t.HandshakeContext(ctx); err != nil {
		return err
	}
	state := t.ConnectionState()
	w.conn, w.tls, w.http2 = t, tls.VersionName(state.Version), state.NegotiatedProtocol == "h2"
	return nil
}

// tunnel asks a proxy for a connection to the target.
func (d *Dialer) tunnel(conn net.Conn) error {
	req := &http.Request{
		Method: http.MethodConnect, URL: &url.URL{Opaque: hostPort(d.Target)}, Host: hostPort(d.Target), Header: http.Header{},
	}
	if auth := proxyAuth(d.Proxy); auth != "" {
		req.Header.Set("Proxy-Authorization", auth)
	}
	if err := req.Write(conn); err != nil {
		return err
	}
	// Nothing but the answer can have come: TLS begins with our own bytes.
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("CONNECT answered %s", resp.Status)
	}
	return nil
}

func proxyAuth(proxy *url.URL) string {
	if proxy == nil || proxy.User == nil {
		return ""
	}
	pass, _ := proxy.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+pass))
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443"}[u.Scheme]
	}
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func dialError(err error) error {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return &DialError{"dns", err}
	}
	return &DialError{"connect", err}
}

func stepOf(err error) string {
	if d, ok := errors.AsType[*DialError](err); ok {
		return d.Step
	}
	return "connect"
}
