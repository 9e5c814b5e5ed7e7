//go:build !linux

package sim

// newPacer returns the most precise pacer of the platform.
func newPacer() pacer { return timerPacer{} }
