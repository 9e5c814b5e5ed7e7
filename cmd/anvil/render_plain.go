package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"anvil/pipeline/event"
)

// plainLines renders events as one line each, for pipes, CI and terminals that
// want no bars. It writes to stderr; results go to stdout elsewhere.
type plainLines struct {
	w     io.Writer
	quiet bool                 // warnings, findings and failures alone
	last  map[string]time.Time // when a stage's progress was last shown
	found map[string]int       // a stage's findings so far
}

// progressEvery keeps a log readable: a stage reports at most so often.
const progressEvery = 2 * time.Second

// Emit prints the event.
func (p *plainLines) Emit(e event.Event) {
	switch e.Event {
	case event.RunStarted:
		p.info("run %s%s", e.Run, suffix(" from base ", e.Base))
	case event.RunWaiting:
		p.info("waiting: %s", line(e.Text))
	case event.StageStarted:
		p.stage(e, "started"+suffix(", attempt ", attempt(e.Attempt)))
	case event.StageProgress:
		p.progress(e)
	case event.StageFinding:
		if p.found == nil {
			p.found = map[string]int{}
		}
		p.found[e.Stage]++
		p.warn("%s: finding: %s", e.Stage, line(e.Text))
	case event.StageWarning:
		p.warn("%s: %s", e.Stage, line(e.Text))
	case event.RunWarning:
		p.warn("%s", line(e.Text))
	case event.StageFinished:
		p.finished(e)
	}
}

func (p *plainLines) info(format string, args ...any) {
	if !p.quiet {
		fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *plainLines) warn(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }

func (p *plainLines) stage(e event.Event, what string) { p.info("  %-12s %s", e.Stage, what) }

func (p *plainLines) finished(e event.Event) {
	text := okWith(e.Status, p.found[e.Stage])
	if e.How != "" && e.How != "executed" {
		text += " (" + strings.ReplaceAll(e.How, "_", " ") + ")"
	}
	if e.Elapsed > 0 {
		text += fmt.Sprintf(" in %.1f s", e.Elapsed.Seconds())
	}
	switch {
	case e.Status == "blocked" && e.Text != "":
		text = line(e.Text) // "blocked by measure"
	case e.Text != "":
		text += ": " + line(e.Text)
	}
	switch e.Status {
	case "failed", "aborted", "lost", "blocked":
		p.warn("  %-12s %s", e.Stage, text)
	default:
		p.stage(e, text)
	}
}

// okWith is a status as people read it: "ok" alone would belie the findings, of
// which the status of the contract says nothing.
func okWith[S ~string](status S, findings int) string {
	switch {
	case status != "ok" || findings == 0:
		return string(status)
	case findings == 1:
		return "ok, with a finding"
	}
	return fmt.Sprintf("ok, with %d findings", findings)
}

func (p *plainLines) progress(e event.Event) {
	if p.last == nil {
		p.last = map[string]time.Time{}
	}
	if e.Done == 0 && e.Total == 0 || e.At.Sub(p.last[e.Stage]) < progressEvery {
		return
	}
	p.last[e.Stage] = e.At
	p.stage(e, amount(e))
}

// amount says how far a stage is: "12/100 requests, 9 ok, 3 cut".
func amount(e event.Event) string {
	var b strings.Builder
	if e.Total > 0 {
		fmt.Fprintf(&b, "%d/%d %s", e.Done, e.Total, e.Unit)
	} else {
		fmt.Fprintf(&b, "%d %s", e.Done, e.Unit)
	}
	for _, outcome := range slices.Sorted(maps.Keys(e.Tally)) {
		fmt.Fprintf(&b, ", %d %s", e.Tally[outcome], outcome)
	}
	return strings.TrimSpace(b.String())
}

func suffix(lead, s string) string {
	if s == "" {
		return ""
	}
	return lead + s
}

func attempt(n int) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprint(n)
}
