package prov

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"anvil/pipeline/internal/disk"
)

// A LiveError says that a run cannot be removed because it goes on.
type LiveError struct{ Run string }

// Error names the run.
func (e *LiveError) Error() string { return "run " + e.Run + " is going on" }

// removed begins the names of folders that Remove is deleting.
const removed = ".removed-"

// Remove removes a run's folder; the objects stay for GC. It is one rename, so
// that a crash leaves the whole run or none of it. A run that goes on is a
// *LiveError.
func Remove(workspace, name string) (id string, err error) {
	dir, err := findRun(workspace, name)
	if err != nil {
		return "", err
	}
	id = filepath.Base(dir)
	lock, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return id, disk.Explain(dir, err)
	default:
		defer lock.Close()
		if free, err := disk.TryLockAlone(lock); err != nil || !free {
			return id, errors.Join(err, &LiveError{Run: id})
		}
	}
	gone := filepath.Join(filepath.Dir(dir), removed+id)
	if err := os.Rename(dir, gone); err != nil {
		return id, disk.Explain(dir, err)
	}
	if err := os.RemoveAll(gone); err != nil {
		return id, fmt.Errorf("remove %s: %w", gone, err)
	}
	return id, sweepRemoved(filepath.Dir(dir))
}

// sweepRemoved deletes what a crash of Remove left.
func sweepRemoved(runs string) error {
	entries, err := os.ReadDir(runs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), removed) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(runs, e.Name())))
		}
	}
	return err
}
