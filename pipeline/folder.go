package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"anvil/pipeline/event"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

// A folder is a run's own, locked by this process for as long as it is open.
type folder struct {
	disk    *disk.Disk
	journal *prov.Journal
	lock    *flock.Flock
}

func (f *folder) close() error {
	return errors.Join(f.journal.Close(), f.disk.Close(), f.lock.Close())
}

// newRunID is <plan>-<UTC time>-<6 letters of base32>.
func newRunID(planName string, at time.Time, entropy io.Reader) (string, error) {
	tail, err := token(entropy)
	if err != nil {
		return "", fmt.Errorf("name the run: %w", err)
	}
	return planName + "-" + at.UTC().Format("20060102T150405Z") + "-" + tail[:6], nil
}

// token draws a name that nobody else draws.
func token(entropy io.Reader) (string, error) {
	var b [32]byte
	if _, err := io.ReadFull(entropy, b[:]); err != nil {
		return "", err
	}
	sum := sha256.Sum256(b[:])
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])), nil
}

func (e *execution) holder() Holder {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return Holder{PID: os.Getpid(), Host: host, Run: e.id, Plan: e.plan.Name, Since: stage.Time{Time: e.x.now()}}
}

// unborn begins the names of folders that are about to be runs: no reader takes
// them for one.
const unborn = ".new-"

// openFolder makes the run's folder and locks it. It has its name only when
// everything stands that its journal speaks of and the first line is durable: a
// crash before leaves no run, only what the next run sweeps away.
func (e *execution) openFolder() (err error) {
	runs, err := disk.Open(filepath.Join(e.x.Workspace, prov.RunsFolder), e.x.hook)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runs.Close()) }()
	e.sweepUnborn(runs.Root())
	if _, err := runs.Root().Lstat(e.id); err == nil {
		return fmt.Errorf("run %s: its folder is there already", e.id)
	}
	lock, err := e.prepareFolder(filepath.Join(runs.Dir(), unborn+e.id))
	if err == nil {
		err = runs.Rename(unborn+e.id, e.id)
	}
	if err != nil {
		_ = runs.Root().RemoveAll(unborn + e.id) // err says more
		return errors.Join(err, closeLock(lock))
	}
	err = runs.SyncDir(".")
	if err == nil {
		e.folder, err = e.enterFolder(filepath.Join(runs.Dir(), e.id), lock)
	}
	if err != nil {
		return errors.Join(err, closeLock(lock))
	}
	e.events.emit(event.Event{Event: event.RunStarted, Base: e.base.id(), Text: e.plan.Name})
	return e.notePending()
}

func closeLock(lock *flock.Flock) error {
	if lock == nil {
		return nil
	}
	return lock.Close()
}

// prepareFolder makes a folder, locks it, and writes what every run begins with.
func (e *execution) prepareFolder(dir string) (*flock.Flock, error) {
	d, err := disk.Make(dir, e.x.hook)
	if err != nil {
		return nil, err
	}
	lock, err := lockFile(context.Background(), filepath.Join(dir, prov.LockName), "run "+e.id, e.holder(), false, nil)
	if err == nil {
		err = e.beginJournal(d)
	}
	return lock, errors.Join(err, d.Close())
}

// enterFolder opens the run's folder under its name; its lock is held.
func (e *execution) enterFolder(dir string, lock *flock.Flock) (*folder, error) {
	d, err := disk.Open(dir, e.x.hook)
	if err != nil {
		return nil, err
	}
	journal, _, err := prov.ReopenJournal(d, e.x.now)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return &folder{disk: d, journal: journal, lock: lock}, nil
}

// unbornFor is how long a folder may be on its way to be a run without a lock
// that says so: it is locked at once.
const unbornFor = time.Minute

// sweepUnborn removes what runs left that were killed before they began. It is
// litter: what cannot be removed is left to the next.
func (e *execution) sweepUnborn(runs *os.Root) {
	entries, err := fs.ReadDir(runs.FS(), ".")
	if err != nil {
		return
	}
	for _, entry := range entries {
		id, ok := strings.CutPrefix(entry.Name(), unborn)
		_, began, isID := prov.SplitRunID(id)
		if !ok || !isID || e.began.Sub(began) < unbornFor || held(runs, entry.Name()) {
			continue
		}
		if err := runs.RemoveAll(entry.Name()); err != nil {
			e.x.Log.Debug().Err(err).Str("folder", entry.Name()).Msg("not removed")
		}
	}
}

// held tells whether a living process has locked a folder of runs.
func held(runs *os.Root, name string) bool {
	lock, err := runs.OpenFile(path.Join(name, prov.LockName), os.O_RDWR, 0)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer lock.Close()
	free, err := disk.TryLockAlone(lock)
	return err != nil || !free
}

// beginJournal writes the plan and the first line of the journal, durably.
func (e *execution) beginJournal(d *disk.Disk) error {
	if err := d.WriteFile(prov.PlanName, e.plan.Source); err != nil {
		return err
	}
	if err := d.WriteFile(prov.ResolvedPlanName, e.plan.Resolved); err != nil {
		return err
	}
	journal, err := prov.CreateJournal(d, e.x.now)
	if err != nil {
		return err
	}
	me := e.holder()
	err = journal.Append(prov.Line{
		Event: prov.RunStarted, Run: e.id, Plan: e.plan.Name, Path: e.plan.File, Base: e.base.id(), Host: me.Host, PID: me.PID, Options: e.opt.asked(),
	})
	return errors.Join(err, journal.Close())
}

// notePending writes what happened before there was a journal.
func (e *execution) notePending() error {
	for _, l := range e.pending {
		if err := e.folder.journal.Append(l); err != nil {
			return err
		}
	}
	e.pending = nil
	return nil
}
