package pipeline

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"anvil/pipeline/internal/disk"
	"anvil/pipeline/prov"
)

// folders are the names below runs/, of runs and of what is to be one.
func (l *lab) folders() (runs, others []string) {
	l.t.Helper()
	entries, err := os.ReadDir(filepath.Join(l.dir, prov.RunsFolder))
	if err != nil {
		l.t.Fatal(err)
	}
	for _, e := range entries {
		if _, _, ok := prov.SplitRunID(e.Name()); ok {
			runs = append(runs, e.Name())
		} else {
			others = append(others, e.Name())
		}
	}
	return runs, others
}

// Whatever keeps a run from beginning, it is no run: not the latest, not listed
// as unfinished, and nothing that cannot be proved.
func TestARunThatCouldNotBeginIsNone(t *testing.T) {
	for name, at := range map[string]func(disk.Step) bool{
		"the plan's copy":    func(s disk.Step) bool { return strings.HasSuffix(s.Path, ".plan.yaml.tmp") },
		"the journal":        func(s disk.Step) bool { return s.Path == prov.JournalName },
		"the first line":     func(s disk.Step) bool { return s.Path == prov.JournalName && s.Op == disk.Torn },
		"the line's sync":    func(s disk.Step) bool { return s.Path == prov.JournalName && s.Op == disk.Sync },
		"the run's own name": func(s disk.Step) bool { _, _, ok := prov.SplitRunID(s.Path); return ok && s.Op == disk.Rename },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			p := l.plan("a make")
			first := l.run(p, Options{})
			failed := false
			l.reopen(func(s disk.Step) error {
				if failed = failed || at(s); failed {
					return syscall.EIO
				}
				return nil
			})
			if _, err := l.x.Run(t.Context(), p.Plan, Options{}); !errors.Is(err, syscall.EIO) {
				t.Fatalf("got %v, want EIO", err)
			}
			l.reopen(nil)
			if runs, others := l.folders(); len(runs) != 1 || len(others) != 0 {
				t.Errorf("runs are %q, and beside them stand %q", runs, others)
			}
			run, err := prov.OpenRun(l.dir, prov.Latest)
			if err != nil {
				t.Fatal(err)
			}
			defer run.Close()
			if run.ID != first.ID {
				t.Errorf("latest is %s, want %s", run.ID, first.ID)
			}
			if _, err := l.x.Run(t.Context(), p.Plan, Options{Resume: ResumeNewest}); !errors.Is(err, ErrNothingUnfinished) {
				t.Errorf("got %v, want ErrNothingUnfinished", err)
			}
		})
	}
}

// A killed process leaves its folder, which the next run removes; one that a
// living process holds stays.
func TestWhatAKilledBeginningLeftIsSweptAway(t *testing.T) {
	steps := victim(t, quickDir(t), 0)
	var dir string
	var l *lab
	for at := int64(1); ; at++ {
		if at > steps {
			t.Fatal("no step leaves a folder that is no run")
		}
		if dir = quickDir(t); victim(t, dir, at) != 0 {
			t.Fatalf("step %d of %d was not reached", at, steps)
		}
		if _, err := os.Stat(filepath.Join(dir, prov.RunsFolder)); err != nil {
			continue
		}
		l = newLabIn(t, dir)
		runs, others := l.folders()
		if len(runs) > 0 {
			t.Fatalf("killed at %d: it is a run before there was a folder that is none", at)
		}
		if len(others) == 1 && strings.HasPrefix(others[0], unborn) {
			if _, err := os.Stat(filepath.Join(dir, prov.RunsFolder, others[0], prov.LockName)); err == nil {
				break
			}
		}
	}
	l.reopen(nil)
	l.reopen(nil) // an hour after the victim
	_, others := l.folders()
	lock := filepath.Join(dir, prov.RunsFolder, others[0], prov.LockName)
	living, err := lockFile(t.Context(), lock, "run", Holder{PID: 1}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.run(l.plan("a make"), Options{})
	if _, others := l.folders(); len(others) != 1 {
		t.Error("the folder of a living process was removed")
	}
	if err := living.Close(); err != nil {
		t.Fatal(err)
	}
	l.run(l.plan("a make"), Options{})
	if _, others := l.folders(); len(others) != 0 {
		t.Errorf("%q are left", others)
	}
}
