//go:build !unix

package load

import "time"

func ownCPU() (time.Duration, bool) { return 0, false }
