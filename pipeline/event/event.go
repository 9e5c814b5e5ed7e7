// Package event carries what a run reports while it goes on: one stream of
// events, emitted in order by one goroutine, rendered by the command line.
package event

import (
	"encoding/json"
	"time"
)

// The events. A stage that does work is started, reports progress and is
// finished; one that does none (restored, taken over, blocked, stale, skipped)
// is finished alone. A finding and a warning belong to a stage, or to the run.
const (
	RunStarted    = "run.started"
	StageStarted  = "stage.started"
	StageProgress = "stage.progress"
	StageFinding  = "stage.finding"  // a gate that failed
	StageFinished = "stage.finished" // status says how
	StageWarning  = "stage.warning"  // something that the user should know and that stops nothing
	RunWarning    = "run.warning"
	RunWaiting    = "run.waiting" // for a lock that another process holds
	RunFinished   = "run.finished"
)

// An Event is one line of `plan run --json` (anvil.event/v1). Fields that do
// not apply are left out.
type Event struct {
	Event   string    `json:"event"` // one of the constants above
	At      time.Time `json:"at"`
	Run     string    `json:"run,omitempty"`
	Stage   string    `json:"stage,omitempty"`
	Kind    string    `json:"kind,omitempty"`
	Base    string    `json:"base,omitempty"`   // of a derived run, on "run.started"
	Status  string    `json:"status,omitempty"` // the statuses of contracts.md 1
	How     string    `json:"how,omitempty"`    // executed, restored, taken_over, reused
	Attempt int       `json:"attempt,omitempty"`

	Elapsed time.Duration  `json:"elapsed_ns,omitempty"`
	Done    int64          `json:"done,omitempty"`
	Total   int64          `json:"total,omitempty"`
	Unit    string         `json:"unit,omitempty"`
	Tally   map[string]int `json:"tally,omitempty"` // outcome to count, of a measurement under way
	Code    string         `json:"code,omitempty"`  // of a finding, a warning or an error
	Text    string         `json:"text,omitempty"`

	Finished *Finished `json:"-"` // set on "run.finished" alone; MarshalJSON flattens it
}

// Finished is what the last event adds.
type Finished struct {
	Exit        int     `json:"exit"`
	Record      *Record `json:"record"` // nil when the run made none
	Limitations int     `json:"limitations"`
}

// Record names the final record of a run.
type Record struct {
	Path   string `json:"path"` // from the workspace
	SHA256 string `json:"sha256"`
	ID     string `json:"id"`
}

// MarshalJSON writes the event as one flat object. Its time always has nine
// digits of nanoseconds; time.Time drops the zeros at the end.
func (e Event) MarshalJSON() ([]byte, error) {
	type plain Event // without this method
	return json.Marshal(struct {
		Event string `json:"event"`
		At    string `json:"at"`
		plain
		*Finished
	}{e.Event, e.At.UTC().Format("2006-01-02T15:04:05.000000000Z"), plain(e), e.Finished})
}

// A Sink takes events. Emit is called by one goroutine at a time and must not
// keep the event's map.
type Sink interface{ Emit(Event) }

// Discard is the sink that drops everything.
var Discard Sink = discard{}

type discard struct{}

func (discard) Emit(Event) {}
