package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
)

// snakemake 3351: a full disk threw finished work away. What was done before it
// stays, is whole and is not done again once there is room; what was under way is
// a failure with exit 4 and leaves no partial object.
func TestSnakemake3351AFullDiskThrowsNoWorkAway(t *testing.T) {
	l := newLab(t)
	var mu sync.Mutex
	full := false
	fill := func(on bool) { mu.Lock(); full = on; mu.Unlock() }
	l.reopen(func(s disk.Step) error {
		mu.Lock()
		defer mu.Unlock()
		if full && (s.Op == disk.Write || s.Op == disk.Torn) {
			return syscall.ENOSPC
		}
		return nil
	})
	l.x.Jobs = 1
	l.do["grade"] = func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		fill(true)
		return out.JSON("made.json", map[string]any{"text": strings.Repeat("x", 1<<16)})
	}
	p := chain(l)
	r, err := l.x.Run(t.Context(), p.Plan, Options{})
	if _, typed := errors.AsType[*store.FullError](err); !typed || r == nil || r.Exit != 4 || r.stage("measure").Status != prov.OK {
		t.Fatalf("got %v, run %+v, want a *FullError and exit 4 behind a good measurement", err, r)
	}
	fill(false)
	noPartialObject(t, l.dir)
	if err := l.x.Store.CheckAll(t.Context(), func(d digest.Digest, err error) {
		if err != nil {
			t.Errorf("object %s: %v", d, err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	delete(l.do, "grade")
	again := l.run(p, Options{Resume: ResumeNewest})
	if again.ID != r.ID || again.Exit != 0 || l.count("measure") != 1 || again.stage("measure").Attempt != 1 {
		t.Errorf("%s: the measurement ran %d times", states(again), l.count("measure"))
	}
	l.verify(again)
}

// argo 11191: what succeeded under a retry was not remembered. The next run
// restores it, and the program does not run a fourth time.
func TestArgo11191WhatARetryReachedIsRemembered(t *testing.T) {
	l := newLab(t)
	l.do["a"] = func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		if l.count("a") < 3 {
			return errBroken
		}
		return out.JSON("made.json", map[string]any{})
	}
	p := l.plan("a make", "b make a")
	p.stage("a").Retries = 2
	first := l.run(p, Options{})
	wantStates(t, first, "a=ok/executed b=ok/executed")
	second := l.run(p, Options{})
	wantStates(t, second, "a=ok/restored b=ok/restored")
	if l.count("a") != 3 || second.stage("a").Result != first.stage("a").Result {
		t.Errorf("a ran %d times, the second run stands on another result: %v", l.count("a"), second.stage("a").Result != first.stage("a").Result)
	}
	l.verify(second)
}

// mcmicro 169, nextflow 1644: a marker of success was there before what it stood
// for. Every output of a stage is synced and has its name before the result that
// names it has.
func TestMCMicro169TheResultComesAfterItsObjects(t *testing.T) {
	l := newLab(t)
	var mu sync.Mutex
	var steps []disk.Step
	l.reopen(func(s disk.Step) error {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, s)
		return nil
	})
	l.x.Jobs = 1
	r := l.run(chain(l), Options{})
	// named is the step at which a file whose path ends so first had its name.
	named := func(suffix string) int {
		i := slices.IndexFunc(steps, func(s disk.Step) bool {
			return s.Op == disk.Rename && strings.HasSuffix(filepath.ToSlash(s.Path), suffix)
		})
		if i < 0 {
			t.Fatalf("nothing was named %s in %d steps", suffix, len(steps))
		}
		return i
	}
	object := func(d digest.Digest) string {
		rel, err := filepath.Rel(l.dir, l.x.Store.Path(d))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(filepath.ToSlash(rel), store.Folder+"/")
	}
	for _, id := range []string{"measure", "grade", "sum"} {
		result := named(fmt.Sprintf("stages/%s/1/result.json", id))
		for _, out := range r.stage(id).Outputs {
			at := named(object(out.SHA256))
			if at > result {
				t.Errorf("%s of %s has its name at step %d, its result at %d", out.Name, id, at, result)
			}
			if !syncedBefore(steps[:at]) {
				t.Errorf("%s of %s was given its name before its bytes were synced", out.Name, id)
			}
		}
	}
}

// syncedBefore tells whether the last file that was written was synced.
func syncedBefore(steps []disk.Step) bool {
	for _, s := range slices.Backward(steps) {
		switch s.Op {
		case disk.Sync:
			return true
		case disk.Write, disk.Torn, disk.Create:
			return false
		}
	}
	return false
}

// TestKilledInGrade runs in a process of its own, which kills itself in a pure
// stage, with the run's lock and the endpoint's in its hands.
func TestKilledInGrade(t *testing.T) {
	dir := os.Getenv(killDir)
	if dir == "" || os.Getenv(killAt) != "grade" {
		t.Skip("runs in a process of its own")
	}
	l := newLabIn(t, dir)
	l.do["grade"] = func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return err
		}
		select {}
	}
	_, err := l.x.Run(context.Background(), chain(l).Plan, Options{})
	t.Fatalf("it was not killed: %v", err)
}

