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

// unread tells, from the error that met a request on a kept connection before
// any byte of an answer, whether nobody on the other side can have read a byte of
// it. Two things show that together. The server had closed in order and then
// answered with a reset: nobody holds the connection any more. And its kernel
// acknowledged nothing of the request, before is how much it had taken in until
// then: so it was closed before the request came. A server that reads and then
// closes has acknowledged, at the latest with the close itself; a reset alone
// acknowledges nothing and proves nothing.
func unread(conn net.Conn, err error, before uint64) bool {
	reset := errors.Is(err, unix.EPIPE) // what Linux makes of a reset after a close; without one it is ECONNRESET
	if !reset && !errors.Is(err, io.EOF) || before == 0 || acked(conn) != before {
		return false
	}
	return (reset || resetFollows(conn)) && acked(conn) == before
}

// acked is how many bytes the other side's kernel has acknowledged, 0 where
// nothing tells.
func acked(conn net.Conn) (n uint64) {
	control(conn, func(fd int) {
		if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = info.Bytes_acked
		}
	})
	return n
}

func resetFollows(conn net.Conn) (reset bool) {
	control(conn, func(fd int) {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(fds, int(resetWait.Milliseconds()))
		reset = err == nil && n > 0 && fds[0].Revents&unix.POLLERR != 0
	})
	return reset
}

// control calls do with the connection's socket, if it has one that is open.
func control(conn net.Conn, do func(fd int)) {
	s, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := s.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { do(int(fd)) })
	}
}
