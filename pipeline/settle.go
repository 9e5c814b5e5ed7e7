package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/plan"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
)

// CodeLost is the code of an attempt whose process was killed.
const CodeLost = "killed"

// A leftover is the last attempt of a stage in a run, of whose end no line
// tells: a crash came between its claim and that line.
type leftover struct {
	folder *folder
	run    string
	lines  []prov.Line // of the run's journal
	number int
	dir    string // below the run's folder
}

func leftoverOf(f *folder, run string, lines []prov.Line, n *node, number int) leftover {
	return leftover{f, run, lines, number, filepath.Join(prov.StagesFolder, n.Dir, strconv.Itoa(number))}
}

// settle closes what the earlier processes of a resumed run left open. It needs
// nothing of the plan but the kinds: also of a stage that is executed again, or
// whose inputs are, what was killed is decoded at this start.
func (e *execution) settle(ctx context.Context, lines []prov.Line) error {
	for _, n := range e.graph.order {
		if !e.open(n) {
			continue
		}
		s, err := e.settleLeft(ctx, n, leftoverOf(e.folder, e.id, lines, n, n.attempts))
		if err != nil {
			return err
		}
		if s != nil {
			e.kept.stages[n.ID] = prov.ManifestStage{
				ID: n.ID, Kind: n.spec.Name, Status: s.res.Status, How: &s.how, Attempt: &s.res.Attempt, ResultSHA256: &s.sum,
			}
		}
	}
	return nil
}

// open tells whether the last attempt of a stage has no line of its end; the
// crash may even have come before the line of its beginning.
func (e *execution) open(n *node) bool {
	st := e.kept.stages[n.ID]
	return n.attempts > 0 && (st.Status == prov.Lost && st.Attempt != nil && *st.Attempt == n.attempts || st.Attempt == nil || *st.Attempt < n.attempts)
}

// settleLeft settles one attempt. Either it published its result, and only the
// line and the pointer are missing; or it is lost, and what it left is decoded
// where the kind can. It returns the result that came of it, nil for none.
func (e *execution) settleLeft(ctx context.Context, n *node, left leftover) (*standing, error) {
	raw, err := left.result()
	if err != nil {
		return nil, err
	}
	if raw != nil {
		return e.adoptResult(ctx, n, left, raw)
	}
	if err := left.lose(n); err != nil || !n.recovers() {
		return nil, err
	}
	c, err := left.claim(n)
	if errors.Is(err, errNothingRan) {
		return nil, nil
	}
	if err == nil {
		err = e.toldTheSame(n, c)
	}
	if err != nil {
		e.notRecovered(n, err)
		return nil, nil
	}
	return e.recoverLost(ctx, n, left, c)
}

// recovers tells whether the kind can decode what a killed attempt left.
func (n *node) recovers() bool {
	s, err := n.Kind.New(n.With)
	_, can := s.(stage.Recoverer)
	return err == nil && can
}

// result reads the attempt's result.json; nil without one, and where something
// stands that no attempt writes.
func (l leftover) result() ([]byte, error) {
	raw, err := disk.ReadFile(l.folder.disk.Root(), filepath.Join(l.dir, prov.ResultName))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, disk.ErrIrregular) {
		return nil, nil
	}
	return raw, err
}

// errNothingRan says that a process was killed before the stage itself began.
var errNothingRan = errors.New("the stage had not begun")

// claim reads what the attempt was told. The line of its beginning is durable
// before an observation starts: without it nothing ran.
func (l leftover) claim(n *node) (Claim, error) {
	i := slices.IndexFunc(l.lines, func(line prov.Line) bool {
		return line.Event == prov.StageStarted && line.Stage == n.ID && line.Attempt == l.number
	})
	if i < 0 {
		return Claim{}, errNothingRan
	}
	return readClaim(l.folder.disk.Root(), l.dir, l.lines[i])
}

// lose writes the line that the attempt is lost, unless an earlier start has.
func (l leftover) lose(n *node) error {
	if slices.ContainsFunc(l.lines, func(line prov.Line) bool {
		return line.Event == prov.StageLost && line.Stage == n.ID && line.Attempt == l.number
	}) {
		return nil
	}
	return l.folder.journal.Append(prov.Line{
		Event: prov.StageLost, Stage: n.ID, Kind: n.spec.Name, Attempt: l.number, Status: prov.Lost, Text: "its process was killed",
	})
}

