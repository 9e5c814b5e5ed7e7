package prov

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
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
	// The name that the folder has where it stands: of "." it is none.
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	id = filepath.Base(dir)
	runs, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return id, err
	}
	defer runs.Close()
	lock, err := runs.OpenFile(path.Join(id, LockName), os.O_RDWR, 0)
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
	if err := runs.Rename(id, removed+id); err != nil {
		return id, disk.Explain(dir, err)
	}
	return id, sweepRemoved(runs)
}

// sweepRemoved deletes the folder that was renamed, and what a crash left.
func sweepRemoved(runs *os.Root) error {
	entries, err := fs.ReadDir(runs.FS(), ".")
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), removed) {
			continue
		}
		if gone := runs.RemoveAll(e.Name()); gone != nil {
			err = errors.Join(err, fmt.Errorf("remove %s: %w", filepath.Join(runs.Name(), e.Name()), gone))
		}
	}
	return err
}
