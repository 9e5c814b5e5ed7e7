package pipeline

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"anvil/pipeline/digest"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
)

// CodeLost is the code of an attempt whose process was killed.
const CodeLost = "killed"

// settle closes the last attempt of a stage when it has no line of its end: a
// crash came between its claim and that line. Either the attempt published its
// result, and only the line and the pointer are missing; or it is lost, and
// what it left is decoded where the kind can. It returns the result that came
// of it, nil for none.
func (e *execution) settle(ctx context.Context, n *node, b *bound) (*standing, error) {
	if e.opt.DryRun || !e.open(n) {
		return nil, nil
	}
	dir := filepath.Join(prov.StagesFolder, n.Dir, strconv.Itoa(n.attempts))
	raw, err := e.folder.disk.Root().ReadFile(filepath.Join(dir, prov.ResultName))
	switch {
	case err == nil:
		return e.adoptResult(ctx, n, raw)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return e.recoverLost(ctx, n, b, e.folder, e.id, n.attempts)
}

// open tells whether the last attempt of a stage has no line of its end; the
// crash may even have come before the line of its beginning.
func (e *execution) open(n *node) bool {
	st := e.kept.stages[n.ID]
	return n.attempts > 0 && (st.Status == prov.Lost && st.Attempt != nil && *st.Attempt == n.attempts || st.Attempt == nil || *st.Attempt < n.attempts)
}

// adoptResult trusts a result.json only if its object and those of its outputs
// are there.
func (e *execution) adoptResult(ctx context.Context, n *node, raw []byte) (*standing, error) {
	res, err := prov.DecodeResult(raw)
	if err != nil {
		return nil, e.lose(n)
	}
	sum := digest.FromBytes(raw)
	for _, o := range append([]prov.Output{{Ref: stage.Ref{SHA256: sum, Size: int64(len(raw))}}}, res.Outputs...) {
		if err := e.checkObject(ctx, o.SHA256, o.Size); err != nil {
			return nil, e.lose(n)
		}
	}
	err = e.folder.journal.Append(prov.Line{
		Event: prov.StageFinished, Stage: n.ID, Kind: n.spec.Name, Attempt: res.Attempt, Status: res.Status, Key: &res.Key, Result: &sum,
		Text: "the attempt had ended before the process was killed",
	})
	if err == nil && res.Status == prov.OK {
		err = e.x.Store.Point(res.Key, store.Pointer{Run: e.id, Stage: n.ID, Attempt: res.Attempt, Result: sum})
	}
	return &standing{sum: sum, res: res, how: prov.Executed}, err
}

func (e *execution) lose(n *node) error {
	return loseIn(e.folder, n, n.attempts)
}

func loseIn(f *folder, n *node, number int) error {
	return f.journal.Append(prov.Line{
		Event: prov.StageLost, Stage: n.ID, Kind: n.spec.Name, Attempt: number, Status: prov.Lost, Text: "its process was killed",
	})
}

// recoverLost lets the kind decode what a killed attempt left in a run's
// folder. The result is aborted: partial evidence, not a success.
func (e *execution) recoverLost(ctx context.Context, n *node, b *bound, f *folder, run string, number int) (*standing, error) {
	if err := loseIn(f, n, number); err != nil {
		return nil, err
	}
	s, err := n.Kind.New(n.With)
	r, can := s.(stage.Recoverer)
	if err != nil || !can {
		return nil, err
	}
	a := &attempt{e: e, n: n, b: b, folder: f, runID: run, number: number}
	a.dir = filepath.Join(prov.StagesFolder, n.Dir, strconv.Itoa(number))
	claim, err := readClaim(f.disk.Root(), a.dir)
	if err != nil {
		return nil, nil // killed before the claim was whole: nothing ran
	}
	a.token, a.started = claim.Token, claim.ClaimedAt
	if err := a.recover(ctx, r); err != nil {
		e.warn(n, "not_recovered", "nothing of the killed attempt could be decoded: "+err.Error())
		return nil, nil
	}
	if err := a.publish(ctx, prov.Aborted, &codedError{CodeLost, errKilled}); err != nil {
		return nil, err
	}
	recovered := n.outcome.standing
	n.outcome = outcome{}
	return recovered, nil
}

func (a *attempt) recover(ctx context.Context, r stage.Recoverer) error {
	a.outputs = newOutputs(ctx, a.e.x.Store, a.n.spec)
	a.env = a.e.env(a.n)
	closeLog, err := a.openLog()
	if err != nil {
		return err
	}
	defer closeLog()
	if a.env.Folder, err = a.folder.disk.Root().OpenRoot(a.dir); err != nil {
		return err
	}
	defer a.env.Folder.Close()
	defer a.outputs.abandon()
	return a.guard(func() error { return r.Recover(ctx, a.env, a.b.stageInputs(a.e.x.Store), a.outputs.out) })
}

// recoverInBase decodes what a killed attempt left in the base run, which has
// no run.json yet: its partial evidence was asked for.
func (e *execution) recoverInBase(ctx context.Context, n *node, b *bound) (*standing, error) {
	st := e.base.stages[n.ID]
	if !e.opt.AcceptAborted || e.opt.DryRun || st.Status != prov.Lost || e.base.ended {
		return nil, nil
	}
	e.mu.Lock() // one stage after the other: they share the folder's lock
	defer e.mu.Unlock()
	f, _, err := e.reopenRun(filepath.Join(e.x.Workspace, prov.RunsFolder, e.base.run), e.base.run)
	if err != nil {
		return nil, err
	}
	numbers, err := attemptNumbers(f.disk.Root(), n.Dir)
	if err != nil || len(numbers) == 0 {
		return nil, errors.Join(err, f.close())
	}
	s, err := e.recoverLost(ctx, n, b, f, e.base.run, slices.Max(numbers))
	return s, errors.Join(err, f.close())
}

var errKilled = errors.New("the process that ran the attempt was killed; what it left was decoded")
