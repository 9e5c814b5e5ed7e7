package stage

import (
	"encoding/json"
	"testing"
	"time"
)

func TestTimesAreOfOneWidth(t *testing.T) {
	zone := time.FixedZone("east", 3600)
	for _, ns := range []int{0, 1, 100, 123456780} {
		at := Time{time.Date(2026, 11, 30, 10, 0, 0, ns, zone)}
		raw, err := json.Marshal(struct{ At *Time }{&at})
		if err != nil || len(raw) != len(`{"At":"2026-11-30T09:00:00.000000000Z"}`) {
			t.Errorf("%d ns: %s, %v", ns, raw, err)
		}
		var back struct{ At Time }
		if err := json.Unmarshal(raw, &back); err != nil || !back.At.Equal(at.Time) {
			t.Errorf("%d ns: read back as %v, %v", ns, back.At, err)
		}
	}
}
