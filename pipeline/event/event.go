// Package event carries what a run reports while it goes on: one stream of
// events, emitted in order by one goroutine, rendered by the command line.
package event

import "time"

// An Event is one line of `plan run --json`. Fields that do not apply are left out.
type Event struct {
	Event   string    `json:"event"` // "run.started", "stage.started", …; the last is "run.finished"
	At      time.Time `json:"at"`
	Run     string    `json:"run,omitempty"`
	Stage   string    `json:"stage,omitempty"`
	Kind    string    `json:"kind,omitempty"`
	Status  string    `json:"status,omitempty"` // the statuses of contracts.md 1
	How     string    `json:"how,omitempty"`    // executed, restored, taken_over, reused
	Attempt int       `json:"attempt,omitempty"`

	Elapsed time.Duration  `json:"elapsed_ns,omitempty"`
	Done    int64          `json:"done,omitempty"`
	Total   int64          `json:"total,omitempty"`
	Unit    string         `json:"unit,omitempty"`
	Tally   map[string]int `json:"tally,omitempty"` // outcome to count, of a measurement under way
	Text    string         `json:"text,omitempty"`

	Finished *Finished `json:"-"` // set on "run.finished" alone; the renderer flattens it
}

// Finished is what the last event adds.
type Finished struct {
	Exit        int
	Record      *Record // nil when the run made none
	Limitations int
}

// Record names the final record of a run.
type Record struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	ID     string `json:"id"`
}

// A Sink takes events. Emit is called by one goroutine at a time and must not
// keep the event's map.
type Sink interface{ Emit(Event) }

// Discard is the sink that drops everything.
var Discard Sink = discard{}

type discard struct{}

func (discard) Emit(Event) {}
