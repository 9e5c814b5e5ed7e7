package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience is how long a script waits for what must happen.
const patience = 30 * time.Second

// A held server answers its first requests and keeps the rest waiting, so that a
// script acts in the middle of a phase: not by the clock, by the count.
type held struct {
	http.Handler
	answer  int64
	asked   atomic.Int64
	waiting chan struct{}
	once    sync.Once
	open    chan struct{}
}

func hold(h http.Handler, answer int64) *held {
	return &held{Handler: h, answer: answer, waiting: make(chan struct{}, 64), open: make(chan struct{})}
}

func (h *held) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && h.asked.Add(1) > h.answer {
		h.waiting <- struct{}{}
		select {
		case <-h.open:
		case <-r.Context().Done():
			return
		}
	}
	h.Handler.ServeHTTP(w, r)
}

func (h *held) release() { h.once.Do(func() { close(h.open) }) }

// held waits until the server keeps a request waiting; release answers it and
// all that come.
func scriptHeld(ts *testscript.TestScript, _ bool, args []string) {
	h := ts.Value(engineKey{}).(*engineServer).held
	if h == nil || len(args) > 0 {
		ts.Fatalf("usage: held, after serve hold N")
	}
	select {
	case <-h.waiting:
	case <-time.After(patience):
		ts.Fatalf("no request was held in %s", patience)
	}
}

func scriptRelease(ts *testscript.TestScript, _ bool, _ []string) {
	if h := ts.Value(engineKey{}).(*engineServer).held; h != nil {
		h.release()
	}
}

type signalledKey struct{}

// signal INT|TERM|KILL goes to the one program in the background.
func scriptSignal(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM, "KILL": os.Kill}
	cmds := ts.BackgroundCmds()
	if len(args) != 1 || signals[args[0]] == nil || len(cmds) != 1 {
		ts.Fatalf("usage: signal INT|TERM|KILL, with one program in the background (%d are)", len(cmds))
	}
	*ts.Value(signalledKey{}).(**exec.Cmd) = cmds[0]
	ts.Check(cmds[0].Process.Signal(signals[args[0]]))
}

// exitcode N is of the program that was signalled and waited for.
func scriptExitCode(ts *testscript.TestScript, neg bool, args []string) {
	cmd := *ts.Value(signalledKey{}).(**exec.Cmd)
	if len(args) != 1 || cmd == nil || cmd.ProcessState == nil {
		ts.Fatalf("usage: exitcode N, after signal and wait")
	}
	if got := fmt.Sprint(cmd.ProcessState.ExitCode()); (got == args[0]) == neg {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}
