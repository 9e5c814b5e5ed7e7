package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"anvil/pipeline/internal/disk"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

// A process that is to be killed is this test binary, told where by these.
const (
	killDir = "ANVIL_TEST_KILL_DIR"
	killAt  = "ANVIL_TEST_KILL_AT"
)

func TestMain(m *testing.M) {
	if os.Getenv(killDir) != "" {
		m.Run() // TestVictim alone
		return
	}
	goleak.VerifyTestMain(m)
}

// recoverKind is a kind whose stages can be recovered.
type recoverKind struct{ labKind }

func (k recoverKind) New(json.RawMessage) (stage.Stage, error) {
	return capturing{labStage(k.labKind)}, nil
}

func victimPlan(l *lab) labPlan {
	p := l.plan("import make", "scout look", "measure look scout", "grade make import measure", "sum sum scout grade", "prove prove sum")
	l.capturing(p, "measure")
	return p.file("import", "data.txt", "a\nb\n")
}

// TestVictim runs in a process of its own, which kills itself at one of the
// steps of writing.
func TestVictim(t *testing.T) {
	dir := os.Getenv(killDir)
	if dir == "" {
		t.Skip("runs in a process of its own")
	}
	at, err := strconv.ParseInt(os.Getenv(killAt), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	l := newLabIn(t, dir)
	var steps atomic.Int64
	l.reopen(func(disk.Step) error {
		if steps.Add(1) == at {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	})
	l.x.Jobs = 1
	r, err := l.x.Run(context.Background(), victimPlan(l).Plan, Options{})
	if err != nil || r.Exit != 0 {
		t.Fatalf("%v, %+v", err, r)
	}
	fmt.Fprintf(os.Stdout, "steps=%d\n", steps.Load())
}

// victim runs a plan in dir and kills it at the given step; 0 is never. It
// returns the count of steps of a run that came to its end.
func victim(t *testing.T, dir string, at int64) int64 {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVictim$")
	cmd.Env = append(os.Environ(), killDir+"="+dir, killAt+"="+strconv.FormatInt(at, 10))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return 0
	}
	if err != nil {
		t.Fatalf("victim: %v\n%s", err, out)
	}
	_, rest, ok := bytes.Cut(out, []byte("steps="))
	if !ok {
		t.Fatalf("the victim did not count:\n%s", out)
	}
	digits, _, _ := strings.Cut(string(rest), "\n")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestARunThatIsKilledAnywhereResumesToOneThatProves(t *testing.T) {
	points := int64(100)
	if testing.Short() {
		points = 10
	}
	steps := victim(t, quickDir(t), 0)
	if steps < points {
		t.Fatalf("a run has %d steps, too few for %d points", steps, points)
	}
	for i := range points {
		at := 1 + i*steps/points
		dir := quickDir(t)
		if victim(t, dir, at) != 0 {
			t.Fatalf("step %d of %d was not reached", at, steps)
		}
		resumeKilled(t, dir, at)
	}
}

func resumeKilled(t *testing.T, dir string, at int64) {
	t.Helper()
	l := newLabIn(t, dir)
	noResultWithoutItsObjects(t, l, at)
	p := victimPlan(l)
	r, err := l.x.Run(t.Context(), p.Plan, Options{Resume: ResumeNewest})
	if errors.Is(err, ErrNothingUnfinished) {
		// Killed before there was a run, or after its end.
		for _, id := range l.runFolders() {
			if _, err := os.Stat(filepath.Join(dir, prov.RunsFolder, id, prov.ManifestName)); err != nil {
				continue // it has not begun
			}
			for _, problem := range l.problems(&Run{ID: id, Dir: filepath.Join(dir, prov.RunsFolder, id)}) {
				t.Errorf("killed at %d: nothing is unfinished, and %s does not prove: %+v", at, id, problem)
			}
		}
		if r, err = l.x.Run(t.Context(), p.Plan, Options{}); err != nil {
			t.Fatalf("killed at %d: a new run: %v", at, err)
		}
	}
	if err != nil {
		t.Fatalf("killed at %d: resume: %v", at, err)
	}
	if r.Exit != 0 || r.Status != prov.OK {
		t.Errorf("killed at %d: the resumed run is %s, exit %d: %s", at, r.Status, r.Exit, states(r))
	}
	for _, problem := range l.problems(r) {
		t.Errorf("killed at %d: %+v", at, problem)
	}
}

// noResultWithoutItsObjects holds the promise of the order of publishing on
// what a killed process left.
func noResultWithoutItsObjects(t *testing.T, l *lab, at int64) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(l.dir, prov.RunsFolder), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != prov.ResultName {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		res, err := prov.DecodeResult(b)
		if err != nil {
			t.Errorf("killed at %d: %s: %v", at, path, err)
			return nil
		}
		for _, o := range res.Outputs {
			if err := l.x.Store.Check(t.Context(), o.SHA256, o.Size); err != nil {
				t.Errorf("killed at %d: %s names an output that is not there: %v", at, path, err)
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}
