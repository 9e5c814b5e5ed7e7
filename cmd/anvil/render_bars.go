package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"anvil/pipeline/event"
)

// liveBars renders events on a terminal: a bar for each stage that reports
// progress, and above the bars the lines that a log would have.
type liveBars struct {
	progress *mpb.Progress
	lines    plainLines
	bars     map[string]*stageBar
}

// A stageBar is one bar. What its decorators show is read by mpb's goroutine.
type stageBar struct {
	bar   *mpb.Bar
	event atomic.Pointer[event.Event]
	began time.Time
}

func newLiveBars(w io.Writer, opts ...mpb.ContainerOption) *liveBars {
	p := mpb.New(append([]mpb.ContainerOption{mpb.WithOutput(w), mpb.WithRefreshRate(150 * time.Millisecond)}, opts...)...)
	return &liveBars{progress: p, lines: plainLines{w: p, quiet: false}, bars: map[string]*stageBar{}}
}

// Emit shows the event.
func (l *liveBars) Emit(e event.Event) {
	switch e.Event {
	case event.StageStarted:
		// The bar, or the line at its end, says it.
	case event.StageProgress:
		l.advance(e)
	case event.StageFinished:
		l.drop(e.Stage)
		l.lines.Emit(e)
	default:
		l.lines.Emit(e)
	}
}

func (l *liveBars) advance(e event.Event) {
	if e.Done == 0 && e.Total == 0 {
		return
	}
	b := l.bars[e.Stage]
	if b == nil {
		b = l.add(e)
		l.bars[e.Stage] = b
	}
	b.event.Store(&e)
	b.bar.SetTotal(max(e.Total, e.Done+1), false) // the end of the stage completes a bar, never a count
	b.bar.SetCurrent(e.Done)
}

func (l *liveBars) add(e event.Event) *stageBar {
	b := &stageBar{began: e.At.Add(-e.Elapsed)}
	b.event.Store(&e)
	show := func(f func(event.Event) string) decor.Decorator {
		return decor.Any(func(decor.Statistics) string { return f(*b.event.Load()) })
	}
	b.bar = l.progress.New(max(e.Total, e.Done+1), mpb.BarStyle().Rbound("|").Lbound("|"),
		mpb.PrependDecorators(decor.Name("  "+line(e.Stage)+" ", decor.WCSyncSpaceR)),
		mpb.AppendDecorators(show(howFar), show(b.pace)),
		mpb.BarRemoveOnComplete(),
	)
	return b
}

func (l *liveBars) drop(stage string) {
	if b := l.bars[stage]; b != nil {
		b.bar.Abort(true)
		delete(l.bars, stage)
	}
}

// Close leaves a clean terminal: no bar stays behind, the cursor at a new line.
func (l *liveBars) Close() {
	for stage := range l.bars {
		l.drop(stage)
	}
	// mpb draws once more at its end only for a bar that was never drawn; without
	// one, lines written since the last refresh would be lost.
	last := l.progress.New(1, mpb.NopStyle(), mpb.BarRemoveOnComplete(), mpb.BarFillerTrim())
	last.Abort(true)
	l.progress.Wait()
}

// howFar is the count beside a bar; bytes as people read them.
func howFar(e event.Event) string {
	if e.Unit == "bytes" {
		return " " + size(e.Done)
	}
	return " " + amount(e)
}

// pace is the rate so far and, where the total is known, the time that is left
// at this rate.
func (b *stageBar) pace(e event.Event) string {
	elapsed := e.At.Sub(b.began).Seconds()
	if elapsed <= 0 || e.Done == 0 {
		return ""
	}
	rate := float64(e.Done) / elapsed
	text := fmt.Sprintf(", %s/s", figure(rate))
	if e.Unit == "bytes" {
		text = fmt.Sprintf(", %s/s", size(int64(rate)))
	}
	if e.Total > e.Done {
		left := time.Duration(float64(e.Total-e.Done) / rate * float64(time.Second))
		text += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	return text
}
