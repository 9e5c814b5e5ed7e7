package main

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"anvil/pipeline/event"
	"anvil/stages/sim"
)

const heldPlan = `schema: anvil.plan/v1
name: kept
params: {base_url: null}
endpoints: {target: {base_url: "${params.base_url}", model: anvil-sim}}
stages:
  - {id: measure, uses: measure, with: {endpoint: target, max_tokens: 8, drain: 1h, load: {mode: closed, concurrency: 1, requests: 2}, workload: {source: synthetic, context_tokens: 16}}}
`

// startHeld starts a plan run whose first request is kept waiting, and returns
// when it is.
func startHeld(t *testing.T, stdout, stderr *os.File, args ...string) (*exec.Cmd, *held, string) {
	t.Helper()
	engine, err := sim.New(sim.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	h := hold(engine.Handler(), 0)
	server := httptest.NewServer(h)
	t.Cleanup(func() { server.CloseClientConnections(); h.release(); server.Close() })
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(heldPlan), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Args = append([]string{"anvil", "plan", "run", "plan.yaml", "--set", "base_url=" + server.URL + "/v1"}, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, stdout, stderr
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-h.waiting:
	case <-time.After(patience):
		t.Fatal("no request was held")
	}
	return cmd, h, dir
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// Like `anvil plan run PLAN 2>&1 | head -3`: the reader has seen enough, the
// measurement goes on.
func TestAReaderThatLeavesEndsNoRun(t *testing.T) {
	for _, args := range [][]string{nil, {"--json"}} {
		r, w := pipe(t)
		cmd, h, dir := startHeld(t, w, w, args...)
		w.Close()
		r.Close()
		h.release()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%q: ended with %v", args, err)
		}
		var out bytes.Buffer
		if code := run([]string{"--workspace", dir, "run", "list"}, nil, &out, io.Discard); code != exitOK || !strings.Contains(out.String(), "  ok  ") {
			t.Errorf("%q: exit code %d, runs: %s", args, code, out.String())
		}
	}
}

// The engine holds its answer for as long as it likes: the first interrupt is
// acknowledged while the drain goes on, the second ends it.
func TestTheFirstInterruptIsAcknowledgedAtOnce(t *testing.T) {
	for name, args := range map[string][]string{"lines": nil, "quiet": {"--quiet"}, "json": {"--json"}} {
		t.Run(name, func(t *testing.T) {
			r, w := pipe(t)
			cmd, _, _ := startHeld(t, w, w, args...)
			w.Close()
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			for buf := make([]byte, 4096); !strings.Contains(said.String(), interruptedText+lineEnd(name)); {
				n, err := r.Read(buf)
				said.Write(buf[:n])
				if err != nil {
					t.Fatalf("%v after %q", err, said.String())
				}
			}
			if name == "json" && !strings.Contains(said.String(), `"event":"run.warning"`) {
				t.Errorf("no event: %s", said.String())
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, r)
			err := cmd.Wait()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
				t.Errorf("ended with %v, want exit code %d", err, exitInterrupted)
			}
		})
	}
}

func lineEnd(renderer string) string {
	if renderer == "json" {
		return `"`
	}
	return "\n"
}

// kept is a sink that keeps what it is told.
type kept []event.Event

func (k *kept) Emit(e event.Event) { *k = append(*k, e) }

func TestBarsAcknowledgeAnInterrupt(t *testing.T) {
	var told kept
	s := &acknowledger{next: &told}
	s.Emit(event.Event{Event: event.RunStarted, Run: "r"})
	s.interrupted()
	if out := bars(t, 80, told...); !strings.Contains(out, interruptedText) {
		t.Errorf("not acknowledged: %q", out)
	}
}

// The last event is run.finished, whenever the key is pressed.
func TestNothingFollowsTheEndOfARun(t *testing.T) {
	var out bytes.Buffer
	s := &acknowledger{next: newJSONLines(&out)}
	s.Emit(event.Event{Event: event.RunFinished, Run: "r", Status: "ok", Finished: &event.Finished{}})
	s.interrupted()
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines: %s", n, out.String())
	}
}
