//go:build linux || darwin

package load

import (
	"os"

	"golang.org/x/sys/unix"
)

// Free is how many bytes this process may still write beside folder; false
// where the platform does not say.
func Free(folder *os.Root) (bytes uint64, ok bool) {
	dir, err := folder.Open(".")
	if err != nil {
		return 0, false
	}
	defer dir.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &st); err != nil {
		return 0, false
	}
	return st.Bavail * uint64(st.Bsize), true
}
