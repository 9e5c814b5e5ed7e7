//go:build llamaserver

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"anvil/stages/record"
)

// What the scripted model says to every question (testdata/llama-server).
const (
	scriptedText   = " the river stone green moon walks under old bridge and counts slow boats while seven geese carry quiet letters over blue hills toward winter🙂 harbour lights where no clock has ever told"
	scriptedTokens = 37
)

// A llama is a real llama-server.
type llama struct {
	root   string
	cmd    *exec.Cmd
	exited chan struct{}
	log    *bytes.Buffer // to be read once it has exited
}

// startLlama starts the server that .ci/run installed and waits until it is
// ready. It serves on one thread: more would spin against each other.
func startLlama(t *testing.T, model string, slots int, args ...string) *llama {
	t.Helper()
	program := os.Getenv("ANVIL_LLAMA_SERVER")
	if program == "" {
		t.Fatal("ANVIL_LLAMA_SERVER must name the llama-server that .ci/run installs")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	args = append([]string{
		"-m", "../../testdata/llama-server/" + model, "--alias", "tiny", "-t", "1", "-np", fmt.Sprint(slots), "-c", fmt.Sprint(2048 * slots),
		"--metrics", "--jinja", "--host", "127.0.0.1", "--port", fmt.Sprint(port),
	}, args...)
	s := &llama{root: fmt.Sprintf("http://127.0.0.1:%d", port), cmd: exec.Command(program, args...), exited: make(chan struct{}), log: &bytes.Buffer{}}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.cmd.Wait(); close(s.exited) }()
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); <-s.exited })
	s.until(t, "ready", func() bool {
		_, err := s.get(t.Context(), "/health")
		return err == nil
	})
	return s
}

// base is the base_url of an endpoint of that API.
func (s *llama) base(api string) string {
	if api == "llamacpp" {
		return s.root
	}
	return s.root + "/v1"
}

func (s *llama) get(ctx context.Context, path string) ([]byte, error) {
	return s.do(ctx, http.MethodGet, path, nil)
}

func (s *llama) do(ctx context.Context, method, path string, in io.Reader) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.root+path, in)
	if err != nil {
		return nil, err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", path, resp.StatusCode, body)
	}
	return body, err
}

// until waits for something to become true of the server.
func (s *llama) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(60 * time.Second)
	for !is() {
		select {
		case <-tick.C:
		case <-s.exited:
			t.Fatalf("llama-server ended before it was %s:\n%s", what, s.log)
		case <-deadline:
			t.Fatalf("llama-server is not %s after a minute", what)
		}
	}
}

// counters reads the server's own, by a parser of the test's own.
func (s *llama) counters(t *testing.T) map[string]float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	text, err := s.get(ctx, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for l := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(l), " ")
		if !ok || name == "#" {
			continue
		}
		if out[name], err = strconv.ParseFloat(value, 64); err != nil {
			t.Fatalf("counter %s: %v", name, err)
		}
	}
	return out
}

// anvil runs the command line in process and returns what it printed.
func anvil(t *testing.T, want int, args ...string) (stdout string) {
	t.Helper()
	return begin(args...).end(t, want)
}

// A running is a command line at work.
type running struct {
	args         []string
	code         int
	stdout, errs bytes.Buffer
	done         chan struct{}
}

func begin(args ...string) *running {
	r := &running{args: args, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.code = run(args, strings.NewReader(""), &r.stdout, &r.errs)
	}()
	return r
}

func (r *running) end(t *testing.T, want int) (stdout string) {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("anvil %s: not done after two minutes", strings.Join(r.args, " "))
	}
	if r.code != want {
		t.Fatalf("anvil %s: exit %d, want %d\nstdout:\n%s\nstderr:\n%s", strings.Join(r.args, " "), r.code, want, &r.stdout, &r.errs)
	}
	return r.stdout.String()
}

// document reads a JSON artifact of the newest run.
func document[T any](t *testing.T, ws, name string) (doc T) {
	t.Helper()
	if err := json.Unmarshal([]byte(anvil(t, exitOK, "--workspace", ws, "artifact", "cat", "latest", name)), &doc); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return doc
}

// attempts reads what became of each planned request, and that nothing is missing.
func attempts(t *testing.T, ws, stage string) []record.Attempt {
	t.Helper()
	raw := anvil(t, exitOK, "--workspace", ws, "artifact", "cat", "latest", stage+"/attempts.jsonl.zst")
	r, err := record.NewAttemptsReader(strings.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out []record.Attempt
	for a, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	if f := r.Footer(); f == nil || f.Lines != len(out) || r.Header().Planned == nil || *r.Header().Planned != len(out) {
		t.Errorf("%s: %d attempts, footer %+v, planned %v", stage, len(out), f, r.Header().Planned)
	}
	return out
}

// wantVerified holds the newest run against its own evidence.
func wantVerified(t *testing.T, ws string) {
	t.Helper()
	var verified struct {
		OK    bool `json:"ok"`
		Level int  `json:"level"`
	}
	if err := json.Unmarshal([]byte(anvil(t, exitOK, "--workspace", ws, "--json", "provenance", "verify", "latest")), &verified); err != nil {
		t.Fatal(err)
	}
	if !verified.OK || verified.Level != 3 {
		t.Errorf("verified %+v, want level 3", verified)
	}
}

func TestLlamaServerIsMeasuredExactly(t *testing.T) {
	base := startLlama(t, "tiny-script.gguf", 2).base("openai-chat")
	ws := t.TempDir()
	anvil(t, exitOK, "--workspace", ws, "plan", "run", "../../testdata/llama-server/plan.yaml", "--set", "base_url="+base)

	rows := attempts(t, ws, "measure")
	if len(rows) != 4 {
		t.Fatalf("%d attempts, want 4", len(rows))
	}
	for _, a := range rows {
		wantScripted(t, &a, scriptedText, scriptedTokens)
	}
	type measured struct {
		EvidenceMode string `json:"evidence_mode"`
		Cells        []struct {
			Accounting struct {
				Verdicts map[string]int `json:"verdicts"`
			} `json:"accounting"`
		} `json:"cells"`
	}
	final := document[measured](t, ws, "summarize/record.json")
	if final.EvidenceMode != "actual_inference" {
		t.Errorf("evidence mode %q of a real engine", final.EvidenceMode)
	}
	if got := final.Cells[0].Accounting.Verdicts["pass"]; got != 4 {
		t.Errorf("%d of 4 answers pass", got)
	}
	wantVerified(t, ws)
}

// The plan of the README runs against a real engine as it does against the
// embedded one: whatever the answers are worth, every request is accounted for.
func TestLlamaServerRunsTheShippedPlan(t *testing.T) {
	base := startLlama(t, "tiny-script.gguf", 2).base("openai-chat")
	ws := t.TempDir()
	anvil(t, exitOK, "--workspace", ws, "plan", "run", filepath.Join("..", "..", "plans", "quickstart.yaml"), "--set", "base_url="+base, "--set", "model=tiny")
	wantVerified(t, ws)
}
