package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"anvil/stages/internal/load"
	"anvil/stages/internal/prompt"
	"anvil/stages/record"
)

// A Drive is one phase: prompts, a load, and the evidence of it.
type Drive struct {
	Target *Target
	Ask    Ask
	Source prompt.Source
	Plan   load.Plan
	Warm   int  // connections to open before the start
	Fresh  bool // a connection for each request

	Retries int                       // further tries of a request that was refused
	Cancel  func(i int) time.Duration // when request i is given up by intention, after its first output; nil: never

	Client  *load.Client
	capture *load.Capture
	file    *os.File
	samples *load.Slab[load.Sample]
	faults  *load.Slab[load.Fault]
	bodies  [][]byte // prepared before the phase, by index
	workers sync.Map // slot to *load.Worker, for slots that are made during the phase
	earlier sync.Map // request to []load.Tried: its tries but the last
	begun   int
	decoded int  // of those that began
	sealed  bool // the capture can be decoded
	kept    bool // its file has a name
}

// preparedBytes is how much of the requests is held in memory before a phase;
// the rest is built when its turn comes, between the end of one request and the
// start of the next.
const preparedBytes = 512 << 20

// Prepare builds what the phase will send and opens the capture in folder,
// which may be nil. After an error nothing is left open.
func (d *Drive) Prepare(ctx context.Context, folder *os.Root, planned int) (err error) {
	if err := d.check(); err != nil {
		return err
	}
	file, err := captureFile(folder)
	if err != nil {
		return err
	}
	d.file, d.kept = file, folder != nil
	d.capture = load.NewCapture(file, d.slots(), d.hiding())
	d.Client = d.Target.Client(d.Fresh)
	defer func() {
		if err != nil {
			d.letGo()
			err = errors.Join(err, d.capture.Close(), d.file.Close())
		}
	}()
	d.samples, d.faults = load.NewSlab[load.Sample](planned), load.NewSlab[load.Fault](planned)
	held := 0
	for i := 0; i < planned && held < preparedBytes; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := d.Target.Body(d.Ask, d.Source.At(i))
		if err != nil {
			return err
		}
		d.bodies = append(d.bodies, b)
		held += len(b)
	}
	for slot := range d.Plan.Workers {
		d.worker(slot)
	}
	if !d.Fresh && d.Warm > 0 {
		d.Client.Warm(ctx, d.Warm)
	}
	return ctx.Err()
}

// check refuses what would make the phase another one than the plan says.
func (d *Drive) check() error {
	if n := d.Target.env.Secrets.Longest(); n > load.MaxSecret {
		return fmt.Errorf(
			"endpoint %s: a secret is %d bytes long in one of its spellings (as it is, in JSON, in a URL or in base64); the capture can hide one of at most %d; use a shorter key",
			d.Target.Endpoint.Name, n, load.MaxSecret)
	}
	if n := d.Source.Len(); n >= 0 && d.Plan.Workers == nil && len(d.Plan.Due) > n {
		return fmt.Errorf("%d arrivals are due and there are %d prompts", len(d.Plan.Due), n)
	}
	return nil
}

// slots is for how many workers room is made before the phase; more make their own.
func (d *Drive) slots() int {
	if d.Plan.Workers != nil {
		return len(d.Plan.Workers)
	}
	return max(8, min(d.Plan.InFlight, 256))
}

func (d *Drive) hiding() load.Hiding {
	s := d.Target.env.Secrets
	return load.Hiding{Whole: s.RedactBytes, Cut: s.RedactCut, Longest: s.Longest()}
}

// letGo closes the workers and every connection.
func (d *Drive) letGo() {
	d.workers.Range(func(_, w any) bool { w.(*load.Worker).Close(); return true })
	d.workers.Clear()
	d.Client.Close()
}

// captureName is the capture's name in the attempt's folder.
const captureName = "capture"

