package prov_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/prov"
)

func lines(t *testing.T, d *disk.Disk) []byte {
	t.Helper()
	b, err := d.Root().ReadFile(prov.JournalName)
	must(t, err)
	return b
}

func TestJournalLinesCarryTheHashOfTheOneBefore(t *testing.T) {
	d, err := disk.Open(t.TempDir(), nil)
	must(t, err)
	j, err := prov.CreateJournal(d, time.Now)
	must(t, err)
	for _, e := range []string{prov.RunStarted, prov.StageStarted, prov.StageFinished} {
		must(t, j.Append(prov.Line{Event: e, Stage: "a"}))
	}
	head := j.Head()
	must(t, j.Close())
	text := lines(t, d)
	c, err := prov.ReadJournal(text)
	must(t, err)
	if len(c.Lines) != 3 || *c.Head != head || c.Torn != 0 {
		t.Fatalf("got %d lines, head %v, torn %d", len(c.Lines), c.Head, c.Torn)
	}
	split := bytes.SplitAfter(text, []byte("\n"))
	if want := digest.FromBytes(bytes.TrimSuffix(split[1], []byte("\n"))); *c.Lines[2].Prev != want {
		t.Errorf("third line's prev is %s, want %s: sha256sum of the second", c.Lines[2].Prev, want)
	}
	if _, err := prov.CreateJournal(d, time.Now); !errors.Is(err, os.ErrExist) {
		t.Errorf("got %v, want: a run's journal is begun once", err)
	}
}

func TestReadJournalNamesTheBrokenLine(t *testing.T) {
	d, err := disk.Open(t.TempDir(), nil)
	must(t, err)
	j, err := prov.CreateJournal(d, time.Now)
	must(t, err)
	for range 4 {
		must(t, j.Append(prov.Line{Event: prov.StageStarted, Stage: "stage", Text: "text"}))
	}
	must(t, j.Close())
	whole := string(lines(t, d))
	l := strings.SplitAfter(whole, "\n")
	tests := map[string]struct {
		text string
		line int
	}{
		"a changed line":    {l[0] + strings.Replace(l[1], `"text"`, `"test"`, 1) + l[2] + l[3], 2},
		"no JSON":           {l[0] + strings.Replace(l[1], `{`, `[`, 1) + l[2] + l[3], 2},
		"a missing line":    {l[0] + l[2] + l[3], 2},
		"a missing first":   {l[1] + l[2] + l[3], 1},
		"lines swapped":     {l[0] + l[2] + l[1] + l[3], 2},
		"a line twice":      {l[0] + l[1] + l[1] + l[2] + l[3], 3},
		"a line in between": {l[0] + "{}\n" + l[1] + l[2] + l[3], 2},
	}
	for name, tt := range tests {
		c, err := prov.ReadJournal([]byte(tt.text))
		var broken *prov.ChainError
		if !errors.As(err, &broken) || broken.Line != tt.line {
			t.Errorf("%s: got %v after %d lines, want line %d named", name, err, len(c.Lines), tt.line)
		}
	}
}

// TestReadJournalTakesEveryTornEnd cuts a journal at every byte.
func TestReadJournalTakesEveryTornEnd(t *testing.T) {
	d, err := disk.Open(t.TempDir(), nil)
	must(t, err)
	j, err := prov.CreateJournal(d, time.Now)
	must(t, err)
	must(t, j.Append(prov.Line{Event: prov.RunStarted}))
	must(t, j.Append(prov.Line{Event: prov.StageStarted, Stage: "a"}))
	must(t, j.Close())
	whole := lines(t, d)
	for n := range whole {
		must(t, os.WriteFile(filepath.Join(d.Dir(), prov.JournalName), whole[:n], 0o644))
		j, had, err := prov.ReopenJournal(d, time.Now)
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		must(t, j.Append(prov.Line{Event: prov.RunResumed}))
		must(t, j.Close())
		c, err := prov.ReadJournal(lines(t, d))
		if err != nil || c.Torn != 0 {
			t.Fatalf("cut at %d: %v, %d torn", n, err, c.Torn)
		}
		torn := n - bytes.LastIndexByte(whole[:n], '\n') - 1
		want := len(had) + 1
		if torn > 0 {
			want++
			if l := c.Lines[len(had)]; l.Event != prov.JournalTorn || l.Bytes != int64(torn) {
				t.Errorf("cut at %d: got %+v, want the %d torn bytes journalled", n, l, torn)
			}
		}
		if len(c.Lines) != want {
			t.Errorf("cut at %d: got %d lines, want %d", n, len(c.Lines), want)
		}
	}
}

