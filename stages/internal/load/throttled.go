package load

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// throttled is how long a control group (Linux, version 2) has kept its
// processes from running; false where nothing says so.
func throttled() (time.Duration, bool) {
	b, err := os.ReadFile("/sys/fs/cgroup/cpu.stat")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		if us, ok := strings.CutPrefix(strings.TrimSpace(line), "throttled_usec "); ok {
			n, err := strconv.ParseInt(us, 10, 64)
			return time.Duration(n) * time.Microsecond, err == nil
		}
	}
	return 0, false
}
