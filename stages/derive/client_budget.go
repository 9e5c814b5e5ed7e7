package derive

import "time"

// MeasureContract is the contract of measure whose documents are known here: what
// was measured under another is held against its attempts alone, and its fixed
// texts and limits are not.
const MeasureContract = 1

// The budgets of a measuring client under MeasureContract. Above the first its
// send lag is a limitation; at BusyShare of its processors it is marginal, and
// beyond the others the figures may be its own.
const (
	LagBudget      = 5 * time.Millisecond
	BusyShare      = 0.7
	FullShare      = 0.9
	WaitLimit      = 20 * time.Millisecond // scheduling latency, p99
	ThrottleLimit  = 0.05                  // of the phase
	CoalescedLimit = 0.01                  // share of answers whose first output is no arrival of its own
)
