package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"anvil/pipeline/event"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

// walk brings every stage to its end and writes the run's papers. An error is
// for what kept anvil from keeping its own records; the first is returned.
func (e *execution) walk(ctx context.Context) (*Run, error) {
	release := e.halt.watch(ctx, e.opt.Interrupt, func() {})
	defer release()
	var fault fault
	if e.anythingOpen() {
		_, err := e.tool() // or nothing is executed
		fault.add(err)
	}
	if ok := fault.get() == nil && e.preflight(ctx); ok {
		err := e.graph.Walk(e.x.jobs(), e.graph.exclusive, func(id string) {
			n := e.graph.nodes[id]
			fault.add(e.visit(ctx, n, fault.get() != nil))
			e.lastExclusive(n)
		})
		fault.add(err)
	}
	fault.add(e.resources.Close())
	e.locks.release()
	r, err := e.finish(context.WithoutCancel(ctx), fault.get())
	return r, errors.Join(fault.get(), err)
}

// anythingOpen tells whether there are stages that may be executed.
func (e *execution) anythingOpen() bool {
	return slices.ContainsFunc(e.graph.order, func(n *node) bool { return n.outcome.status == "" })
}

// A fault is the first error of the executor itself.
type fault struct {
	mu  sync.Mutex
	err error
}

func (f *fault) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *fault) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// visit brings one stage to its end. All its needs were visited.
func (e *execution) visit(ctx context.Context, n *node, broken bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			n.outcome = outcome{status: prov.Failed, internal: true, err: &prov.ResultError{Code: CodePanic, Message: fmt.Sprint(p)}}
			err = fmt.Errorf("stage %s: panic: %v\n%s", n.ID, p, debug.Stack())
		}
	}()
	switch {
	case n.outcome.status != "": // decided before anything ran
	case broken || e.halt.halted():
		n.outcome = outcome{status: prov.NotStarted}
	default:
		if err := e.start(ctx, n); err != nil {
			return err
		}
	}
	return e.close(n)
}

// start decides a stage whose inputs are known only now, and executes it unless
// it can be restored.
func (e *execution) start(ctx context.Context, n *node) error {
	if root, continues, blocked := n.block(); blocked {
		n.outcome = outcome{status: prov.Blocked, blockedBy: root, continues: continues}
		return nil
	}
	if n.decision.bound == nil && n.spec.Class == stage.Pure && n.role != forced {
		err := e.decidePlain(ctx, n)
		if broken := (*BrokenError)(nil); errors.As(err, &broken) {
			// A leaf of what would be restored is damaged. Others have run
			// already, and executing the stage stores the file again.
			e.warn(n, "object_damaged", broken.Error()+"; the stage is executed")
		} else if err != nil {
			return e.refuse(n, CodeInput, err)
		}
		if n.outcome.status != "" {
			return nil
		}
	}
	return e.execute(ctx, n)
}

// refuse fails a stage before it has an attempt.
func (e *execution) refuse(n *node, code string, err error) error {
	n.outcome = outcome{status: prov.Failed, err: &prov.ResultError{Code: code, Message: e.secrets.Redact(err.Error())}}
	return nil
}

// close writes the one line of a stage that was not executed, and tells what
// became of every stage.
func (e *execution) close(n *node) error {
	o := &n.outcome
	if l, ok := n.line(); ok && !n.kept {
		if err := e.note(l); err != nil {
			return err
		}
	}
	for _, f := range o.findings() {
		ev := n.stageEvent(event.StageFinding)
		ev.Code, ev.Text, ev.How = f.Code, f.Text, string(o.how())
		e.events.emit(ev)
	}
	ev := n.stageEvent(event.StageFinished)
	ev.Status, ev.How, ev.Elapsed = string(o.status), string(o.how()), o.elapsed
	ev.Text = o.why()
	if o.standing != nil {
		ev.Attempt = o.standing.res.Attempt
	}
	if o.err != nil {
		ev.Code = o.err.Code
	}
	e.events.emit(ev)
	return nil
}

// why says in one line why a stage is not ok.
func (o *outcome) why() string {
	switch {
	case o.blockedBy != "":
		return "blocked by " + o.blockedBy
	case o.err != nil:
		return o.err.Message
	default:
		return o.reason
	}
}

// line is the journal's line about a stage that was not executed; those that
// were wrote theirs at their end.
func (n *node) line() (prov.Line, bool) {
	o := &n.outcome
	l := prov.Line{Stage: n.ID, Kind: n.spec.Name, Status: o.status, BlockedBy: o.blockedBy, Text: o.why()}
	switch {
	case o.standing != nil && o.standing.how != prov.Executed:
		l.Event = map[prov.How]string{prov.Restored: prov.StageRestored, prov.TakenOver: prov.StageTakenOver, prov.Reused: prov.StageReused}[o.standing.how]
		l.Result, l.Added, l.Key = &o.standing.sum, o.standing.addedSum(), &o.standing.res.Key
	case o.standing != nil:
		return l, false
	case o.status == prov.Blocked:
		l.Event = prov.StageBlocked
	case o.status == prov.Skipped:
		l.Event = prov.StageSkipped
	case o.status == prov.Stale:
		l.Event = prov.StageStale
	case o.status == prov.Failed:
		l.Event = prov.StageFinished
	default:
		return l, false
	}
	return l, true
}

// preflight asks the stages that will be executed whether they can work. When
// one cannot, nothing is executed.
func (e *execution) preflight(ctx context.Context) bool {
	ok := true
	for _, n := range e.graph.order {
		if n.outcome.status != "" || n.decision.will != WillExecute {
			continue
		}
		s, err := n.Kind.New(n.With)
		if err == nil {
			p, can := s.(stage.Preflighter)
			if !can {
				continue
			}
			err = p.Preflight(ctx, e.env(n))
		}
		if err != nil {
			ok = false
			_ = e.refuse(n, CodePreflight, err)
		}
	}
	if ok {
		return true
	}
	for _, n := range e.graph.order {
		if n.outcome.status == "" {
			n.outcome = outcome{status: prov.NotStarted}
		}
		if err := e.close(n); err != nil {
			break // the run's papers will say so again
		}
	}
	return false
}

// env is what every attempt of a stage may know of the world.
func (e *execution) env(n *node) stage.Env {
	tool, _ := e.tool() // without it no attempt is published
	return stage.Env{
		Log: e.x.Log, Now: e.x.now, Seed: stage.SeedOf(e.plan.Seed), Stage: n.ID, Cell: n.Cell, PlanDir: planDir(e.plan.File),
		Progress: &stage.Progress{}, Exec: e.x.Exec, Secrets: e.secrets, Resources: &e.resources, Tool: tool,
		Plan: stage.PlanIdentity{Name: e.plan.Name, SHA256: e.plan.Digest, ResolvedSHA256: e.plan.ResolvedDigest},
		Stop: e.halt.stop, StopCause: func() error { return ErrInterrupted },
	}
}
