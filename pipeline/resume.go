package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"anvil/pipeline/digest"
	"anvil/pipeline/event"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

// ErrNothingUnfinished says that --resume found nothing to go on with: no
// fault, exit code 0.
var ErrNothingUnfinished = errors.New("nothing is unfinished")

// asked are the options that a later --resume follows as well.
type asked struct {
	Only          []string `json:"only,omitempty"`
	From          []string `json:"from,omitempty"`
	Force         []string `json:"force,omitempty"`
	Base          string   `json:"base,omitempty"` // by the name that finds it
	Reuse         string   `json:"reuse,omitempty"`
	AcceptAborted bool     `json:"accept_aborted,omitempty"`
}

func (o Options) asked() json.RawMessage {
	raw, err := json.Marshal(asked{o.Only, o.From, o.Force, o.Base, o.Reuse, o.AcceptAborted})
	if err != nil {
		return nil // strings and a bool: it cannot fail
	}
	return raw
}

// unfinished finds the run that opt.Resume names.
func (x *Executor) unfinished(planName, resume string) (*prov.Run, error) {
	if resume != ResumeNewest {
		r, err := prov.OpenRun(x.Workspace, resume)
		if err != nil {
			return nil, cannotOpen(err)
		}
		if finished(r) {
			return nil, errors.Join(fmt.Errorf("run %s: %w", r.ID, ErrNothingUnfinished), r.Close())
		}
		return r, nil
	}
	ids, err := prov.NewestRuns(x.Workspace)
	if err != nil {
		return nil, err
	}
	for id := range ids {
		if name, _, _ := prov.SplitRunID(id); name != planName {
			continue
		}
		r, err := prov.OpenRun(x.Workspace, id)
		if err != nil {
			continue
		}
		if !finished(r) && begun(r) {
			return r, nil
		}
		if err := r.Close(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("plan %s: %w", planName, ErrNothingUnfinished)
}

// cannotOpen is for a run that --resume names and that is not there, is several
// or cannot be read.
func cannotOpen(err error) error {
	return &SelectionError{Reason: fmt.Sprintf("--resume: %v", err), Suggestion: "`anvil run list` shows the runs of this workspace"}
}

// beginAnew is what helps where a run cannot be gone on with.
const beginAnew = "start a new run without --resume"

func finished(r *prov.Run) bool {
	return r.Manifest != nil && r.Manifest.Status == prov.OK
}

// begun tells whether a run's journal says what was asked for. One that was
// killed before its first line was down did nothing, and cannot be gone on with.
func begun(r *prov.Run) bool {
	chain, err := r.Journal()
	return !errors.Is(err, fs.ErrNotExist) && (err != nil || len(chain.Lines) > 0)
}

// findResumed finds the run to go on with and takes over what was asked of it.
func (e *execution) findResumed(ctx context.Context) (err error) {
	if len(e.opt.Only)+len(e.opt.From)+len(e.opt.Force) > 0 || e.opt.Base != "" || e.opt.Reuse != "" {
		return &SelectionError{
			Reason:     "--resume goes on with what was asked for when the run began",
			Suggestion: "leave out --only, --from, --force, --base and --reuse, or begin a new run",
		}
	}
	r, err := e.x.unfinished(e.plan.Name, e.opt.Resume)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	e.id, e.opt.Resume = r.ID, r.ID
	if err := e.resolvesAs(r); err != nil {
		return err
	}
	chain, err := r.Journal()
	if err != nil {
		return &BrokenError{Stage: "run " + r.ID, Name: prov.JournalName, Err: err}
	}
	if len(chain.Lines) == 0 {
		return &BaseError{Base: r.ID, Reason: "its journal says nothing: it was killed before it began", Remedy: beginAnew}
	}
	first := chain.Lines[0]
	e.began = first.At.Time
	return e.adopt(ctx, first, chain.Lines)
}

// adopt takes the options and results of the run's earlier processes.
func (e *execution) adopt(ctx context.Context, first prov.Line, lines []prov.Line) error {
	var a asked
	if len(first.Options) > 0 {
		if err := json.Unmarshal(first.Options, &a); err != nil {
			return fmt.Errorf("resume %s: options in its journal: %w", e.id, err)
		}
	}
	e.opt.Only, e.opt.From, e.opt.Force, e.opt.Base = a.Only, a.From, a.Force, cmp.Or(a.Base, first.Base)
	e.opt.Reuse, e.opt.AcceptAborted = a.Reuse, a.AcceptAborted
	e.kept = (&earlierRun{run: e.id, ctx: ctx, reader: e.reader}).at(lines)
	e.history.read = []*earlierRun{e.kept} // explanations compare with what the run itself did
	return nil
}

// resolvesAs refuses a plan that does not resolve as the run's did.
func (e *execution) resolvesAs(r *prov.Run) error {
	before, err := r.ReadFile(prov.ResolvedPlanName)
	if err != nil {
		return &BaseError{Base: r.ID, Reason: err.Error(), Remedy: beginAnew}
	}
	if bytes.Equal(before, e.plan.Resolved) {
		return nil
	}
	diffs := diffJSON(nil, "plan", parse(before), parse(e.plan.Resolved))
	if len(diffs) == 0 {
		return nil
	}
	return &BaseError{
		Base: r.ID, Reason: "the plan does not resolve as it did when the run began", Differences: diffs,
		Remedy: "undo the change, or " + beginAnew,
	}
}

// reopenFolder locks the resumed run's folder and goes on with its journal.
func (e *execution) reopenFolder(ctx context.Context) error {
	dir := filepath.Join(e.x.Workspace, prov.RunsFolder, e.id)
	before := readHolder(filepath.Join(dir, prov.LockName))
	f, lines, err := e.reopenRun(ctx, dir, e.id)
	if err != nil {
		return err
	}
	e.folder = f
	if err := e.continueJournal(ctx, before, lines); err != nil {
		return errors.Join(err, f.close())
	}
	e.events.emit(event.Event{Event: event.RunStarted, Base: lines[0].Base, Text: "resumed"})
	if err := e.settle(ctx, lines); err != nil {
		return errors.Join(err, f.close())
	}
	return nil
}

// reopenRun locks the folder of a run that an earlier process began, and opens
// its journal. Where another process holds it, --wait waits.
func (e *execution) reopenRun(ctx context.Context, dir, id string) (*folder, []prov.Line, error) {
	d, err := disk.Open(dir, e.x.hook)
	if err != nil {
		return nil, nil, err
	}
	waiting, done := e.untilInterrupt(ctx)
	defer done()
	lock, err := lockFile(waiting, filepath.Join(dir, prov.LockName), "run "+id, e.holder(), e.opt.Wait, e.waiting)
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	journal, lines, err := prov.ReopenJournal(d, e.x.now)
	if err != nil {
		return nil, nil, errors.Join(err, lock.Close(), d.Close())
	}
	return &folder{disk: d, journal: journal, lock: lock}, lines, nil
}

// continueJournal says who goes on. The journal is read again under the lock: it may have grown.
func (e *execution) continueJournal(ctx context.Context, before Holder, lines []prov.Line) error {
	if len(lines) == 0 {
		return &BaseError{Base: e.id, Reason: "its journal says nothing: it was killed before it began", Remedy: beginAnew}
	}
	raw, err := disk.ReadFile(e.folder.disk.Root(), prov.ManifestName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		if m, err := prov.DecodeManifest(raw); err == nil && m.Status == prov.OK && lines[len(lines)-1].Event == prov.RunFinished {
			return fmt.Errorf("run %s: %w", e.id, ErrNothingUnfinished) // the one who held the lock finished it
		}
	}
	if err := e.adopt(ctx, lines[0], lines); err != nil {
		return err
	}
	me := e.holder()
	if last := lines[len(lines)-1]; last.Event != prov.RunFinished {
		err := e.folder.journal.Append(prov.Line{
			Event: prov.RunTakenOver, Run: e.id, Host: before.Host, PID: before.PID, Text: "the process that held the run is gone",
		})
		if err != nil {
			return err
		}
	}
	l := prov.Line{Event: prov.RunResumed, Run: e.id, Host: me.Host, PID: me.PID}
	if raw != nil {
		old := digest.FromBytes(raw)
		l.Old = &old
	}
	if err := e.folder.journal.Append(l); err != nil {
		return err
	}
	return e.countAttempts()
}

// countAttempts reads how many attempts each stage has begun in this run.
func (e *execution) countAttempts() error {
	for _, n := range e.graph.order {
		numbers, err := attemptNumbers(e.folder.disk.Root(), n.Dir)
		if err != nil {
			return err
		}
		for _, number := range numbers {
			n.attempts = max(n.attempts, number)
		}
		e.resumed = e.resumed || n.attempts > 0
	}
	return nil
}

func attemptNumbers(root *os.Root, dir string) ([]int, error) {
	entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(filepath.Join(prov.StagesFolder, dir)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []int
	for _, entry := range entries {
		if number, err := strconv.Atoi(entry.Name()); err == nil && number > 0 {
			out = append(out, number)
		}
	}
	return out, err
}

// decideKept decides a stage of which the resumed run already has a good
// result: it is not executed again while it is asked for the same.
func (e *execution) decideKept(ctx context.Context, n *node) (bool, error) {
	if e.kept == nil || !n.known() {
		return false, nil
	}
	s, err := e.kept.standing(n.ID)
	if broken, ok := errors.AsType[*BrokenError](err); ok && n.spec.Class == stage.Pure {
		return false, e.setAside(n, &lostError{broken.Digest, broken.Name, broken.Err})
	}
	if err != nil || s == nil || s.res.Status != prov.OK {
		return false, err
	}
	b, err := e.bindHashed(ctx, n)
	if err != nil {
		return false, nil // it is decided, and fails, like any other
	}
	b, fits, err := e.askedThen(ctx, n, s, b)
	if err != nil || !fits {
		return false, err
	}
	again := n.spec.Class == stage.Pure
	err = e.check(ctx, s.res, again)
	if lost := (*lostError)(nil); errors.As(err, &lost) {
		return false, e.setAside(n, lost)
	}
	if err != nil {
		return false, err
	}
	n.decision = decision{will: WillTakeOver, reason: FromBase, bound: b}
	n.outcome = n.stand(s, e.x.Store)
	n.kept = true
	return true, nil
}
