package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"anvil/pipeline/stage"
	"anvil/stages/internal/load"
	"anvil/stages/internal/prompt"
	"anvil/stages/internal/target"
	"anvil/stages/record"
)

// A setup is all of a phase that is known before it.
type setup struct {
	seen     scouted
	source   prompt.Source
	plan     load.Plan
	planned  int
	known    bool // planned is
	schedule schedule
}

func (m measure) setup(ctx context.Context, in stage.Inputs) (s setup, err error) {
	if s.seen, err = readScout(ctx, in); err != nil {
		return s, err
	}
	if s.source, err = target.Prompts(ctx, in, m.Workload, s.seen.BytesPerToken); err != nil {
		return s, err
	}
	due, err := m.trace(ctx, in)
	if err != nil {
		return s, err
	}
	if s.plan, err = m.plan(s.source.Len(), due); err != nil {
		return s, err
	}
	s.planned, s.known = planned(s.plan)
	s.schedule = m.schedule(s.plan, s.planned, s.known)
	return s, nil
}

// Run prepares everything, runs the phase, and decodes its evidence afterwards.
func (m measure) Run(ctx context.Context, env stage.Env, in stage.Inputs, out *stage.Outputs) (err error) {
	s, err := m.setup(ctx, in)
	if err != nil {
		return err
	}
	if err := m.room(env, s); err != nil {
		return err
	}
	if err := save(env, s.schedule); err != nil {
		return err
	}
	t, err := target.Open(ctx, env, in, m.Endpoint, m.Limits)
	if err != nil {
		return err
	}
	env.Progress.SetUnit("requests")
	env.Progress.Total.Store(int64(s.planned))
	drive := m.drive(t, s)
	reset, err := t.ResetCache(ctx, m.Cache.Reset)
	if err != nil {
		return err
	}
	before := t.Counters(ctx)
	if err := drive.Prepare(ctx, env.Folder, s.planned); err != nil {
		return fmt.Errorf("prepare the phase: %w", err)
	}
	defer func() {
		if err = errors.Join(err, drive.Close()); err != nil {
			err = onceOnly{err}
		}
	}()
	phase := m.phase(ctx, env, drive, phase{tool: env.Tool, reset: reset, before: before})
	m.scarce(env, s, phase.result)
	if before != nil {
		phase.after = t.Counters(ctx)
	}
	if err := drive.Seal(); err != nil {
		return err
	}
	phase.waits = drive.Waits()
	runtime.GC() // the phase's buffers are garbage: they go before decoding makes more
	w, err := m.witness(env, t, s, drive, phase)
	if err != nil {
		return err
	}
	w.recount = m.recount(ctx, env, t, phase)
	defer w.recount.close()
	if err := w.publish(in, out); err != nil {
		return err
	}
	w.seen.Note(env.Stage, w.sent...)
	return w.verdict(ctx, out)
}

// onceOnly is an error after the phase began: the engine has seen its requests,
// and a second attempt would measure another state of it.
type onceOnly struct{ err error }

func (e onceOnly) Error() string   { return e.err.Error() }
func (e onceOnly) Unwrap() []error { return []error{e.err, stage.ErrFinal} }

// scarce says so when a phase that time should have ended ran out of prompts.
func (m measure) scarce(env stage.Env, s setup, r load.Result) {
	if n := s.source.Len(); m.Load.Duration != nil && n >= 0 && r.Begun == n {
		env.Log.Warn().Int("rows", n).Msg("the dataset was used up and nothing more was issued; workload.epochs sends it again")
	}
}

func (m measure) drive(t *target.Target, s setup) *target.Drive {
	return &target.Drive{
		Target: t, Ask: m.ask(), Source: s.source, Plan: s.plan, Fresh: m.Connections == "new", Warm: m.warm(s.plan, s.planned),
		Retries: m.RequestRetries, Cancel: m.cancel(),
	}
}

func (m measure) witness(env stage.Env, t *target.Target, s setup, d *target.Drive, p phase) (*witness, error) {
	n := s.planned
	if !s.known {
		n = p.result.Begun
	}
	sent, err := t.Sent()
	return &witness{seen: sent, measure: m, env: env, target: t, scout: s.seen, drive: d, phase: p, planned: n, schedule: s.schedule}, err
}

// publish decodes the phase and writes everything that follows from it.
func (w *witness) publish(in stage.Inputs, out *stage.Outputs) error {
	if err := w.write(out, in); err != nil {
		return err
	}
	return out.JSON(scheduleName, w.schedule)
}

func (m measure) ask() target.Ask {
	return target.Ask{
		MaxTokens: m.MaxTokens, Sampling: m.Sampling.Sampling, StoreText: m.StoreText, Strict: m.Workload.Strict(),
		ListTries: m.RequestRetries > 0,
	}
}