// adoptResult trusts a result.json only if its object and those of its outputs
// are there.
func (e *execution) adoptResult(ctx context.Context, n *node, left leftover, raw []byte) (*standing, error) {
	res, err := prov.DecodeResult(raw)
	if err != nil {
		return nil, left.lose(n)
	}
	sum := digest.FromBytes(raw)
	for _, o := range append([]prov.Output{{Ref: stage.Ref{SHA256: sum, Size: int64(len(raw))}}}, res.Outputs...) {
		if err := e.checkObject(ctx, o.SHA256, o.Size); err != nil {
			return nil, left.lose(n)
		}
	}
	err = left.folder.journal.Append(prov.Line{
		Event: prov.StageFinished, Stage: n.ID, Kind: n.spec.Name, Attempt: res.Attempt, Status: res.Status, Key: &res.Key, Result: &sum,
		Text: "the attempt had ended before the process was killed",
	})
	if err == nil && res.Status == prov.OK {
		err = e.x.Store.Point(res.Key, store.Pointer{Run: left.run, Stage: n.ID, Attempt: res.Attempt, Result: sum})
	}
	return &standing{sum: sum, res: res, how: prov.Executed}, err
}

// toldTheSame refuses to decode under this plan and this program what was told
// another configuration, contract or salt: its result would say what never was.
// What it read may be other than what the plan would read now.
func (e *execution) toldTheSame(n *node, c Claim) error {
	key, err := n.key(c.Inputs, e.plan.Salt)
	if err != nil {
		return err
	}
	if key == c.Key {
		return nil
	}
	return &BaseError{
		Base: c.Run, Stage: n.ID, Reason: "the killed attempt was told something else",
		Differences: differences(c.told(), n, &bound{inputs: c.Inputs}, e.plan.Salt),
	}
}

func (e *execution) notRecovered(n *node, err error) {
	e.warn(n, "not_recovered", "nothing of the killed attempt could be decoded: "+err.Error())
}

// recoverLost lets the kind decode what a killed attempt left, under what the
// attempt was told. The result is aborted: partial evidence, not a success.
func (e *execution) recoverLost(ctx context.Context, n *node, left leftover, c Claim) (*standing, error) {
	then := *n // its outcome is another attempt's
	a := &attempt{
		e: e, n: &then, folder: left.folder, runID: left.run, number: left.number, dir: left.dir,
		token: c.Token, started: c.ClaimedAt.Time,
	}
	if err := a.recover(ctx, c); err != nil {
		e.notRecovered(n, err)
		return nil, nil
	}
	err := a.publish(ctx, prov.Aborted, &codedError{CodeLost, errKilled})
	return then.outcome.standing, err
}

