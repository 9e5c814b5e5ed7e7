//go:build llamaserver

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What the scripted model says to every question (testdata/llama-server).
const (
	scriptedText   = " the river stone green moon walks under old bridge and counts slow boats while seven geese carry quiet letters over blue hills toward winter🙂 harbour lights where no clock has ever told"
	scriptedTokens = 37
)

// startLlamaServer starts the server that .ci/run installed and waits until it
// is ready.
func startLlamaServer(t *testing.T) (baseURL string) {
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
	cmd := exec.Command(program, "-m", "../../testdata/llama-server/tiny-script.gguf", "-t", "1", "-np", "2", "-c", "4096",
		"--metrics", "--jinja", "--host", "127.0.0.1", "--port", fmt.Sprint(port))
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-exited })
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	root := fmt.Sprintf("http://127.0.0.1:%d", port)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, root+"/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return root + "/v1"
			}
		}
		select {
		case <-tick.C:
		case <-exited:
			t.Fatalf("llama-server ended:\n%s", log.String())
		case <-ctx.Done():
			t.Fatalf("llama-server did not become ready:\n%s", log.String())
		}
	}
}

// anvil runs the command line in process and returns what it printed.
func anvil(t *testing.T, want int, args ...string) (stdout string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(args, strings.NewReader(""), &out, &errs); code != want {
		t.Fatalf("anvil %s: exit %d, want %d\nstdout:\n%s\nstderr:\n%s", strings.Join(args, " "), code, want, out.String(), errs.String())
	}
	return out.String()
}

func TestLlamaServerIsMeasuredExactly(t *testing.T) {
	base := startLlamaServer(t)
	ws := t.TempDir()
	anvil(t, exitOK, "--workspace", ws, "plan", "run", "../../testdata/llama-server/plan.yaml", "--set", "base_url="+base)

	lines := strings.Split(strings.TrimSpace(anvil(t, exitOK, "--workspace", ws, "artifact", "cat", "latest", "measure/attempts.jsonl.zst")), "\n")
	if len(lines) != 6 {
		t.Fatalf("attempts have %d lines, want a header, 4 rows and a footer", len(lines))
	}
	for _, l := range lines[1:5] {
		var a struct {
			Item    string `json:"item"`
			Outcome string `json:"outcome"`
			Text    string `json:"text"`
			Usage   struct {
				Output int64  `json:"output"`
				Source string `json:"source"`
			} `json:"usage"`
			FinishReasons []string `json:"finish_reasons"`
			DoneMarker    bool     `json:"done_marker"`
		}
		if err := json.Unmarshal([]byte(l), &a); err != nil {
			t.Fatal(err)
		}
		if a.Outcome != "ok" || a.Text != scriptedText || a.Usage.Output != scriptedTokens || !a.DoneMarker || len(a.FinishReasons) != 1 || a.FinishReasons[0] != "stop" {
			t.Errorf("%s: got %+v, want the scripted answer of %d tokens", a.Item, a, scriptedTokens)
		}
	}
	var record struct {
		EvidenceMode string `json:"evidence_mode"`
		Cells        []struct {
			Accounting struct {
				Verdicts map[string]int `json:"verdicts"`
			} `json:"accounting"`
			Metrics []struct {
				ID    string   `json:"id"`
				Value *float64 `json:"value"`
			} `json:"metrics"`
		} `json:"cells"`
	}
	if err := json.Unmarshal([]byte(anvil(t, exitOK, "--workspace", ws, "artifact", "cat", "latest", "summarize/record.json")), &record); err != nil {
		t.Fatal(err)
	}
	if record.EvidenceMode != "actual_inference" {
		t.Errorf("evidence mode %q of a real engine", record.EvidenceMode)
	}
	if got := record.Cells[0].Accounting.Verdicts["pass"]; got != 4 {
		t.Errorf("%d of 4 answers pass", got)
	}
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

// The plan of the README runs against a real engine as it does against the
// embedded one: whatever the answers are worth, every request is accounted for.
func TestLlamaServerRunsTheShippedPlan(t *testing.T) {
	base := startLlamaServer(t)
	ws := t.TempDir()
	anvil(t, exitOK, "--workspace", ws, "plan", "run", filepath.Join("..", "..", "plans", "quickstart.yaml"), "--set", "base_url="+base, "--set", "model=tiny")
	anvil(t, exitOK, "--workspace", ws, "provenance", "verify", "latest")
}
