//go:build darwin || freebsd || netbsd || openbsd

package load

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// stale tells whether the other side has closed or reset an idle connection,
// as far as a look at the next byte shows it.
func stale(conn net.Conn) bool {
	s, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err != nil && err != unix.EAGAIN
	})
	return err != nil || gone
}