func (a *attempt) recover(ctx context.Context, c Claim) error {
	s, err := a.n.Kind.New(c.With)
	if err != nil {
		return err
	}
	r, ok := s.(stage.Recoverer)
	if !ok {
		return fmt.Errorf("a %s stage cannot be decoded", c.Kind)
	}
	if a.b, err = a.e.bindClaimed(ctx, a.n, c); err != nil {
		return err
	}
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

var errKilled = errors.New("the process that ran the attempt was killed; what it left was decoded")

// bindClaimed binds what an attempt read, as its claim names it, whatever the
// files and the runs behind it have become: all of it is in the store.
func (e *execution) bindClaimed(ctx context.Context, n *node, c Claim) (*bound, error) {
	b := &bound{ports: map[string][]stage.Artifact{}, inputs: c.Inputs, key: c.Key}
	for _, in := range c.Inputs {
		if in.From == nil {
			b.addLeaf(in)
			continue
		}
		set, err := e.reader.Set(ctx, in.Limitations)
		if err != nil {
			return nil, fmt.Errorf("limitations of its input %s: %w", in.Port, err)
		}
		a := stage.NewArtifact(in.Ref, in.From.Stage, in.Name, e.x.Store, set)
		b.ports[in.Port] = append(b.ports[in.Port], a)
		b.set = append(b.set, set...)
		if !n.inPort(in.Port).Closure {
			continue
		}
		if b.closures == nil {
			b.closures = map[string]stage.Closure{}
		}
		if b.closures[in.Port], err = prov.NewClosure(ctx, e.reader, a, in.From); err != nil {
			return nil, err
		}
	}
	b.set = stage.NewLimitationSet(b.set...)
	return b, nil
}

// addLeaf takes back a file that "with" named. The list of a closure is no
// file: it is formed again.
func (b *bound) addLeaf(in prov.Input) {
	pointer, ok := strings.CutPrefix(in.Port, "with.")
	if !ok {
		return
	}
	l := leaf{file: plan.File{Pointer: pointer, Path: in.Name, Written: in.Name}, whole: in.Ref, read: in.Ref}
	if in.Whole != nil {
		l.whole = *in.Whole
	}
	b.leaves = append(b.leaves, l)
}

// settleInBase settles what a killed process left of a stage in the base run,
// which has no run.json yet. A result that was published is the stage's; partial
// evidence is decoded when it was asked for, and only if it is what the plan
// asks for now: else a *BaseError says in what it differs.
func (e *execution) settleInBase(ctx context.Context, n *node, b *bound) (s *standing, err error) {
	if e.opt.DryRun || !e.lostInBase(n) {
		return nil, nil
	}
	e.settling.Lock() // one stage after the other: they share the folder's lock
	defer e.settling.Unlock()
	f, lines, err := e.reopenRun(ctx, e.base.dir, e.base.run)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	// Another process may have settled it, or gone on with it, before the lock
	// was ours.
	now := e.base.at(lines)
	if now.stages[n.ID].Status != prov.Lost {
		return now.standing(n.ID)
	}
	if _, err := f.disk.Root().Lstat(prov.ManifestName); err == nil {
		return nil, nil // it names the journal's last line
	}
	numbers, err := attemptNumbers(f.disk.Root(), n.Dir)
	if err != nil || len(numbers) == 0 {
		return nil, err
	}
	left := leftoverOf(f, e.base.run, lines, n, slices.Max(numbers))
	if raw, err := left.result(); raw == nil && err == nil {
		if !e.opt.AcceptAborted {
			return nil, nil
		}
		if err := e.asksForTheSame(ctx, n, b, left); err != nil {
			return nil, err
		}
	}
	return e.settleLeft(ctx, n, left)
}

// lostInBase tells whether the base left a stage that can be settled.
func (e *execution) lostInBase(n *node) bool {
	return !e.base.gone && !e.base.ended && e.base.stages[n.ID].Status == prov.Lost && (e.opt.AcceptAborted || e.base.hasResult(n))
}

// wouldSettle tells a dry run, which writes nothing, whether a run would settle
// a stage of its base. What the stage's outcome is then is not known yet.
func (e *execution) wouldSettle(ctx context.Context, n *node, b *bound) (would bool, err error) {
	if !e.opt.DryRun || !e.lostInBase(n) {
		return false, nil
	}
	if e.base.hasResult(n) {
		return true, nil
	}
	d, err := disk.Open(e.base.dir, nil)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	text, err := disk.ReadFile(d.Root(), prov.JournalName)
	if err != nil {
		return false, err
	}
	chain, err := prov.ReadJournal(text)
	if err != nil {
		return false, err
	}
	numbers, err := attemptNumbers(d.Root(), n.Dir)
	if err != nil || len(numbers) == 0 || !n.recovers() {
		return false, err
	}
	left := leftoverOf(&folder{disk: d}, e.base.run, chain.Lines, n, slices.Max(numbers))
	if _, err := left.claim(n); err != nil {
		return false, nil //nolint:nilerr // then nothing of it can be decoded, and the run says why
	}
	return true, e.asksForTheSame(ctx, n, b, left)
}

// hasResult tells whether the last attempt of a stage published a result; the
// run may be another process's, and is only looked at.
func (r *earlierRun) hasResult(n *node) bool {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return false
	}
	defer root.Close()
	numbers, err := attemptNumbers(root, n.Dir)
	if err != nil || len(numbers) == 0 {
		return false
	}
	_, err = root.Lstat(filepath.Join(prov.StagesFolder, n.Dir, strconv.Itoa(slices.Max(numbers)), prov.ResultName))
	return err == nil
}

// asksForTheSame tells whether a killed attempt was told what n is told now;
// one that had not begun, or whose claim cannot be read, has nothing to differ.
func (e *execution) asksForTheSame(ctx context.Context, n *node, b *bound, left leftover) error {
	c, err := left.claim(n)
	if err != nil {
		return nil //nolint:nilerr // settling it says so
	}
	told := c.told()
	_, fits, err := e.askedThen(ctx, n, &standing{res: told}, b)
	if err != nil || fits {
		return err
	}
	return &BaseError{
		Base: e.base.id(), Stage: n.ID, Reason: "the plan now asks for something else than its killed attempt was told",
		Differences: differences(told, n, b, e.plan.Salt),
	}
}
