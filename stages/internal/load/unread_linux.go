//go:build linux

package load

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// resetWait is how long the reset that follows a close is waited for.
const resetWait = 100 * time.Millisecond

// unread tells, from the error that met the reader of a kept connection before
// any byte of an answer, whether the server closed without having read the
// request. Its orderly close alone (EOF) does not say so: it may have read the
// request and failed. A reset behind it does: the kernel sends one when a
// connection is closed on bytes that nobody read, and Linux then reports EPIPE
// where a reset without a close before it gives ECONNRESET.
func unread(conn net.Conn, err error) bool {
	if errors.Is(err, unix.EPIPE) {
		return true
	}
	if !errors.Is(err, io.EOF) {
		return false
	}
	s, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	reset := false
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(fds, int(resetWait.Milliseconds()))
		reset = err == nil && n > 0 && fds[0].Revents&unix.POLLERR != 0
	})
	return err == nil && reset
}
