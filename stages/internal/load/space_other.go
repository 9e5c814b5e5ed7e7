//go:build !linux && !darwin

package load

import "os"

// Free is not known here.
func Free(*os.Root) (bytes uint64, ok bool) { return 0, false }
