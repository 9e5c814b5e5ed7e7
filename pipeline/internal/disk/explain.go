package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// A FullError says that a file could not take more bytes: the file system, a
// quota or the limit on a file's size is used up.
type FullError struct {
	Path string
	Err  error
}

// Error names the file and the limit that was hit.
func (e *FullError) Error() string { return fmt.Sprintf("write %s: %v", e.Path, e.Err) }

// Unwrap returns what the operating system said.
func (e *FullError) Unwrap() error { return e.Err }

// Hint says what the user can do.
func (e *FullError) Hint() string {
	if errors.Is(e.Err, syscall.EFBIG) {
		return "raise the limit on the size of a file (ulimit -f), then run again with --resume"
	}
	return "free space or name another folder with --workspace; after freeing, --resume goes on"
}

// A ReadOnlyError says that the workspace does not take writes.
type ReadOnlyError struct {
	Path string
	Err  error
}

// Error names the file that could not be written.
func (e *ReadOnlyError) Error() string { return fmt.Sprintf("write %s: %v", e.Path, e.Err) }

// Unwrap returns what the operating system said.
func (e *ReadOnlyError) Unwrap() error { return e.Err }

// Hint says what the user can do.
func (e *ReadOnlyError) Hint() string {
	return "name a folder that you may write with --workspace"
}

// A GoneError says that a folder vanished that had been there.
type GoneError struct {
	Path string
	Err  error
}

// Error names what is missing.
func (e *GoneError) Error() string { return fmt.Sprintf("write %s: %v", e.Path, e.Err) }

// Unwrap returns what the operating system said.
func (e *GoneError) Unwrap() error { return e.Err }

// Hint says what the user can do.
func (e *GoneError) Hint() string {
	return "the workspace was removed or unmounted while anvil wrote to it; put it back and run again"
}

// Explain gives err, of writing to path, a type that says what to do: a
// *FullError, *ReadOnlyError or *GoneError, or else adds the path alone.
func Explain(path string, err error) error {
	if err == nil || explained(err) {
		return err
	}
	cause := err
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		cause = p.Err
	} else if l := (*os.LinkError)(nil); errors.As(err, &l) {
		cause = l.Err
	}
	path = filepath.Clean(path)
	switch {
	case isAny(cause, syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG):
		return &FullError{Path: path, Err: cause}
	case isAny(cause, syscall.EROFS, syscall.EACCES, syscall.EPERM):
		return &ReadOnlyError{Path: path, Err: cause}
	case isAny(cause, syscall.ENOENT, syscall.ESTALE, syscall.ENOTCONN):
		return &GoneError{Path: path, Err: cause}
	}
	return fmt.Errorf("write %s: %w", path, cause)
}

func explained(err error) bool {
	var full *FullError
	var ro *ReadOnlyError
	var gone *GoneError
	return errors.As(err, &full) || errors.As(err, &ro) || errors.As(err, &gone)
}

func isAny(err error, among ...syscall.Errno) bool {
	for _, e := range among {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
