//go:build linux

package target

import (
	"fmt"
	"os"
)

// LocalPorts is how many ports the system gives to outgoing connections.
func LocalPorts() (n int, ok bool) {
	raw, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, false
	}
	var first, last int
	if _, err := fmt.Sscan(string(raw), &first, &last); err != nil || last < first {
		return 0, false
	}
	return last - first + 1, true
}
