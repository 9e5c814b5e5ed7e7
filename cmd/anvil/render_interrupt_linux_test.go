package main

import (
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"anvil/stages/sim"
)

const interruptedPlan = `schema: anvil.plan/v1
name: shown
params: {base_url: null}
endpoints: {target: {base_url: "${params.base_url}", model: anvil-sim}}
stages:
  - {id: measure, uses: measure, with: {endpoint: target, max_tokens: 8, drain: 50ms, load: {mode: closed, concurrency: 1, requests: 4}, workload: {source: synthetic, context_tokens: 16}}}
`

// The program itself, on a terminal that shows its bars, is told to stop with
// the key: no bar and no half line stays behind, whatever its size becomes.
func TestCtrlCLeavesACleanTerminal(t *testing.T) {
	engine, err := sim.New(sim.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	h := hold(engine.Handler(), 2)
	server := httptest.NewServer(h)
	t.Cleanup(func() { server.CloseClientConnections(); h.release(); server.Close() })

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(interruptedPlan), 0o600); err != nil {
		t.Fatal(err)
	}
	master, tty := openTerminal(t)
	out := readTerminal(master)
	cmd := onTerminal(t, tty, dir, []string{"TERM=xterm"}, "plan", "run", "plan.yaml", "--set", "base_url="+server.URL+"/v1")
	tty.Close()

	select {
	case <-h.waiting:
	case <-time.After(patience):
		t.Fatal("no request was held")
	}
	out.await(t, "2/4 requests")
	// A narrower terminal, in the middle of it.
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 30}); err != nil {
		t.Fatal(err)
	}
	if _, err := master.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Errorf("ended with %v, want exit code %d", err, exitInterrupted)
	}
	lines := screen(t, out.all(t))
	shown := strings.Join(lines, "\n")
	if strings.Contains(shown, "/4 requests") || strings.Contains(shown, "goroutine") {
		t.Errorf("a bar stays behind:\n%s", shown)
	}
	if last := lines[len(lines)-1]; last != "" {
		t.Errorf("the cursor stands behind %q:\n%s", last, shown)
	}
	for _, want := range []string{"  measure      aborted", "run.interrupted", "aborted"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the screen lacks %q:\n%s", want, shown)
		}
	}
}

const quickPlan = `schema: anvil.plan/v1
name: quick
endpoints: {target: {sim: {decode_tok_s: 2000, prefill_tok_s: 100000}}}
stages:
  - {id: measure, uses: measure, with: {endpoint: target, max_tokens: 8, load: {mode: closed, concurrency: 1, requests: 2}, workload: {source: synthetic, context_tokens: 16}}}
`

// On a terminal where nothing may move, or with a user who asked for that, the
// program writes plain lines; with --quiet none about progress.
func TestNothingMovesWhereNothingMay(t *testing.T) {
	for name, c := range map[string]struct {
		env, args []string
		lines     bool
	}{
		"dumb":     {[]string{"TERM=dumb"}, nil, true},
		"no TERM":  {[]string{"TERM="}, nil, true},
		"NO_COLOR": {[]string{"TERM=xterm", "NO_COLOR=1"}, nil, true},
		"CI":       {[]string{"TERM=xterm", "CI=true"}, nil, true},
		"quiet":    {[]string{"TERM=xterm"}, []string{"--quiet"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(quickPlan), 0o600); err != nil {
				t.Fatal(err)
			}
			master, tty := openTerminal(t)
			out := readTerminal(master)
			cmd := onTerminal(t, tty, dir, c.env, append([]string{"plan", "run", "plan.yaml"}, c.args...)...)
			tty.Close()
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %s", err, out.all(t))
			}
			text := out.all(t)
			if strings.Contains(text, "\x1b") {
				t.Errorf("something moved: %q", text)
			}
			if strings.Contains(text, "  measure      started") != c.lines || !strings.Contains(text, "Limitations") {
				t.Errorf("progress is told: %v, want %v: %s", !c.lines, c.lines, text)
			}
		})
	}
}

// onTerminal starts this binary as anvil, the terminal being its own.
func onTerminal(t *testing.T, tty *os.File, dir string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Args = append([]string{"anvil"}, args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, tty, tty, tty
	cmd.Env = append(append(os.Environ(), "CI=", "NO_COLOR=", "XDG_RUNTIME_DIR="+dir), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// A terminalReader keeps what a program writes on its terminal.
type terminalReader struct {
	mu    sync.Mutex
	text  strings.Builder
	more  chan struct{}
	ended chan struct{}
}

func readTerminal(master *os.File) *terminalReader {
	r := &terminalReader{more: make(chan struct{}, 1), ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		for buf := make([]byte, 4096); ; {
			n, err := master.Read(buf)
			r.mu.Lock()
			r.text.Write(buf[:n])
			r.mu.Unlock()
			if err != nil {
				return // no program holds the other side any more
			}
			select {
			case r.more <- struct{}{}:
			default:
			}
		}
	}()
	return r
}

func (r *terminalReader) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// await waits until the program has written want.
func (r *terminalReader) await(t *testing.T, want string) {
	t.Helper()
	for late := time.After(patience); !strings.Contains(r.String(), want); {
		select {
		case <-r.more:
		case <-r.ended:
			t.Fatalf("the program ended without %q: %q", want, r.String())
		case <-late:
			t.Fatalf("%q did not appear: %q", want, r.String())
		}
	}
}

// all waits for the end.
func (r *terminalReader) all(t *testing.T) string {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		t.Fatalf("the terminal is still open: %q", r.String())
	}
	return r.String()
}
