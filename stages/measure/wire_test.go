package measure

import (
	"bufio"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"anvil/stages/record"
)

func answerOK(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, s := range []string{delta("a"), delta("b"), finish("stop"), done} {
		_, _ = io.WriteString(w, s)
		w.(http.Flusher).Flush()
	}
}

func TestTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(answerOK))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = nil
	ca := filepath.Join(t.TempDir(), "ca.pem")
	raw := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		tls   map[string]any
		want  record.Outcome
		class string
	}{
		"unknown authority": {map[string]any{"ca_file": nil, "server_name": nil, "insecure": false}, record.OutcomeTransport, "tls"},
		"its own authority": {map[string]any{"ca_file": ca, "server_name": "example.com", "insecure": false}, record.OutcomeOK, ""},
		"another name":      {map[string]any{"ca_file": ca, "server_name": "elsewhere.invalid", "insecure": false}, record.OutcomeTransport, "tls"},
		"insecure":          {map[string]any{"ca_file": nil, "server_name": nil, "insecure": true}, record.OutcomeOK, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, map[string]any{"base_url": server.URL + "/v1", "sim": nil, "tls": tc.tls}, map[string]any{"load": closed(1, 3)})
			p, err := b.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range p.attempts {
				if a.Outcome != tc.want || tc.class != "" && (a.Error == nil || a.Error.Class != tc.class) {
					t.Errorf("outcome %s error %+v", a.Outcome, a.Error)
				}
			}
			if _, ok := p.Limits["tls.unverified"]; ok != (tc.tls["insecure"] == true) {
				t.Errorf("limitations %v", p.Limits)
			}
			c := p.measurement.Connections
			if tc.want == record.OutcomeOK && (c.TLS == nil || !strings.HasPrefix(*c.TLS, "TLS 1.") || c.Opened != 1 || c.Reused != 2 || c.Replaced != 0) {
				t.Errorf("connections %+v", c)
			}
		})
	}
}

// proxy forwards absolute requests and opens tunnels, and counts both.
func proxy(t *testing.T) (url string, forwarded, tunnels *atomic.Int64) {
	t.Helper()
	forwarded, tunnels = new(atomic.Int64), new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "Basic dTpw" {
			http.Error(w, "who are you", http.StatusProxyAuthRequired)
			return
		}
		if r.Method == http.MethodConnect {
			tunnels.Add(1)
			tunnel(w, r.Host)
			return
		}
		forwarded.Add(1)
		out := r.Clone(r.Context())
		out.RequestURI = ""
		resp, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}))
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "http://", "http://u:p@", 1), forwarded, tunnels
}

func tunnel(w http.ResponseWriter, host string) {
	there, err := net.Dial("tcp", host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	here, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(there, here); _ = there.Close() })
	both.Go(func() { _, _ = io.Copy(here, there); _ = here.Close() })
	both.Wait()
}

func TestDeclaredProxy(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(answerOK))
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(http.HandlerFunc(answerOK))
	t.Cleanup(secure.Close)
	for _, url := range []string{plain.URL, secure.URL} {
		through, forwarded, tunnels := proxy(t)
		b := newBench(t, map[string]any{
			"base_url": url + "/v1", "sim": nil, "proxy": through, "metrics": "off", "engine": "none",
			"tls": map[string]any{"ca_file": nil, "server_name": nil, "insecure": true},
		}, map[string]any{"load": closed(1, 3)})
		p, err := b.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := p.measurement.Accounting.Outcomes[record.OutcomeOK]; n != 3 {
			t.Errorf("%s: outcomes %v, %+v", url, p.measurement.Accounting.Outcomes, p.attempts[0].Error)
		}
		if f, c := forwarded.Load(), tunnels.Load(); f+c != map[bool]int64{true: 3, false: 1}[url == plain.URL] {
			t.Errorf("%s: %d forwarded, %d tunnels", url, f, c)
		}
		if _, ok := p.Limits["proxy.used"]; !ok {
			t.Errorf("limitations %v", p.Limits)
		}
	}
}

