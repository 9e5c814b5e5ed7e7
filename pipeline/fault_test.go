package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
)

// countSteps runs the plan once and returns how many steps of writing it took.
func countSteps(t *testing.T) int64 {
	t.Helper()
	l := newLab(t)
	var steps atomic.Int64
	l.reopen(func(disk.Step) error { steps.Add(1); return nil })
	l.x.Jobs = 1
	l.run(victimPlan(l), Options{})
	return steps.Load()
}

func TestAfterAnyFailedWriteARunIsFinishedBySimplyResuming(t *testing.T) {
	points := int64(40)
	if testing.Short() {
		points = 5
	}
	steps := countSteps(t)
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
		for i := range points {
			at := 1 + i*steps/points
			t.Run(fmt.Sprintf("%s at %d", errno, at), func(t *testing.T) { failAndResume(t, errno, at) })
		}
	}
}

// failAndResume lets every step of writing from the given one on fail, as a
// full disk does, and then mends the disk.
func failAndResume(t *testing.T, errno syscall.Errno, at int64) {
	t.Helper()
	l := newLab(t)
	var steps atomic.Int64
	var mended atomic.Bool
	hook := func(s disk.Step) error {
		if steps.Add(1) >= at && !mended.Load() && s.Op != disk.Remove {
			return errno
		}
		return nil
	}
	l.reopen(hook)
	l.x.Jobs = 1
	p := victimPlan(l)
	r, err := l.x.Run(t.Context(), p.Plan, Options{})
	if err == nil {
		t.Fatalf("the run did not say that it could not write: %s", states(r))
	}
	// An input/output error says nothing that the user could mend.
	if want := map[syscall.Errno]int{syscall.ENOSPC: 4, syscall.EIO: 1}[errno]; r != nil && r.Exit != 4 && r.Exit != want {
		t.Errorf("exit %d, want 4: %v", r.Exit, err)
	}
	mended.Store(true)
	l.reopen(nil)
	if err := l.x.Store.CheckAll(t.Context(), func(d digest.Digest, err error) {
		if err != nil {
			t.Errorf("a partial object: %v", err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	resumeKilled(t, l.dir, at)
}

func TestAWorkspaceThatVanishesIsToldAndTheNextRunIsWhole(t *testing.T) {
	l := newLab(t)
	l.do["measure"] = func(ctx context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		if err := os.RemoveAll(l.dir); err != nil {
			return err
		}
		return out.JSON("seen.json", map[string]any{})
	}
	p := l.plan("measure look", "grade make measure")
	_, err := l.x.Run(t.Context(), p.Plan, Options{})
	if _, ok := errors.AsType[*store.GoneError](err); !ok {
		t.Errorf("got %v, want a *GoneError", err)
	}
	if err := os.MkdirAll(l.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	l.do["measure"] = nil
	l.reopen(nil)
	if _, err := l.x.Run(t.Context(), p.Plan, Options{Resume: ResumeNewest}); !errors.Is(err, ErrNothingUnfinished) {
		t.Errorf("got %v, want ErrNothingUnfinished", err)
	}
	l.verify(l.run(p, Options{}))
}

// TestCramped runs in a process of its own whose files cannot grow.
func TestCramped(t *testing.T) {
	dir := os.Getenv(killDir)
	if dir == "" || os.Getenv(killAt) != "cramped" {
		t.Skip("runs in a process of its own")
	}
	l := newLabIn(t, dir)
	l.do["measure"] = bigObservation
	r, err := l.x.Run(context.Background(), l.plan("measure look", "grade make measure").Plan, Options{})
	fmt.Fprintf(os.Stdout, "exit=%d code=%s err=%v\n", r.Exit, r.stage("measure").Error.Code, err)
}

func bigObservation(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
	return out.JSON("seen.json", map[string]any{"text": strings.Repeat("x", 200<<10)})
}

func TestTheLimitOnAFilesSizeIsAFullDisk(t *testing.T) {
	dir := quickDir(t)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `ulimit -f 128 && exec "$0" -test.run='^TestCramped$'`, os.Args[0])
	cmd.Env = append(os.Environ(), killDir+"="+dir, killAt+"=cramped")
	cramped(t, cmd, dir)
}

func TestASmallFileSystemIsAFullDisk(t *testing.T) {
	dir := t.TempDir()
	script := `mount -t tmpfs -o size=160k none "$1" && "$0" -test.run='^TestCramped$' && find "$1" -type f | sed 's/^/file=/'`
	cmd := exec.CommandContext(t.Context(), "unshare", "-rm", "sh", "-c", script, os.Args[0], dir)
	cmd.Env = append(os.Environ(), killDir+"="+dir, killAt+"=cramped")
	if err := exec.CommandContext(t.Context(), "unshare", "-rm", "mount", "-t", "tmpfs", "none", dir).Run(); err != nil {
		t.Skipf("no mounts of our own here: %v", err)
	}
	cramped(t, cmd, "")
}

// cramped runs the process, which must say that the disk is full, leave no
// partial object, and be resumed where its workspace outlives it.
func cramped(t *testing.T, cmd *exec.Cmd, dir string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "exit=4 code="+CodeDiskFull) {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if path := strings.TrimSpace(line); strings.Contains(path, ".anvil/tmp/") && !isLock(path) {
			t.Errorf("a partial object is left: %s", path)
		}
	}
	if dir == "" {
		return
	}
	l := newLabIn(t, dir)
	noPartialObject(t, dir)
	l.do["measure"] = bigObservation
	r := l.run(l.plan("measure look", "grade make measure"), Options{Resume: ResumeNewest})
	wantStates(t, r, "measure=ok/executed grade=ok/executed")
	if r.Status != prov.OK || r.stage("measure").Attempt != 2 {
		t.Errorf("%+v", r)
	}
	l.verify(r)
}

// noPartialObject finds what a write left behind beside the store's own locks.
func noPartialObject(t *testing.T, workspace string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(workspace, store.Folder, "tmp", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range left {
		if !isLock(path) {
			t.Errorf("a partial object is left: %s", path)
		}
	}
}

func isLock(path string) bool {
	return strings.HasSuffix(path, ".lock") || strings.HasSuffix(path, ".held")
}
