package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"anvil/pipeline/stage"
)

// rivalRun names the run that a rival goes on with.
const rivalRun = "ANVIL_TEST_RIVAL_RUN"

func rivalPlan(l *lab, round string) labPlan {
	p := l.plan("a make", "b make a")
	p.Salt = round
	p.seal()
	return p
}

// TestRival runs in a process of its own: it waits for the end of its input,
// goes on with a run and leaves a line for every stage that it executes.
func TestRival(t *testing.T) {
	dir, run := os.Getenv(killDir), os.Getenv(rivalRun)
	if run == "" {
		t.Skip("runs in a process of its own")
	}
	l := newLabIn(t, dir)
	for _, id := range []string{"a", "b"} {
		l.do[id] = func(_ context.Context, env stage.Env, _ stage.Inputs, out *stage.Outputs) error {
			f, err := os.OpenFile(filepath.Join(dir, "executed"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(f, run, env.Stage); err != nil {
				return err
			}
			return errors.Join(f.Close(), out.JSON("made.json", map[string]any{}))
		}
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		t.Fatal(err)
	}
	_, err := l.x.Run(context.Background(), rivalPlan(l, os.Getenv(killAt)).Plan, Options{Resume: run})
	held := (*BusyError)(nil)
	switch {
	case errors.As(err, &held):
		fmt.Fprintln(os.Stdout, "rival=busy")
	case errors.Is(err, ErrNothingUnfinished):
		fmt.Fprintln(os.Stdout, "rival=late")
	case err != nil:
		t.Fatal(err)
	default:
		fmt.Fprintln(os.Stdout, "rival=done")
	}
}

// Two hundred processes, in pairs that are let go at once.
func TestOfTwoProcessesThatResumeOneRunOneExecutesEachStage(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 5
	}
	dir := quickDir(t)
	l := newLabIn(t, dir)
	ends := map[string]int{}
	var want strings.Builder
	for i := range rounds {
		round := fmt.Sprint(i)
		l.do["a"] = fails
		run := l.run(rivalPlan(l, round), Options{}).ID
		for _, end := range rivals(t, dir, run, round) {
			ends[end]++
		}
		fmt.Fprintf(&want, "%[1]s a\n%[1]s b\n", run)
	}
	got, err := os.ReadFile(filepath.Join(dir, "executed"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String() {
		t.Errorf("executed was\n%s, want each stage of each run once", got)
	}
	if ends["done"] != rounds || ends["busy"]+ends["late"] != rounds {
		t.Errorf("of %d pairs: %v", rounds, ends)
	}
	t.Logf("of %d pairs: %v", rounds, ends)
}

// rivals lets two processes go at once and says how each ended.
func rivals(t *testing.T, dir, run, round string) (ends []string) {
	t.Helper()
	var cmds []*exec.Cmd
	var outs []*strings.Builder
	var gates []io.Closer
	for range 2 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRival$")
		cmd.Env = append(os.Environ(), killDir+"="+dir, killAt+"="+round, rivalRun+"="+run)
		out := &strings.Builder{}
		cmd.Stdout, cmd.Stderr = out, out
		gate, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds, outs, gates = append(cmds, cmd), append(outs, out), append(gates, gate)
	}
	for _, gate := range gates {
		if err := gate.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, outs[i])
		}
		_, rest, _ := strings.Cut(outs[i].String(), "rival=")
		end, _, _ := strings.Cut(rest, "\n")
		ends = append(ends, end)
	}
	return ends
}