func captureFile(folder *os.Root) (*os.File, error) {
	if folder != nil {
		return folder.Create(captureName)
	}
	f, err := os.CreateTemp("", "anvil-capture-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

func (d *Drive) worker(slot int) *load.Worker {
	if w, ok := d.workers.Load(slot); ok {
		return w.(*load.Worker)
	}
	w := d.Client.NewWorker(d.capture, d.Target.Watcher())
	d.workers.Store(slot, w)
	return w
}

// Body returns the request of that index.
func (d *Drive) Body(i int) ([]byte, error) {
	if i < len(d.bodies) {
		return d.bodies[i], nil
	}
	return d.Target.Body(d.Ask, d.Source.At(i))
}

// Run runs the phase. Begin is called when everything is ready and the clock
// has been set. When stop closes nothing more is issued. A capture that takes no
// more ends it at once: what came of further requests would be lost.
func (d *Drive) Run(ctx context.Context, stop <-chan struct{}, begin func()) load.Result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-d.capture.Failed():
			cancel()
		case <-ctx.Done():
		}
	}()
	plan := d.Plan
	plan.Prompts = max(d.Source.Len(), 0)
	phase := load.Phase{
		Plan: plan, Now: d.Client.Now, Abort: func() { d.Client.Abort(); d.capture.Abort() },
		Begin: func() { d.Client.Begin(); begin() },
		Send:  func(slot, i int, due int64) int64 { return d.send(ctx, stop, slot, i, due) },
		Shed: func(i int, due int64) {
			s := d.samples.At(i)
			*s = load.NewSample(due)
			s.Ending = load.EndShed
			d.capture.Mark(i, 0, s, load.Fault{})
		},
	}
	r := phase.Run(ctx, stop)
	d.begun = r.Begun
	d.letGo()
	return r
}

// send sends request i with its tries. It returns when the slot is free: at the
// end of the answer, or when the server had ended its body behind it.
func (d *Drive) send(ctx context.Context, stop <-chan struct{}, slot, i int, due int64) int64 {
	s := d.samples.At(i)
	body, err := d.Body(i)
	if err != nil {
		// A request that cannot be built was built once before: it cannot happen.
		*s = load.NewSample(due)
		*d.faults.At(i) = load.Fault{Class: "request", Message: err.Error()}
		return d.Client.Now()
	}
	job := load.Job{Request: i, Payload: body}
	if d.Cancel != nil {
		job.CancelAfter = d.Cancel(i)
	}
	w := d.worker(slot)
	for ; ; job.Try++ {
		*s = load.NewSample(due)
		fault := w.Do(ctx, job, s)
		*d.faults.At(i) = fault
		if job.Try >= d.Retries || !s.Refused() || d.hopeless(s) || !d.pause(ctx, stop, s.RetryAfter, job.Try) {
			break
		}
		before, _ := d.earlier.Load(i)
		tries, _ := before.([]load.Tried)
		kept := *s
		d.earlier.Store(i, append(tries, load.Tried{Sample: &kept, Fault: fault}))
	}
	d.Target.env.Progress.Done.Add(1)
	return s.End + w.Settled()
}

// Between two tries a worker waits as long as the server asks; where it asks for
// nothing, firstPause, doubled with each try up to maxPause.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 30 * time.Second
)

// hopeless tells whether the server asks for a longer pause than a request may
// take at all.
func (d *Drive) hopeless(s *load.Sample) bool {
	total := d.Target.limits.Total.Std()
	return total > 0 && s.RetryAfter > int64(total)
}

// pause waits before the next try and tells whether there is to be one. It ends
// with the phase's own end.
func (d *Drive) pause(ctx context.Context, stop <-chan struct{}, asked int64, try int) bool {
	wait := time.Duration(asked)
	if wait == 0 {
		wait = min(firstPause<<min(try, 16), maxPause)
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-stop:
	case <-ctx.Done():
	case <-d.Client.Aborted():
	}
	return false
}

// Note writes a remark on the phase into the capture, for Recover.
func (d *Drive) Note(text []byte) { d.capture.Note(text) }

