package pipeline

import (
	"fmt"
	"strings"
	"time"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

// A BusyError says that another process holds what this run needs: exit code 8.
type BusyError struct {
	What   string // "endpoint http://localhost:8000", "run glm-4k-…"
	Holder Holder
	Age    time.Duration // since the holder took it
}

// A Holder is who holds a lock, as it wrote itself into the lock's file. All is
// empty when the file says nothing: the holder has only just taken it.
type Holder struct {
	PID   int        `json:"pid"`
	Host  string     `json:"host"`
	Run   string     `json:"run,omitempty"`
	Plan  string     `json:"plan,omitempty"`
	Since stage.Time `json:"since"`
}

// Error names what is held, by whom and for how long.
func (e *BusyError) Error() string {
	if e.Holder.PID == 0 {
		return e.What + " is held by another process"
	}
	by := fmt.Sprintf("%s is held by process %d on %s", e.What, e.Holder.PID, e.Holder.Host)
	if e.Holder.Run != "" {
		by += " (run " + e.Holder.Run + ")"
	} else if e.Holder.Plan != "" {
		by += " (plan " + e.Holder.Plan + ")"
	}
	return by + " for " + e.Age.Round(time.Second).String()
}

// Hint says what can be done about it.
func (e *BusyError) Hint() string { return "wait for it to end, or run with --wait" }

// A Difference is one place at which what the plan asks for now differs from
// what an earlier attempt was told. Path is written as the plan writes it:
// "with.load.rate" in the configuration, "with.dataset.sha256" of a file that it
// names, "inputs.<port>.<field>" of what arrives on a port (with "[i]" where
// several do), "contract" or "salt"; below "plan" where whole plans are
// compared. A side that has no value is nil.
type Difference struct {
	Path   string `json:"path"`
	Before any    `json:"before"`
	After  any    `json:"after"`
}

// A BaseError says that no base run, or not the one that was named, can serve
// what the plan asks for: exit code 3.
type BaseError struct {
	Base        string // "" when none was found
	Stage       string // the stage that it cannot serve, "" for none in particular
	Reason      string
	Differences []Difference
	Remedy      string // "" for what helps a derived run
}

// Error names the run, the stage and every field that differs with both values.
func (e *BaseError) Error() string {
	var b strings.Builder
	if e.Base != "" {
		fmt.Fprintf(&b, "run %s cannot serve", e.Base)
	} else {
		b.WriteString("no base run")
	}
	if e.Stage != "" {
		fmt.Fprintf(&b, " stage %s", e.Stage)
	}
	if e.Reason != "" {
		b.WriteString(": " + e.Reason)
	}
	for _, d := range e.Differences {
		fmt.Fprintf(&b, "\n  %s: %s -> %s", d.Path, showValue(d.Before), showValue(d.After))
	}
	return b.String()
}

// Hint says what can be done about it.
func (e *BaseError) Hint() string {
	if e.Remedy != "" {
		return e.Remedy
	}
	if e.Base == "" {
		return "run the whole plan first, or name a run with --base"
	}
	return "run the whole plan, name another run with --base, or undo the change"
}

// A BrokenError says that something that cannot be made again is not what its
// digest says: exit code 6.
type BrokenError struct {
	Stage  string // that made it or read it
	Name   string
	Digest digest.Digest
	Err    error
}

// Error names the artifact.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("%s of %s (sha256 %s) is damaged and cannot be made again: %v", e.Name, e.Stage, e.Digest, e.Err)
}

// Unwrap returns what was found.
func (e *BrokenError) Unwrap() error { return e.Err }

// Hint says what can be done about it.
func (e *BrokenError) Hint() string {
	return "anvil provenance verify names everything that is damaged; bring the object back from a copy, or run the whole plan again"
}

// A SelectionError says that a flag names a stage that the plan does not have,
// or that flags contradict each other: exit code 2.
type SelectionError struct{ Reason, Suggestion string }

// Error says what is wrong.
func (e *SelectionError) Error() string { return e.Reason }

// Hint names what was probably meant.
func (e *SelectionError) Hint() string { return e.Suggestion }
