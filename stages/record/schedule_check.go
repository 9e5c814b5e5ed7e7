package record

import (
	"encoding/json"

	"anvil/schemas"
	"anvil/stages/internal/jsontree"
	"anvil/stages/internal/stat"
)

// ScheduleSchema is the id of schedule.json.
const ScheduleSchema schemas.ID = "anvil.schedule/v1"

// checkSchedule: the members fit the mode, and the gaps are those of the times.
func checkSchedule(c *checker, doc jsontree.Value) {
	c.ownDocument(ScheduleSchema, doc)
	var s struct {
		Mode    string  `json:"mode"`
		Planned *int64  `json:"planned"`
		Arrival *string `json:"arrival"`
		Workers []int64 `json:"workers"`
		DueNS   []int64 `json:"due_ns"`
	}
	if json.Unmarshal(doc.Raw(), &s) != nil {
		return // the schema names what is wrong
	}
	closed := s.Mode == "closed"
	for _, m := range []struct {
		name  string
		there bool
	}{{"arrival", !closed}, {"due_ns", !closed}, {"workers", closed}} {
		v := doc.Get(m.name)
		c.holds(v.Is(jsontree.Null) != m.there, "/"+m.name, "schedule.mode", v, nil, "a %s loop has %s", s.Mode, map[bool]string{true: "one", false: "none"}[m.there])
	}
	if closed {
		c.holds(doc.Get("stream").Is(jsontree.Null), "/stream", "schedule.mode", doc.Get("stream"), nil, "a closed loop draws no arrivals")
	} else {
		c.intIs("/planned", "schedule.planned", doc.Get("planned"), int64(len(s.DueNS)), "%d times are listed", len(s.DueNS))
	}
	c.checkTimes("/due_ns", doc.Get("due_ns"), s.DueNS)
	c.checkTimes("/workers", doc.Get("workers"), s.Workers)
	c.checkGaps(doc.Get("gaps"), s.DueNS)
}

// checkTimes: none precedes the start or the one before it.
func (c *checker) checkTimes(pointer string, stored jsontree.Value, times []int64) {
	for i, v := range stored.Elems() {
		if i < len(times) {
			c.holds(times[i] >= 0 && (i == 0 || times[i] >= times[i-1]), jsontree.Index(pointer, i), "schedule.order", v, nil, "the times begin at 0 or later and do not go back")
		}
	}
}

// checkGaps recomputes the statistics of the gaps between the times.
func (c *checker) checkGaps(stored jsontree.Value, due []int64) {
	n := len(due) - 1
	if n < 1 {
		c.holds(stored.Is(jsontree.Null), "/gaps", "schedule.gaps", stored, nil, "there is no gap between %d times", len(due))
		return
	}
	if !stored.Is(jsontree.Object) {
		c.problem("/gaps", "schedule.gaps", stored, nil, "there are %d gaps", n)
		return
	}
	gaps := make([]float64, n)
	for i := range gaps {
		gaps[i] = float64(due[i+1] - due[i])
	}
	mean, deviation, cv := known(stat.Mean(gaps)), figure{}, figure{}
	if n > 1 {
		deviation = known(stat.StdDev(gaps))
	}
	if deviation.ok && mean.v > 0 {
		cv = known(deviation.v / mean.v)
	}
	c.intIs("/gaps/samples", "schedule.gaps", stored.Get("samples"), int64(n), "there are %d gaps", n)
	c.figureIs("/gaps/mean_ns", "schedule.gaps", stored.Get("mean_ns"), mean, "the mean of the gaps")
	// The writer sums squares of floats; of times that are evenly apart but for
	// their rounding, little more than the rounding is left.
	slack := 1e-9 * mean.v
	c.figureWithin("/gaps/stddev_ns", "schedule.gaps", stored.Get("stddev_ns"), deviation, slack, "their sample standard deviation")
	c.figureWithin("/gaps/cv", "schedule.gaps", stored.Get("cv"), cv, 1e-9, "the deviation by the mean")
}
