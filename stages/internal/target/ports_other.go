//go:build !linux

package target

// LocalPorts is unknown here.
func LocalPorts() (n int, ok bool) { return 0, false }
