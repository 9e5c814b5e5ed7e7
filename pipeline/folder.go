package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"anvil/pipeline/event"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/prov"
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
	return Holder{PID: os.Getpid(), Host: host, Run: e.id, Plan: e.plan.Name, Since: e.x.now()}
}

// openFolder makes the run's folder, locks it, and begins its journal when
// everything stands that the journal speaks of: a folder without one is no run.
func (e *execution) openFolder() error {
	dir := filepath.Join(e.x.Workspace, prov.RunsFolder, e.id)
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("run %s: its folder is there already", e.id)
	}
	d, err := disk.Make(dir, e.x.hook)
	if err != nil {
		return err
	}
	lock, err := e.lockRun(dir, e.id)
	if err != nil {
		return errors.Join(err, d.Close())
	}
	journal, err := e.beginJournal(d)
	if err != nil {
		return errors.Join(err, lock.Close(), d.Close())
	}
	e.folder = &folder{disk: d, journal: journal, lock: lock}
	e.events.emit(event.Event{Event: event.RunStarted, Base: e.base.id(), Text: e.plan.Name})
	return e.notePending()
}

func (e *execution) lockRun(dir, id string) (*flock.Flock, error) {
	return lockFile(context.Background(), filepath.Join(dir, prov.LockName), "run "+id, e.holder(), false, nil)
}

func (e *execution) beginJournal(d *disk.Disk) (*prov.Journal, error) {
	if err := d.WriteFile(prov.PlanName, e.plan.Source); err != nil {
		return nil, err
	}
	if err := d.WriteFile(prov.ResolvedPlanName, e.plan.Resolved); err != nil {
		return nil, err
	}
	journal, err := prov.CreateJournal(d, e.x.now)
	if err != nil {
		return nil, err
	}
	me := e.holder()
	err = journal.Append(prov.Line{
		Event: prov.RunStarted, Run: e.id, Plan: e.plan.Name, Base: e.base.id(), Host: me.Host, PID: me.PID, Options: e.opt.asked(),
	})
	if err != nil {
		return nil, errors.Join(err, journal.Close())
	}
	return journal, nil
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
