//go:build llamaserver

package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// startLlamaServer starts the real engine with the scripted model and returns its
// root once it serves.
func startLlamaServer(t *testing.T) string {
	t.Helper()
	binary := os.Getenv("ANVIL_LLAMA_SERVER")
	if binary == "" {
		t.Fatal("ANVIL_LLAMA_SERVER names no llama-server")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "-m", "../../../testdata/llama-server/tiny-script.gguf", "-t", "1", "-np", "2", "-c", "2048",
		"--metrics", "--jinja", "--alias", "tiny", "--host", "127.0.0.1", "--port", fmt.Sprint(port))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	root := fmt.Sprintf("http://127.0.0.1:%d", port)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, root+"/health", nil)
		resp, err := oneEach.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		} else {
			<-ctx.Done()
		}
		cancel()
		if err == nil && resp.StatusCode == http.StatusOK {
			return root
		}
	}
	t.Fatal("llama-server did not become ready")
	return ""
}

// oneEach opens a connection for each request: this server announces keep-alive
// and closes behind an answer, at times when the next request is on its way.
var oneEach = &http.Transport{DisableKeepAlives: true}

// ask sends one request and decodes the answer as it comes.
func ask(t *testing.T, p *Protocol, r Request) Answer {
	t.Helper()
	body, err := p.Body(r)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if req.Header, _, err = p.Headers(&stage.Secrets{}, ""); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	resp, err := oneEach.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	d := p.NewDecoder(Want{StoreText: true, MaxTokens: r.MaxTokens, Model: "tiny"})
	w := p.NewWatcher(Limits{})
	d.Head(Head{Status: resp.StatusCode, Header: resp.Header})
	w.Reset(Head{Status: resp.StatusCode, Header: resp.Header})
	outputs := 0
	buf := make([]byte, 4096)
	for {
		n, err := resp.Body.Read(buf)
		now := int64(time.Since(begun))
		d.Read(Read{At: now}, buf[:n])
		s := w.Feed(buf[:n])
		outputs += s.Outputs
		switch {
		case s.End == EndMark:
			return checked(t, d.End(Ending{Kind: EndMark, At: now}), outputs)
		case errors.Is(err, io.EOF):
			return checked(t, d.End(Ending{Kind: EndClean, At: now}), outputs)
		case err != nil:
			t.Fatal(err)
		}
	}
}

func checked(t *testing.T, a Answer, outputs int) Answer {
	t.Helper()
	if outputs != len(a.Arrivals) {
		t.Errorf("the watcher saw %d outputs, the decoder %d", outputs, len(a.Arrivals))
	}
	return a
}

func TestLlamaServerSpeaksEveryAPIThatItHas(t *testing.T) {
	root := startLlamaServer(t)
	zero := 0.0
	question := "hello world, count the green stones in the river"
	for _, tt := range []struct {
		api, path string
		stream    bool
		usage     string
	}{
		{"openai-chat", "/v1", true, "final"},
		{"openai-chat", "/v1", false, "body"},
		{"openai-responses", "/v1", true, "finish"},
		{"openai-responses", "/v1", false, "body"},
		{"anthropic-messages", "/v1", true, "finish"},
		{"anthropic-messages", "/v1", false, "body"},
	} {
		t.Run(fmt.Sprintf("%s stream %v", tt.api, tt.stream), func(t *testing.T) {
			p := at127(t, root+tt.path, tt.api, tt.stream)
			a := ask(t, p, Request{Prompt: question, MaxTokens: 100, Sampling: Sampling{Temperature: &zero}})
			wantOutcome(t, a, record.OutcomeOK)
			wantText(t, a, scripted)
			if a.Usage.Source != tt.usage || a.Usage.Output == nil || *a.Usage.Output != 37 || a.Usage.Input == nil || *a.Usage.Input != 38 {
				t.Errorf("usage: got %s, want 38/37 %s", usageText(a), tt.usage)
			}
			if tt.stream != (len(a.Arrivals) > 0) || tt.stream != a.DoneMarker {
				t.Errorf("%d arrivals, done %v", len(a.Arrivals), a.DoneMarker)
			}
			cut := ask(t, p, Request{Prompt: question, MaxTokens: 6, Sampling: Sampling{Temperature: &zero}})
			if tt.api != "openai-responses" { // which calls it completed
				wantOutcome(t, cut, record.OutcomeTruncated)
			}
			if *cut.Usage.Output != 6 {
				t.Errorf("usage of 6 tokens: got %s", usageText(cut))
			}
		})
	}
	for _, tt := range []struct{ api, path string }{{"openai-completions", "/v1"}, {"llamacpp", ""}} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s stream %v", tt.api, stream), func(t *testing.T) {
				p := at127(t, root+tt.path, tt.api, stream)
				a := ask(t, p, Request{Prompt: "hello the river", MaxTokens: 5, Sampling: Sampling{Temperature: &zero}})
				wantOutcome(t, a, record.OutcomeTruncated)
				if a.Usage.Output == nil || *a.Usage.Output != 5 || a.Content != " stone green moon walks under" {
					t.Errorf("got %q, %s", a.Content, usageText(a))
				}
			})
		}
	}
	p := at127(t, root+"/v1", "openai-chat", true)
	f := p.Probe(t.Context(), http.DefaultTransport, nil)
	wantFact(t, "engine", f.Engine, "llamacpp", f)
	wantFact(t, "model_listed", f.ModelListed, true, f)
	wantFact(t, "context_window", f.ContextWindow, 1024, f)
	wantFact(t, "slots", f.Slots, 2, f)
	if f.Version == nil {
		t.Error("no version")
	}
}

func at127(t *testing.T, base, api string, stream bool) *Protocol {
	t.Helper()
	p := protocolFor(t, api, stream)
	e := p.Endpoint.WithBaseURL(base)
	model := "tiny"
	e.Model, e.Metrics = &model, "auto"
	p, err := Open(e)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
