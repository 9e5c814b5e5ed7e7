package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// A Server is an engine behind a listening socket.
type Server struct {
	engine *Engine
	http   *http.Server
	addr   string
	done   chan error
}

// Listen starts an engine on addr, for example "127.0.0.1:0". The address must
// be a loopback one: the engine asks nobody for a key and obeys everybody.
func Listen(cfg Config, addr string) (*Server, error) {
	if err := checkLoopback(addr); err != nil {
		return nil, err
	}
	return listen(cfg, addr)
}

func listen(cfg Config, addr string) (*Server, error) {
	engine, err := New(cfg)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	s := &Server{engine: engine, addr: l.Addr().String(), done: make(chan error, 1)}
	s.http = &http.Server{Handler: engine.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { s.done <- s.http.Serve(l) }()
	return s, nil
}

// checkLoopback refuses an address that other machines could reach.
func checkLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("address %q: %w", addr, err)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("address %q: not a loopback address", addr)
}

// BaseURL returns what a plan's base_url would be: "http://127.0.0.1:PORT/v1".
func (s *Server) BaseURL() string { return "http://" + s.addr + "/v1" }

// Engine returns the engine behind the socket.
func (s *Server) Engine() *Engine { return s.engine }

// Shutdown stops accepting and waits until every request has its answer or
// ctx ends; then it closes what is left.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	return errors.Join(err, s.Close())
}

// Close stops listening, ends every stream and waits for their goroutines.
func (s *Server) Close() error {
	err := errors.Join(s.engine.Close(), s.http.Close())
	if serveErr := <-s.done; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	s.done <- http.ErrServerClosed
	return err
}