func TestReopenJournalRefusesABrokenChain(t *testing.T) {
	d, err := disk.Open(t.TempDir(), nil)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(d.Dir(), prov.JournalName), []byte("{\"seq\":1}\n"), 0o644))
	_, _, err = prov.ReopenJournal(d, time.Now)
	if _, ok := errors.AsType[*prov.ChainError](err); !ok {
		t.Errorf("got %v, want a *ChainError", err)
	}
}

// syncs counts the syncs of files.
type syncs struct{ n atomic.Int64 }

func (s *syncs) hook(st disk.Step) error {
	if st.Op == disk.Sync {
		s.n.Add(1)
	}
	return nil
}

// files waits for what goes on and returns the count.
func (s *syncs) files() int64 {
	synctest.Wait()
	return s.n.Load()
}

func TestJournalIsSyncedAtMostEveryFiftyMilliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s syncs
		d, err := disk.Open(t.TempDir(), s.hook)
		must(t, err)
		j, err := prov.CreateJournal(d, time.Now)
		must(t, err)
		for range 100 {
			must(t, j.Append(prov.Line{Event: prov.StageRestored}))
			time.Sleep(time.Millisecond) // of the bubble's clock
		}
		if n := s.files(); n < 1 || n > 2 {
			t.Errorf("100 lines in 100 ms: %d syncs, want 1 or 2", n)
		}
		must(t, j.Sync())
		before := s.files()
		must(t, j.Sync())
		if n := s.files() - before; n != 0 {
			t.Errorf("a journal without new lines was synced %d times", n)
		}
		must(t, j.Append(prov.Line{Event: prov.StageStarted}))
		must(t, j.Sync())
		after := s.files()
		time.Sleep(time.Second)
		if s.files() != after {
			t.Errorf("synced lines were synced again")
		}
		must(t, j.Append(prov.Line{Event: prov.RunFinished}))
		must(t, j.Close())
		if s.files() != after+1 {
			t.Errorf("the journal was closed without a sync")
		}
	})
}

func TestJournalTellsOfASyncThatNobodyWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := disk.Open(t.TempDir(), func(s disk.Step) error {
			if s.Op == disk.Sync {
				return syscall.EIO
			}
			return nil
		})
		must(t, err)
		j, err := prov.CreateJournal(d, time.Now)
		must(t, err)
		must(t, j.Append(prov.Line{Event: prov.RunStarted}))
		time.Sleep(prov.SyncEvery)
		synctest.Wait()
		for _, err := range []error{j.Append(prov.Line{Event: prov.RunFinished}), j.Sync(), j.Close()} {
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("got %v, want EIO", err)
			}
		}
	})
}

func TestJournalTakesNothingAfterATornLine(t *testing.T) {
	fail := false
	d, err := disk.Open(t.TempDir(), func(s disk.Step) error {
		if fail && s.Op == disk.Torn {
			return syscall.ENOSPC
		}
		return nil
	})
	must(t, err)
	j, err := prov.CreateJournal(d, time.Now)
	must(t, err)
	must(t, j.Append(prov.Line{Event: prov.RunStarted}))
	fail = true
	err = j.Append(prov.Line{Event: prov.StageStarted, Stage: "a"})
	var full *disk.FullError
	if !errors.As(err, &full) {
		t.Fatalf("got %v, want a *FullError", err)
	}
	fail = false
	if err := j.Append(prov.Line{Event: prov.StageStarted, Stage: "b"}); !errors.As(err, &full) {
		t.Errorf("got %v, want the first error again: the file ends in half a line", err)
	}
	_ = j.Close()
	j, had, err := prov.ReopenJournal(d, time.Now)
	must(t, err)
	must(t, j.Close())
	if len(had) != 1 {
		t.Errorf("got %d lines, want the one that was written whole", len(had))
	}
}
