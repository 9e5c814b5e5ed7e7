//go:build unix

package disk

import (
	"errors"
	"io/fs"
	"syscall"
)

// ReadSmall appends the bytes of a regular file to buf, unless it is longer
// than limit: then only its size is returned. The os package asks the poller
// about every file that it opens, which for a small one is half of all system
// calls; a run reads thousands of them.
func ReadSmall(path string, buf []byte, limit int64) (b []byte, size int64, err error) {
	failed := func(op string, err error) ([]byte, int64, error) {
		return nil, 0, &fs.PathError{Op: op, Path: path, Err: err}
	}
	// O_NONBLOCK: a FIFO in its place is refused below, not waited for.
	fd, err := retry(func() (int, error) {
		return syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	})
	if err != nil {
		return failed("open", err)
	}
	defer func() { _ = syscall.Close(fd) }() // nothing was written
	var st syscall.Stat_t
	if _, err := retry(func() (int, error) { return 0, syscall.Fstat(fd, &st) }); err != nil {
		return failed("stat", err)
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return failed("read", ErrIrregular)
	}
	if st.Size > limit {
		return nil, st.Size, nil
	}
	end := len(buf) + int(st.Size)
	b = append(buf, make([]byte, st.Size)...)
	for at := len(buf); at < end; {
		n, err := retry(func() (int, error) { return syscall.Read(fd, b[at:end]) })
		if err != nil {
			return failed("read", err)
		}
		if n == 0 { // it was cut short meanwhile
			b, end = b[:at], at
		}
		at += n
	}
	return b, st.Size, nil
}

// retry repeats a system call that a signal interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}
