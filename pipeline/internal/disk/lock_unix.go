//go:build unix

package disk

import (
	"errors"
	"os"
	"syscall"
)

// LockShared waits for a lock on f that others may share.
func LockShared(f *os.File) error { return flock(f, syscall.LOCK_SH) }

// LockAlone waits for a lock on f that nobody shares.
func LockAlone(f *os.File) error { return flock(f, syscall.LOCK_EX) }

// TryLockAlone takes a lock on f that nobody shares; false when another holds
// one.
func TryLockAlone(f *os.File) (bool, error) { return try(f, syscall.LOCK_EX) }

// TryLockShared takes a lock on f that others may share; false when another
// holds it alone.
func TryLockShared(f *os.File) (bool, error) { return try(f, syscall.LOCK_SH) }

// Unlock gives up the lock on f; closing f does, too.
func Unlock(f *os.File) error { return flock(f, syscall.LOCK_UN) }

func try(f *os.File, how int) (bool, error) {
	err := flock(f, how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
