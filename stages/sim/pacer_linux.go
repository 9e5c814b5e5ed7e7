package sim

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// newPacer returns the most precise pacer of the platform. A timerfd rests in
// the runtime's poller like a socket, whose wait rounds nothing to a
// millisecond: no thread is locked and none spins.
func newPacer() pacer {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return timerPacer{}
	}
	file := os.NewFile(uintptr(fd), "timerfd")
	raw, err := file.SyscallConn()
	if err != nil {
		return timerPacer{} // the file's finalizer closes it
	}
	return newAlarmPacer(&timerfd{file: file, raw: raw})
}

type timerfd struct {
	file *os.File
	raw  syscall.RawConn // of file
}

func (t *timerfd) set(d time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(int64(d), 1))}
	var setErr error
	err := t.raw.Control(func(fd uintptr) { setErr = unix.TimerfdSettime(int(fd), 0, &spec, nil) })
	return errors.Join(err, setErr)
}

func (t *timerfd) wait() error {
	var expirations [8]byte
	_, err := t.file.Read(expirations[:])
	return err
}

func (t *timerfd) close() error { return t.file.Close() }
