package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// A Server is an engine behind a listening socket.
type Server struct {
	engine *Engine
	http   *http.Server
	addr   string
	serve  sync.WaitGroup
	err    error // of Serve, once serve is done
	close  sync.Once
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
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("simulated engine: %w", err)
	}
	pacer := newPacer()
	engine, err := newEngine(cfg, pacer)
	if err != nil {
		return nil, errors.Join(err, l.Close(), pacer.close())
	}
	s := &Server{engine: engine, addr: l.Addr().String()}
	s.http = &http.Server{Handler: engine.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	s.serve.Go(func() { s.err = s.http.Serve(l) })
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
	return fmt.Errorf("address %q: the simulated engine asks nobody for a key and listens on loopback addresses only, for example 127.0.0.1:0", addr)
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

// Close stops listening, ends every answer at once and waits for the
// goroutines that gave them. It may be called again.
func (s *Server) Close() (err error) {
	s.close.Do(func() {
		err = errors.Join(s.engine.Close(), s.http.Close())
		s.serve.Wait()
		s.engine.handlers.Wait()
		err = errors.Join(err, s.engine.pacer.close())
		if !errors.Is(s.err, http.ErrServerClosed) {
			err = errors.Join(err, s.err)
		}
	})
	return err
}