// killedInGrade is the workspace that it left, and the run.
func killedInGrade(t *testing.T) (l *lab, id string) {
	t.Helper()
	dir := quickDir(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledInGrade$")
	cmd.Env = append(os.Environ(), killDir+"="+dir, killAt+"=grade")
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%v\n%s", err, out)
	}
	l = newLabIn(t, dir)
	return l, l.runFolders()[0]
}

// dvc 7029, 2811, snakemake 2919: the lock of a process that was killed had to be
// removed by hand. Its files are still there; the next one starts at once, on the
// same run and on the same endpoint, with no step in between and without waiting.
func TestDVC7029TheLockOfAKilledProcessIsNobodys(t *testing.T) {
	l, id := killedInGrade(t)
	lock := filepath.Join(l.dir, prov.RunsFolder, id, prov.LockName)
	if holder := readHolder(lock); holder.PID == 0 {
		t.Fatalf("the lock's file names nobody: there is nothing stale to try")
	}
	r, err := l.x.Run(t.Context(), chain(l).Plan, Options{Resume: id})
	if err != nil || r.ID != id || r.Exit != 0 {
		t.Fatalf("got %v, %+v", err, r)
	}
	l.verify(r)
	l.verify(l.run(chain(l), Options{}))
}

// nextflow 2672, snakemake 453: a job that was killed was taken for a success, or
// waited for. Its attempt is lost, its stage is done by another one, and what was
// finished before is not done again.
func TestNextflow2672AKilledStageIsLost(t *testing.T) {
	l, id := killedInGrade(t)
	run, err := prov.OpenRun(l.dir, id)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	state, err := run.State()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]prov.Status{}
	for _, s := range state.Stages {
		got[s.ID] = s.Status
	}
	if got["measure"] != prov.OK || got["grade"] != prov.Lost || got["sum"] == prov.OK {
		t.Errorf("the killed run says %v, want measure ok and grade lost", got)
	}
	r := l.run(chain(l), Options{Resume: id})
	if r.Exit != 0 || l.count("measure") != 0 || l.count("grade") != 1 || r.stage("grade").Attempt != 2 {
		t.Errorf("%s: measure ran %d times, grade has attempt %d", states(r), l.count("measure"), r.stage("grade").Attempt)
	}
	chain, err := run.Journal()
	if err != nil {
		t.Fatal(err)
	}
	listed := slices.ContainsFunc(chain.Lines, func(n prov.Line) bool {
		return n.Event == prov.StageLost && n.Stage == "grade" && n.Attempt == 1 && n.Status == prov.Lost
	})
	if _, err := os.Stat(filepath.Join(r.Dir, "stages/grade/1/result.json")); !listed || err == nil {
		t.Errorf("attempt 1 is listed as lost: %v, and has a result: %v", listed, err == nil)
	}
	l.verify(r)
}