// A proxy of the environment must not come between (style of every other
// client): anvil asks the server itself.
func TestProxiesOfTheEnvironmentAreNotUsed(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	t.Setenv("ALL_PROXY", "http://127.0.0.1:1")
	server := httptest.NewServer(http.HandlerFunc(answerOK))
	t.Cleanup(server.Close)
	p, err := newBench(t, map[string]any{"base_url": server.URL + "/v1", "sim": nil}, map[string]any{"load": closed(1, 1)}).run(t.Context())
	if err != nil || p.attempts[0].Outcome != record.OutcomeOK {
		t.Errorf("outcome %s, error %v", p.attempts[0].Outcome, err)
	}
}

// A client's own pool of 100 connections makes the 101st answer look slow
// (gpustack 2324, vllm 14513): here everybody is connected at once.
func TestAllWorkersAreConnectedAtOnce(t *testing.T) {
	for _, n := range []int{100, 101, 300} {
		var all sync.WaitGroup
		all.Add(n)
		h := serveRaw(t, func(c net.Conn, _ int) {
			all.Done()
			all.Wait() // no answer before all requests are here
			_, _ = io.WriteString(c, sse+chunks(delta("a"), finish("stop"), done)+last)
		})
		b := newBench(t, map[string]any{"base_url": h.url, "sim": nil}, map[string]any{
			"load": closed(n, n), "workload": map[string]any{"source": "synthetic", "context_tokens": 8}, "limits": map[string]any{"first_output": "20s"},
		})
		p, err := b.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ok := p.measurement.Accounting.Outcomes[record.OutcomeOK]; ok != n || h.accepted.Load() < int64(n) {
			t.Errorf("%d workers: %d ok on %d connections", n, ok, h.accepted.Load())
		}
		if text, ok := p.Limits["load.concurrency-not-reached"]; ok {
			t.Errorf("%d workers: %s", n, text)
		}
	}
}

// What a request looks like on the wire.
func TestRequestOnTheWire(t *testing.T) {
	got := make(chan string, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		var head strings.Builder
		length := 0
		for {
			line, err := in.ReadString('\n')
			if err != nil || line == "\r\n" {
				break
			}
			head.WriteString(line)
			_, _ = fmt.Sscanf(line, "Content-Length: %d", &length)
		}
		_, _ = io.CopyN(&head, in, int64(length))
		got <- head.String()
		_, _ = io.WriteString(conn, sse+chunks(delta("a"), finish("stop"), done)+last)
	}()
	b := newBench(t, map[string]any{
		"base_url": "http://" + l.Addr().String() + "/v1", "sim": nil, "metrics": "off", "engine": "none", "headers": map[string]any{"X-Team": "a"},
		"extra_body": map[string]any{"top_k": 1},
	}, map[string]any{"load": closed(1, 1), "max_tokens": 7, "sampling": map[string]any{"temperature": nil, "top_p": 0.5}})
	if _, err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	wire := <-got
	for _, want := range []string{
		"POST /v1/chat/completions HTTP/1.1\r\nHost: " + l.Addr().String() + "\r\n", "Content-Type: application/json\r\n", "X-Team: a\r\n",
		"Accept-Encoding: identity\r\n", `"max_tokens":7`, `"top_k":1`, `"top_p":0.5`, `"stream":true`,
	} {
		if !strings.Contains(wire, want) {
			t.Errorf("the request lacks %q:\n%s", want, wire)
		}
	}
	if strings.Contains(wire, "temperature") {
		t.Errorf("a temperature is sent although the plan says null:\n%s", wire)
	}
}

func TestTemperature(t *testing.T) {
	two := 2.0
	cases := map[string]struct {
		sampling        map[string]any
		sent, requested *float64
	}{
		"left out": {map[string]any{}, new(float64), nil},
		"null":     {map[string]any{"temperature": nil}, nil, nil},
		"zero":     {map[string]any{"temperature": 0}, new(float64), new(float64)},
		"two":      {map[string]any{"temperature": 2}, &two, &two},
	}
	for name, tc := range cases {
		b := newBench(t, nil, map[string]any{"load": closed(1, 1), "sampling": tc.sampling})
		raw, problems := b.Resolve()
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		s, err := Kind.New(raw)
		if err != nil {
			t.Fatal(err)
		}
		got := s.(measure).Sampling
		same := func(a, b *float64) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
		if !same(got.Temperature, tc.sent) || !same(got.TemperatureRequested, tc.requested) {
			t.Errorf("%s: sent %v requested %v", name, got.Temperature, got.TemperatureRequested)
		}
	}
}
