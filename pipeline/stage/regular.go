package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ErrNotRegular is wrapped when what a user named as a file is a pipe, a
// device, a socket or a folder: reading one may never end.
var ErrNotRegular = errors.New("no regular file")

// OpenRegular opens a file that a plan or a user names. Anything but a regular
// file is refused without waiting for it.
func OpenRegular(name string) (*os.File, error) {
	// Without O_NONBLOCK a pipe that nobody writes to would hold the open itself.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is %w but a %s", name, ErrNotRegular, typeName(info.Mode()))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func typeName(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "folder"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}