// Recover takes the phase from what a killed process left in folder, and
// returns the remark on it, nil for none, and the last stamp that is known.
func (d *Drive) Recover(folder *os.Root) (note []byte, last int64, err error) {
	if d.file, err = folder.OpenFile(captureName, os.O_RDWR, 0); err != nil {
		return nil, 0, err
	}
	r, err := load.Recover(d.file)
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("read capture: %w", err), d.file.Close())
	}
	d.capture, d.begun, d.sealed, d.kept = r.Capture, r.Begun, true, true
	d.samples, d.faults = load.NewSlab[load.Sample](r.Begun), load.NewSlab[load.Fault](r.Begun)
	for i := range r.Begun {
		*d.samples.At(i) = load.NewSample(load.None)
	}
	for i, tries := range r.Tries {
		last := len(tries) - 1
		*d.samples.At(i), *d.faults.At(i) = *tries[last].Sample, tries[last].Fault
		if last > 0 {
			d.earlier.Store(i, tries[:last])
		}
	}
	return r.Note, r.Last, nil
}

// Connections counts what was done with connections; of a recovered phase as
// far as its requests tell it.
func (d *Drive) Connections() load.Connections {
	if d.Client != nil {
		return d.Client.Connections()
	}
	var c load.Connections
	used, answered := map[int32]bool{}, -1
	for i := range d.begun {
		s := d.samples.At(i)
		if s.Status != 0 {
			answered = i
		}
		if s.Conn == 0 {
			continue
		}
		if used[s.Conn] {
			c.Reused++
		}
		used[s.Conn] = true
		if s.Replaced {
			c.Replaced++
		}
	}
	c.Opened = int64(len(used))
	if answered >= 0 {
		c.Protocol = d.protocol(answered)
	}
	return c
}

// protocol is that of the answer to request i, by its own words: a server that is
// asked for HTTP/2 need not speak it. "" where they cannot be read.
func (d *Drive) protocol(i int) (name string) {
	before, _ := d.earlier.Load(i)
	tries, _ := before.([]load.Tried)
	head := func(b []byte) { name, _, _ = strings.Cut(string(b), " ") }
	if err := d.capture.Replay(i, len(tries), head, func(load.Read, []byte) {}); err != nil {
		return ""
	}
	return name
}

// Seal ends the capture: answers can be decoded from then on.
func (d *Drive) Seal() error {
	err := d.capture.Close()
	d.sealed = err == nil
	return err
}

// Waits is how often a worker waited for the capture.
func (d *Drive) Waits() int64 { return d.capture.Waits() }

// Begun is one more than the last request that began.
func (d *Drive) Begun() int { return d.begun }

// Sample returns what the load core left of request i.
func (d *Drive) Sample(i int) *load.Sample { return d.samples.At(i) }

// Started returns when the first try of request i began; None for never.
func (d *Drive) Started(i int) int64 {
	if before, ok := d.earlier.Load(i); ok {
		return before.([]load.Tried)[0].Sample.Start
	}
	return d.samples.At(i).Start
}

// Attempt decodes request i. Those past the last one that began were not started.
func (d *Drive) Attempt(i int) (*record.Attempt, error) {
	p := d.Source.At(i)
	if i >= d.begun {
		return d.Target.Attempt(d.Ask, p, i, nil, d.capture, nil)
	}
	d.decoded++
	body, err := d.Body(i)
	if err != nil {
		return nil, err
	}
	before, _ := d.earlier.Load(i)
	tries, _ := before.([]load.Tried)
	tries = append(tries, load.Tried{Sample: d.samples.At(i), Fault: *d.faults.At(i)})
	a, err := d.Target.Attempt(d.Ask, p, i, body, d.capture, tries)
	if last := tries[len(tries)-1].Sample; err == nil && len(tries) <= d.Retries && last.Refused() && d.hopeless(last) {
		a.Notes = append(a.Notes, "retry_after_exceeds_total")
	}
	return a, err
}

// Close lets the capture's file go. What an answer spells of a secret does not
// stay in it; answers that nobody asked for are decoded to know.
func (d *Drive) Close() error {
	return errors.Join(d.purge(), d.file.Close())
}

func (d *Drive) purge() error {
	if !d.sealed || !d.kept || d.Target.env.Secrets.Longest() == 0 {
		return nil
	}
	if d.Ask.Logprobs = nil; d.decoded < d.begun {
		for i := range d.begun {
			if _, err := d.Attempt(i); err != nil {
				return err
			}
		}
	}
	return d.capture.Purge()
}
