package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServerAnswersOnALoopbackSocket(t *testing.T) {
	c := socketClient(t, DefaultConfig())
	if !strings.HasPrefix(c.base, "http://127.0.0.1:") {
		t.Errorf("base URL %s", c.base)
	}
	r := c.mustChat(t, "hello", map[string]any{"max_tokens": 5})
	if r.status != 200 || r.usage.Completion != 5 || !r.done {
		t.Errorf("got %d %s", r.status, r.body)
	}
}

func TestListenRefusesWhatOthersCouldReach(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.org:80", "127.0.0.1", "127.0.0.1:x", ""} {
		if s, err := Listen(DefaultConfig(), addr); err == nil {
			t.Errorf("listening on %q", addr)
			_ = s.Close()
		}
	}
	if s, err := Listen(DefaultConfig(), "localhost:0"); err != nil {
		t.Error(err)
	} else if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Listen(Config{}, "127.0.0.1:0"); err == nil {
		t.Error("an engine without slots is listening")
	}
}

func TestCloseEndsStreamsAndMayComeTwice(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Slots = 2
	cfg.Faults = map[string]float64{"stalled_mid.silent@0": 1, "stalled_first.no_headers@1": 1}
	s, err := Listen(cfg, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := &client{base: strings.TrimSuffix(s.BaseURL(), "/v1"), http: &http.Client{Transport: transport}}
	var wg sync.WaitGroup
	for range 5 { // two that never end, three that wait
		wg.Go(func() {
			if r, err := c.chat(t.Context(), "x", nil); err == nil && r.err == nil {
				t.Error("an answer ended in order")
			}
		})
	}
	for in := 0; in < 5; { // until all are inside
		s.engine.mu.Lock()
		in = len(s.engine.live)
		s.engine.mu.Unlock()
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := c.chat(t.Context(), "x", nil); err == nil {
		t.Error("the socket is still open")
	}
}

func TestShutdownLetsAnswersEnd(t *testing.T) {
	cfg := DefaultConfig()
	cfg.DecodeTokS = 200
	s, err := Listen(cfg, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := &client{base: strings.TrimSuffix(s.BaseURL(), "/v1"), http: &http.Client{Transport: transport}}
	begun := make(chan struct{}, 1)
	s.Engine().Observe(func(sent Sent) {
		if sent.Event == 0 {
			begun <- struct{}{}
		}
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		if r, err := c.chat(t.Context(), "x", map[string]any{"max_tokens": 50, "ignore_eos": true}); err != nil || r.err != nil || !r.done {
			t.Errorf("got %v, %v", r, err)
		}
	})
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

func TestManyClientsThatComeAndGoLeaveNothingBehind(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Slots, cfg.Queue, cfg.DecodeTokS = 4, 16, 1000
	c := socketClient(t, cfg)
	first := make(chan struct{}, 1000)
	c.engine.Observe(func(s Sent) {
		if s.Event == 0 {
			select {
			case first <- struct{}{}:
			default:
			}
		}
	})
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%2 == 0 { // leaves as soon as anybody gets a token
				wg.Go(func() {
					select {
					case <-first:
					case <-ctx.Done():
					}
					cancel()
				})
			}
			_, _ = c.chat(ctx, fmt.Sprint("x ", i), map[string]any{"max_tokens": 40})
		})
	}
	wg.Wait()
	deadline := time.Now().Add(10 * time.Second)
	for {
		c.engine.mu.Lock()
		left := len(c.engine.live)
		c.engine.mu.Unlock()
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d requests are still inside", left)
		}
		c.get(t, "/health")
	}
}

// A client that reads nothing must not keep the engine from closing.
func TestCloseDoesNotWaitForAClientThatDoesNotRead(t *testing.T) {
	cfg := DefaultConfig()
	cfg.DecodeTokS, cfg.TokensPerEvent = 1e9, 4096
	s, err := Listen(cfg, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sent := make(chan struct{}, 1<<16)
	s.Engine().Observe(func(Sent) { sent <- struct{}{} })
	body := `{"prompt":"x","max_tokens":250000,"ignore_eos":true,"stream":true,"logprobs":20}`
	fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: sim\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	<-sent
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, conn); err == nil {
		t.Log("the answer fitted into the buffers of the connection")
	}
}

func TestPacerWakesInOrderAndNeverEarly(t *testing.T) {
	p := newPacer()
	defer func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}()
	start := time.Now()
	var wg sync.WaitGroup
	for _, ms := range []int{9, 3, 30, 3, 0, -5, 14, 21, 1} {
		wg.Go(func() {
			at := start.Add(time.Duration(ms) * time.Millisecond)
			if err := p.wait(t.Context(), at); err != nil {
				t.Error(err)
			}
			if early := time.Until(at); early > 0 {
				t.Errorf("%d ms: woken %v early", ms, early)
			}
		})
	}
	wg.Wait()
}

func TestPacerGivesUpWithItsContext(t *testing.T) {
	p := newPacer()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			if err := p.wait(ctx, time.Now().Add(time.Hour+time.Duration(i))); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
	cancel()
	wg.Wait()
	if err := p.wait(ctx, time.Now().Add(-time.Second)); !errors.Is(err, context.Canceled) {
		t.Errorf("past moment, ended context: %v", err)
	}
	// What waits when the pacer closes is late, but comes.
	wg.Go(func() {
		if err := p.wait(t.Context(), time.Now().Add(20*time.Millisecond)); err != nil {
			t.Error(err)
		}
	})
	if err := p.close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
