package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"anvil/pipeline"
	"anvil/pipeline/store"
)

// The exit codes of design.md 9. Of several that apply to a run the executor
// says which counts.
const (
	exitOK            = 0
	exitInternal      = 1
	exitUsage         = 2 // usage, or a file that cannot be read
	exitPlan          = 3 // plan invalid, or a derived run that its base cannot serve
	exitStage         = 4 // a stage could not do its work
	exitFinding       = 5 // a gate, a weights mismatch, a validation or check problem
	exitProvenance    = 6
	exitNotComparable = 7
	exitBusy          = 8
	exitInsufficient  = 9
	exitInterrupted   = 130
)

// An exitError carries the exit code to the top. With printed set everything
// was said already and only the code is left.
type exitError struct {
	code    int
	name    string // for programs: "usage", "plan_invalid", …
	err     error
	hint    string
	more    map[string]any // further members of the error as JSON
	printed bool
}

func (e *exitError) Error() string {
	if e.err == nil {
		return e.name
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &exitError{code: exitUsage, name: "usage", err: fmt.Errorf(format, args...)}
}

// done ends a command whose output is complete with the given code.
func done(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitError{code: code, printed: true}
}

// report prints the error, if any is left to print, and returns the exit code.
func (a *app) report(err error) int {
	if err == nil {
		return exitOK
	}
	e := classify(err)
	if e.printed {
		return e.code
	}
	if a.json {
		said := map[string]any{"code": e.name, "message": e.Error(), "hint": orNull(e.hint)}
		maps.Copy(said, e.more)
		doc := map[string]any{"error": said}
		enc := json.NewEncoder(a.stderr)
		enc.SetEscapeHTML(false)
		if enc.Encode(doc) == nil {
			return e.code
		}
	}
	fmt.Fprintf(a.stderr, "anvil: %s\n", printable(e.Error()))
	if e.hint != "" {
		fmt.Fprintf(a.stderr, "  %s\n", printable(e.hint))
	}
	return e.code
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// classify gives each kind of error that the packages below return its code;
// it is the one table of them.
func classify(err error) *exitError {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e
	}
	for _, row := range errorTable {
		if row.is(err) {
			return &exitError{code: row.code, name: row.name, err: err, hint: hintOf(err)}
		}
	}
	return &exitError{code: exitInternal, name: "internal", err: err}
}

var errorTable = []struct {
	code int
	name string
	is   func(error) bool
}{
	{exitInterrupted, "interrupted", func(err error) bool {
		return errors.Is(err, errInterrupted) || errors.Is(err, pipeline.ErrInterrupted) || errors.Is(err, context.Canceled)
	}},
	{exitBusy, "busy", is[*pipeline.BusyError]},
	{exitPlan, "base_cannot_serve", is[*pipeline.BaseError]},
	{exitProvenance, "provenance_broken", is[*pipeline.BrokenError]},
	{exitUsage, "usage", is[*pipeline.SelectionError]},
	{exitStage, "disk_full", is[*store.FullError]},
	{exitStage, "read_only", is[*store.ReadOnlyError]},
	{exitStage, "workspace_gone", is[*store.GoneError]},
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// hintOf returns the remedy that an error of the packages below knows.
func hintOf(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}
