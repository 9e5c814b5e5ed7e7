package sim

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// A pipeListener joins a client to a server without a socket, so that both can
// live in a synctest bubble.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A client speaks to one engine.
type client struct {
	engine *Engine
	base   string
	http   *http.Client
}

// pipeClient starts an engine behind a pipe, for tests in a synctest bubble.
func pipeClient(t *testing.T, cfg Config) *client {
	t.Helper()
	engine, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := newPipeListener()
	server := &http.Server{Handler: engine.Handler()}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(l) })
	transport := &http.Transport{DialContext: l.dial}
	t.Cleanup(func() {
		_ = engine.Close()
		_ = server.Close()
		wg.Wait()
		transport.CloseIdleConnections()
	})
	return &client{engine: engine, base: "http://sim", http: &http.Client{Transport: transport, CheckRedirect: noRedirect}}
}

// socketClient starts an engine behind a real socket.
func socketClient(t *testing.T, cfg Config) *client {
	t.Helper()
	server, err := Listen(cfg, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return &client{
		engine: server.Engine(), base: strings.TrimSuffix(server.BaseURL(), "/v1"),
		http: &http.Client{Transport: transport, CheckRedirect: noRedirect, Timeout: 20 * time.Second},
	}
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// A reply is what came of one request.
type reply struct {
	status    int
	header    http.Header
	body      string
	events    []string // payloads of "data:" lines
	arrivals  []time.Time
	chunks    []chunkJSON // of the payloads that are JSON
	content   string
	reasoning string
	finish    string
	usage     *usageJSON
	done      bool
	err       error // of reading the body
	began     time.Time
	ended     time.Time
}

type chunkJSON struct {
	ID          string `json:"id"`
	Model       string `json:"model"`
	Fingerprint string `json:"system_fingerprint"`
	Choices     []struct {
		Delta, Message struct {
			Role      string `json:"role"`
			Content   string `json:"content"`
			Reasoning string `json:"reasoning_content"`
		}
		Text     string          `json:"text"`
		Finish   *string         `json:"finish_reason"`
		Logprobs json.RawMessage `json:"logprobs"`
		TokenIDs []int           `json:"token_ids"`
	} `json:"choices"`
	Usage *usageJSON      `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type usageJSON struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    *struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails *struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// chat asks for a streamed answer to one message, with usage; extra members
// are laid over the request.
func (c *client) chat(ctx context.Context, text string, extra map[string]any) (*reply, error) {
	body := map[string]any{
		"messages": []any{map[string]any{"role": "user", "content": text}},
		"stream":   true, "stream_options": map[string]any{"include_usage": true},
	}
	maps.Copy(body, extra)
	return c.post(ctx, "/v1/chat/completions", body)
}

func (c *client) post(ctx context.Context, path string, body any) (*reply, error) {
	src, ok := body.(string)
	if !ok {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		src = string(b)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, strings.NewReader(src))
	if err != nil {
		return nil, err
	}
	r := &reply{began: time.Now()}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	r.status, r.header = resp.StatusCode, resp.Header
	r.read(resp)
	r.ended = time.Now()
	return r, nil
}

func (r *reply) read(resp *http.Response) {
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		b, err := io.ReadAll(resp.Body)
		r.body, r.err = string(b), err
		r.add(r.body)
		return
	}
	in := bufio.NewReader(resp.Body)
	for {
		line, err := in.ReadString('\n')
		r.body += line
		if err != nil {
			if !errors.Is(err, io.EOF) {
				r.err = err
			}
			return
		}
		if data, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "data: "); ok {
			r.events = append(r.events, data)
			r.arrivals = append(r.arrivals, time.Now())
			r.done = r.done || data == "[DONE]"
			r.add(data)
		}
	}
}

func (r *reply) add(data string) {
	var c chunkJSON
	if json.Unmarshal([]byte(data), &c) != nil {
		return
	}
	r.chunks = append(r.chunks, c)
	if c.Usage != nil {
		r.usage = c.Usage
	}
	for _, choice := range c.Choices {
		r.content += choice.Delta.Content + choice.Message.Content + choice.Text
		r.reasoning += choice.Delta.Reasoning + choice.Message.Reasoning
		if choice.Finish != nil {
			r.finish = *choice.Finish
		}
	}
}

func (c *client) mustChat(t *testing.T, text string, extra map[string]any) *reply {
	t.Helper()
	r, err := c.chat(t.Context(), text, extra)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (c *client) mustPost(t *testing.T, path string, body any) *reply {
	t.Helper()
	r, err := c.post(t.Context(), path, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (c *client) get(t *testing.T, path string) (status int, header http.Header, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}
