package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/vbauerster/mpb/v8"

	"anvil/pipeline/event"
)

// bars returns what was written to a terminal of that width, which is refreshed
// after each event and while the bars are closed.
func bars(t *testing.T, width int, events ...event.Event) string {
	t.Helper()
	var out bytes.Buffer
	tick := make(chan any)
	l := newLiveBars(&out, mpb.WithWidth(width), mpb.WithManualRefresh(tick))
	for _, e := range events {
		l.Emit(e)
		tick <- time.Now()
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		l.Close()
	}()
	for {
		select {
		case tick <- time.Now():
		case <-closed:
			return out.String()
		}
	}
}

func TestBarsShowCountTallyRateAndTimeLeft(t *testing.T) {
	start := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	got := bars(t, 100,
		event.Event{Event: event.StageProgress, Stage: "measure", At: start.Add(10 * time.Second), Elapsed: 10 * time.Second, Done: 20, Total: 100, Unit: "requests", Tally: map[string]int{"ok": 19, "cut": 1}},
		event.Event{Event: event.StageProgress, Stage: "weights", At: start.Add(2 * time.Second), Elapsed: 2 * time.Second, Done: 4 << 30, Unit: "bytes"},
		event.Event{Event: event.StageWarning, Stage: "measure", Text: "bad\x1b[31m"},
		event.Event{Event: event.StageFinished, Stage: "measure", Status: "ok", Elapsed: 50 * time.Second},
	)
	for _, want := range []string{"20/100 requests, 1 cut, 19 ok", "2/s", "40s left", "4.0 GiB", "2.0 GiB/s", `measure: bad\x1b[31m`, "measure      ok in 50.0 s"} {
		if !strings.Contains(got, want) {
			t.Errorf("the screen lacks %q:\n%q", want, got)
		}
	}
}

func TestBarsSurviveANarrowTerminal(t *testing.T) {
	for _, width := range []int{1, 5, 20} {
		got := bars(t, width, event.Event{Event: event.StageProgress, Stage: "measure[concurrency=16,rep=2]", Done: 1, Total: 2, Unit: "requests"})
		if got == "" {
			t.Errorf("width %d: nothing was drawn", width)
		}
	}
}

func TestPlainLinesWhereNothingMayMove(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"CI": {"CI": "true", "TERM": "xterm"}, "NO_COLOR": {"NO_COLOR": "1", "TERM": "xterm"}, "dumb": {"TERM": "dumb"}, "no TERM": {}, "no terminal": {"TERM": "xterm"},
	} {
		a := &app{getenv: func(k string) (string, bool) { v, ok := env[k]; return v, ok }}
		if a.live(&bytes.Buffer{}) {
			t.Errorf("%s: bars would be drawn", name)
		}
	}
}