// warm is how many connections are opened before the phase.
func (m measure) warm(p load.Plan, n int) int {
	switch {
	case m.Connections != "warm":
		return 0
	case p.Workers != nil && p.Requests > 0:
		return min(len(p.Workers), p.Requests)
	case p.Workers != nil:
		return len(p.Workers)
	case p.InFlight > 0:
		return min(p.InFlight, n)
	}
	return min(n, 64)
}

// save writes the schedule to the attempt's folder before anything is sent.
func save(env stage.Env, doc schedule) (err error) {
	if env.Folder == nil {
		return nil
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	f, err := env.Folder.Create(scheduleName)
	if err != nil {
		return fmt.Errorf("save schedule: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(append(raw, '\n')); err != nil {
		return fmt.Errorf("save schedule: %w", err)
	}
	return f.Sync()
}

// A phase is what is known of it besides its requests.
type phase struct {
	result   load.Result
	evidence load.Evidence
	from, to time.Time // wall clock, for labels
	waits    int64     // of workers for the capture
	killed   bool      // decoded by a later process: of the client nothing is known
	tool     stage.Tool
	reset    string // what became of the cache's
	before   target.Counters
	after    target.Counters
	wall     time.Duration
}

// phase runs it; p holds what was known before.
func (m measure) phase(ctx context.Context, env stage.Env, d *target.Drive, p phase) phase {
	watch := load.StartWatch()
	var begun time.Time
	p.result = d.Run(ctx, env.Stop, func() {
		p.from, begun = env.Now(), time.Now()
		d.Note(p.remark())
	})
	p.wall, p.to = time.Since(begun), env.Now() // together: a record compares them
	p.evidence = watch.End()
	p.evidence.CPU.IncludesModel = d.Target.Simulated
	return p
}

// order returns the planned requests in order of completion; those without an
// end come last, in the order of their indexes.
func (w *witness) order() []int {
	out := make([]int, w.planned)
	for i := range out {
		out[i] = i
	}
	end := func(i int) int64 {
		if i >= w.phase.result.Begun || w.drive.Sample(i).End == load.None {
			return 1<<63 - 1
		}
		return w.drive.Sample(i).End
	}
	slices.SortStableFunc(out, func(a, b int) int {
		switch x, y := end(a), end(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return a - b
	})
	return out
}

// write decodes the phase into attempts.
func (w *witness) write(out *stage.Outputs, in stage.Inputs) (err error) {
	file, err := out.Create(attemptsName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	rows, err := record.NewAttemptsWriter(file, w.header())
	if err != nil {
		return err
	}
	for _, i := range w.order() {
		a, err := w.drive.Attempt(i)
		if err != nil {
			return fmt.Errorf("decode request %d: %w", i, err)
		}
		w.recount.count(a)
		w.count(a)
		w.papers.add(a, w.measure.Load.closed())
		w.env.Progress.Count(string(a.Outcome))
		if err := rows.Write(a); err != nil {
			return fmt.Errorf("write attempts: %w", err)
		}
	}
	if err := rows.Close(w.status()); err != nil {
		return err
	}
	if err := out.JSON(measurementName, w.measurement()); err != nil {
		return err
	}
	w.limit(out, in)
	w.recount.limit(out)
	return w.papers.write(w, out)
}

func (w *witness) status() string {
	if w.phase.result.Interrupted {
		return "aborted"
	}
	return "completed"
}

// endedBy says what ended the issue of requests: a dataset that is used up ends
// a closed loop before its time.
func (w *witness) endedBy() string {
	switch rows := w.drive.Source.Len(); {
	case w.phase.result.Interrupted:
		return "interrupt"
	case w.measure.Load.Requests != nil:
		return "requests"
	case w.measure.Load.closed() && rows >= 0 && w.phase.result.Begun == rows:
		return "dataset"
	}
	return "duration"
}

func (w *witness) header() record.AttemptsHeader {
	m := w.measure
	h := record.AttemptsHeader{
		Client: "c0", Cell: w.env.Cell.Map(),
		Endpoint: record.AttemptsEndpoint{API: w.target.Protocol.Adapter.API(), Model: w.target.Model(), BaseURL: m.Endpoint.RecordURL()},
		Load:     m.raw.load, Stamps: "user", Seed: m.Workload.Seed,
		Clock: record.AttemptsClock{WallStartAt: target.Wall(w.phase.from), WallStartUnixNS: w.phase.from.UnixNano()},
		Request: record.AttemptsRequest{
			Protocol: m.Protocol, MaxTokens: w.outputCap(), Workload: m.raw.workload,
		},
	}
	_, h.Request.Sampling = w.target.SentSampling(m.Sampling, m.raw.sampling)
	if extra := w.target.Protocol.Endpoint.ExtraBody; len(extra) > 0 && string(extra) != "{}" {
		h.Request.ExtraBody = extra
	}
	h.Planned = &w.planned
	return h
}

// verdict holds the phase against its gates, and says so when it was cut short.
func (w *witness) verdict(ctx context.Context, out *stage.Outputs) error {
	w.gate(out)
	if !w.phase.result.Interrupted {
		return nil
	}
	return target.Aborted(ctx, w.env, "phase")
}
