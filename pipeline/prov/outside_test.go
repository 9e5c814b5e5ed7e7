package prov_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"anvil/pipeline/internal/disk"
	"anvil/pipeline/prov"
)

// outside links a file of a run to one beyond the runs folder, and returns it.
func outside(t *testing.T, run, name, text string) string {
	t.Helper()
	target := filepath.Join(t.TempDir(), "target")
	must(t, os.WriteFile(target, []byte(text), 0o644))
	link := filepath.Join(run, name)
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	must(t, os.Symlink(target, link))
	return target
}

func TestAJournalThatStandsOutsideMakesNoRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "folder")
	must(t, os.Mkdir(dir, 0o755))
	outside(t, dir, prov.JournalName, `{"seq":0}`)
	if r, err := prov.OpenRun(t.TempDir(), dir); !errors.Is(err, prov.ErrNoRun) {
		t.Errorf("got %v, %v, want ErrNoRun", r, err)
	}
}

func TestListingRunsReadsNoJournalThatStandsOutside(t *testing.T) {
	ws := workspace(t)
	line := `{"seq":0,"at":"2030-01-01T00:00:00Z","event":"run.started","base":"stolen"}`
	for _, id := range []string{first, older} { // one of two that began in the same second, and one alone
		outside(t, filepath.Join(ws, prov.RunsFolder, id), prov.JournalName, line)
	}
	list, err := prov.ListRuns(ws)
	must(t, err)
	if len(list) != 4 || list[0].Run != second {
		t.Fatalf("runs %+v", list)
	}
	for _, s := range list {
		if s.StartedAt.Year() == 2030 || s.Base != nil && *s.Base == "stolen" {
			t.Errorf("%s tells what stands outside: %+v", s.Run, s)
		}
	}
}

func TestRemoveTouchesNothingOutside(t *testing.T) {
	ws := workspace(t)
	dir := filepath.Join(ws, prov.RunsFolder, older)
	kept := outside(t, dir, "link", "kept")
	must(t, os.Symlink(filepath.Dir(kept), filepath.Join(dir, "folder")))
	must(t, os.Mkdir(filepath.Join(ws, prov.RunsFolder, ".removed-by-a-crash"), 0o755))
	id, err := prov.Remove(ws, older)
	if err != nil || id != older {
		t.Fatalf("removed %q, %v", id, err)
	}
	if b, err := os.ReadFile(kept); err != nil || string(b) != "kept" {
		t.Errorf("what the run linked to: %q, %v", b, err)
	}
	left, err := filepath.Glob(filepath.Join(ws, prov.RunsFolder, ".removed-*"))
	if _, stat := os.Lstat(dir); err != nil || len(left) > 0 || !errors.Is(stat, os.ErrNotExist) {
		t.Errorf("left %v, %v, the run %v", left, err, stat)
	}
}

func TestRemoveLocksNoFileOutside(t *testing.T) {
	ws := workspace(t)
	dir := filepath.Join(ws, prov.RunsFolder, older)
	outside(t, dir, prov.LockName, "")
	if _, err := prov.Remove(ws, older); err == nil {
		t.Error("removed under a lock that is none of its own")
	}
	if _, err := os.Stat(filepath.Join(dir, prov.LockName)); err != nil {
		t.Errorf("the run is gone: %v", err)
	}
}

// A run that is named by the folder that one stands in is removed under its own name.
func TestRemoveTakesARunByItsPath(t *testing.T) {
	ws := t.TempDir()
	d, err := disk.Make(filepath.Join(ws, "elsewhere", older), nil)
	must(t, err)
	j, err := prov.CreateJournal(d, time.Now)
	must(t, err)
	must(t, j.Append(prov.Line{Event: prov.RunStarted}))
	must(t, errors.Join(j.Close(), d.Close()))
	t.Chdir(filepath.Join(ws, "elsewhere", older))
	id, err := prov.Remove(ws, ".")
	if _, stat := os.Stat(filepath.Join(ws, "elsewhere", older)); err != nil || id != older || !errors.Is(stat, os.ErrNotExist) {
		t.Errorf("removed %q, %v; the folder: %v", id, err, stat)
	}
}
