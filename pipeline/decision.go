package pipeline

import (
	"context"
	"errors"
	"fmt"

	"anvil/pipeline/digest"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
)

// Will is what a run would do with a stage.
type Will string

// What a run can do with a stage. Leave is a stage that was not asked for:
// stale or skipped.
const (
	WillExecute  Will = "execute"
	WillRestore  Will = "restore"
	WillTakeOver Will = "take_over"
	WillReuse    Will = "reuse"
	WillBlock    Will = "blocked"
	WillLeave    Will = "leave"
)

// A Reason is why; the codes of contracts.md 5.
type Reason string

// The reasons.
const (
	First              Reason = "first"
	ConfigChanged      Reason = "config_changed"
	InputChanged       Reason = "input_changed"
	ContractChanged    Reason = "contract_changed"
	IsObservational    Reason = "observational"
	IsForced           Reason = "forced"
	Upstream           Reason = "upstream"
	MissingObject      Reason = "missing_object"
	Cached             Reason = "cached"
	FromBase           Reason = "base"
	IsReused           Reason = "reused"
	SaltChanged        Reason = "salt_changed"
	LimitationsChanged Reason = "limitations_changed"
)

// A Decision is what a run would do with one stage, and why.
type Decision struct {
	ID          string       `json:"id"`
	Will        Will         `json:"will"`
	Reason      Reason       `json:"reason"`
	Differences []Difference `json:"differences"`
}

// decision is a Decision in the making. bound is nil while an input is unknown.
type decision struct {
	will   Will
	reason Reason
	diffs  []Difference
	bound  *bound
}

// decide settles every stage of which everything is known before anything is
// executed, and hashes what it will stand on. Stages that depend on what is
// still to be executed are left to be decided when they start.
func (e *execution) decide(ctx context.Context) error {
	errs := make([]error, len(e.graph.order))
	at := make(map[string]int, len(errs))
	for i, n := range e.graph.order {
		at[n.ID] = i
	}
	err := e.graph.Walk(e.x.jobs(), nil, func(id string) {
		errs[at[id]] = e.decideOne(ctx, e.graph.nodes[id])
	})
	if err != nil {
		return err
	}
	// What is broken matters more than what does not fit, and of each kind the
	// first in plan order is the one to mend.
	for _, err := range errs {
		if broken := (*BrokenError)(nil); errors.As(err, &broken) {
			return err
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *execution) decideOne(ctx context.Context, n *node) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.decideRole(ctx, n); err != nil {
		return err
	}
	e.x.Log.Debug().Str("stage", n.ID).Str("will", string(n.decision.will)).Str("reason", string(n.decision.reason)).Msg("decided")
	return e.explain(ctx, n)
}

func (e *execution) decideRole(ctx context.Context, n *node) error {
	switch n.role {
	case leftStale:
		n.decision = decision{will: WillLeave, reason: Upstream}
		n.outcome = outcome{status: prov.Stale}
		return nil
	case fromBase, ifInBase:
		return e.decideFromBase(ctx, n)
	case asPlain, forced:
	}
	if kept, err := e.decideKept(ctx, n); kept || err != nil {
		return err
	}
	if !n.known() {
		n.decision = decision{will: WillExecute, reason: Upstream}
		if n.spec.Class == stage.Observational {
			n.decision.reason = IsObservational
		}
		if n.role == forced {
			n.decision.reason = IsForced
		}
		return nil
	}
	if root, continues, blocked := n.block(); blocked {
		n.decision = decision{will: WillBlock, reason: Upstream}
		n.outcome = outcome{status: prov.Blocked, blockedBy: root, continues: continues}
		return nil
	}
	return e.decidePlain(ctx, n)
}

// known tells whether everything that n needs has an outcome.
func (n *node) known() bool {
	for _, need := range n.needs {
		if need.outcome.status == "" {
			return false
		}
	}
	return true
}

// decidePlain decides a stage whose inputs are known, as a plain run does.
func (e *execution) decidePlain(ctx context.Context, n *node) error {
	b, err := e.bindHashed(ctx, n)
	if fe := (*FileError)(nil); errors.As(err, &fe) {
		// It will fail when it starts, and say so; unrelated branches go on.
		n.decision = decision{will: WillExecute, reason: InputChanged}
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", n.ID, err)
	}
	n.decision.bound = b
	switch {
	case n.role == forced:
		n.decision.will, n.decision.reason = WillExecute, IsForced
	case n.spec.Class == stage.Observational:
		return e.decideObservation(ctx, n, b)
	default:
		s, reason, err := e.restorable(ctx, n, b)
		if err != nil {
			return err
		}
		n.decision.reason = reason
		if n.decision.will = WillExecute; s != nil {
			n.decision.will = WillRestore
			n.outcome = n.stand(s, e.x.Store)
		}
	}
	return nil
}

func (e *execution) decideObservation(ctx context.Context, n *node, b *bound) error {
	n.decision.will, n.decision.reason = WillExecute, IsObservational
	s, err := e.reuse.standing(n.ID)
	if err != nil {
		return err
	}
	fits := false
	if s != nil && s.res.Status == prov.OK {
		if b, fits, err = e.askedThen(ctx, n, s, b); err != nil {
			return err
		}
	}
	if fits {
		if err := e.check(ctx, s.res, mustStand); err != nil {
			return err
		}
		n.decision.bound = b
		s.how = prov.Reused
		s.added = s.added.Union(stage.LimitationSet{reusedLimitation()})
		n.decision.will, n.decision.reason = WillReuse, IsReused
		n.outcome = n.stand(s, e.x.Store)
	}
	return nil
}

// askedThen tells whether a result was made under the key that n has now. The
// executor may have added to the sets of n's inputs since; then the key is the
// one without, and what was added to them is added to the result as well.
func (e *execution) askedThen(ctx context.Context, n *node, s *standing, b *bound) (*bound, bool, error) {
	if b.key == s.res.Key {
		return b, true, nil
	}
	var added stage.LimitationSet
	for _, need := range n.needs {
		if need.outcome.standing != nil {
			added = added.Union(need.outcome.standing.added)
		}
	}
	if len(added) == 0 {
		return b, false, nil
	}
	then, err := e.bindAsMade(ctx, n, b.leaves)
	if err != nil || then.key != s.res.Key {
		return b, false, err
	}
	s.added = s.added.Union(added)
	return then, true, nil
}

// bindHashed binds a stage's inputs and hashes its files without storing them.
func (e *execution) bindHashed(ctx context.Context, n *node) (*bound, error) {
	leaves, err := hashing(&e.files).leaves(ctx, n)
	if err != nil {
		return nil, err
	}
	return e.bind(ctx, n, leaves)
}

// decideFromBase decides a stage that is to be taken over from the base run.
func (e *execution) decideFromBase(ctx context.Context, n *node) error {
	leave := func(reason string, diffs []Difference) error {
		if n.role == ifInBase {
			n.decision = decision{will: WillLeave, reason: FromBase}
			n.outcome = outcome{status: prov.Skipped, reason: reason}
			return nil
		}
		return &BaseError{Base: e.base.id(), Stage: n.ID, Reason: reason, Differences: diffs}
	}
	s, err := e.base.standing(n.ID)
	if err != nil {
		return err
	}
	for _, need := range n.needs {
		if need.outcome.status == "" || !need.outcome.serves() && !n.optionalFor(need) {
			return leave("it stands on "+need.ID+", which is not taken over", nil)
		}
	}
	b, err := e.bindHashed(ctx, n)
	if err != nil {
		return leave(err.Error(), nil)
	}
	if s == nil {
		if s, err = e.recoverInBase(ctx, n, b); err != nil {
			return err
		}
	}
	if s == nil {
		return leave("it has no result of it", nil)
	}
	expected := s.res.Status == prov.Aborted && e.opt.AcceptAborted
	if s.res.Status != prov.OK && !expected {
		return leave(fmt.Sprintf("the stage is %s there", s.res.Status), nil)
	}
	b, fits, err := e.askedThen(ctx, n, s, b)
	if err != nil {
		return err
	}
	if !fits {
		return leave("the plan now asks for something else", differences(s.res, n, b, e.plan.Salt))
	}
	need := mustStand
	if n.spec.Class == stage.Pure {
		need = mayBeMade
	}
	err = e.check(ctx, s.res, need)
	if lost := (*lostError)(nil); errors.As(err, &lost) {
		n.decision = decision{will: WillExecute, reason: MissingObject, bound: b}
		return e.setAside(n, lost)
	}
	if err != nil {
		return err
	}
	s.how = prov.TakenOver
	n.decision = decision{will: WillTakeOver, reason: FromBase, bound: b}
	n.outcome = n.stand(s, e.x.Store)
	n.outcome.expected = expected
	return nil
}

// restorable looks for a result of a pure stage under its key, the newest
// first, and hashes what it would stand on. Without one the reason says why.
func (e *execution) restorable(ctx context.Context, n *node, b *bound) (*standing, Reason, error) {
	pointers, err := e.x.Store.Lookup(b.key)
	if err != nil {
		return nil, "", err
	}
	reason := First
	for _, p := range pointers {
		res, err := e.reader.Result(ctx, p.Result)
		if mismatch := (*digest.MismatchError)(nil); errors.As(err, &mismatch) {
			if err := e.setAside(n, &lostError{p.Result, "result.json", err}); err != nil {
				return nil, "", err
			}
		}
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		if err != nil {
			reason = MissingObject // of the index; what it points to may be gone
			continue
		}
		if res.Status != prov.OK || res.Key != b.key || !speaksFor(res, n, b) {
			continue
		}
		err = e.check(ctx, res, mayBeMade)
		if lost := (*lostError)(nil); errors.As(err, &lost) {
			reason = MissingObject
			if err := e.setAside(n, lost); err != nil {
				return nil, "", err
			}
			continue
		}
		if err != nil {
			return nil, "", err
		}
		return &standing{sum: p.Result, res: res, how: prov.Restored}, Cached, nil
	}
	return nil, reason, nil
}

// speaksFor tells whether a result that was made under n's key can stand for
// it. The key knows no stage id, and limitations name the stage that raised
// them: a result of another stage serves only if that stage raised none.
func speaksFor(res *prov.Result, n *node, b *bound) bool {
	return res.Stage == n.ID || len(res.Limitations.Missing(b.set)) == 0
}

// What a check does about an output that is damaged or missing.
const (
	mustStand = false // it was observed: the run is broken
	mayBeMade = true  // it is made again
)

// A lostError says that an output which can be made again is gone or damaged.
type lostError struct {
	digest digest.Digest
	name   string
	err    error
}

func (e *lostError) Error() string { return fmt.Sprintf("%s: %v", e.name, e.err) }

func (e *lostError) Unwrap() error { return e.err }

// check hashes everything that a result stands on by itself: its outputs and
// its leaves. It returns a *BrokenError for what cannot be made again, a
// *lostError for the first output that can.
func (e *execution) check(ctx context.Context, res *prov.Result, again bool) error {
	for _, in := range res.Inputs {
		if in.From != nil || in.Schema == ClosureSchema {
			continue
		}
		refs := []stage.Ref{in.Ref}
		if in.Whole != nil {
			refs = append(refs, *in.Whole)
		}
		for _, ref := range refs {
			if err := e.checkObject(ctx, ref.SHA256, ref.Size); err != nil {
				return e.brokenUnlessStopped(ctx, res.Stage, in.Name, ref.SHA256, err)
			}
		}
	}
	for _, o := range res.Outputs {
		err := e.checkObject(ctx, o.SHA256, o.Size)
		if err != nil && again && ctx.Err() == nil && gone(err) {
			return &lostError{o.SHA256, o.Name, err}
		}
		if err != nil {
			return e.brokenUnlessStopped(ctx, res.Stage, o.Name, o.SHA256, err)
		}
	}
	return e.mendSet(ctx, res)
}

func gone(err error) bool {
	var damaged *store.DamagedError
	return errors.Is(err, store.ErrNotFound) || errors.As(err, &damaged)
}

func (e *execution) brokenUnlessStopped(ctx context.Context, stageID, name string, d digest.Digest, err error) error {
	if ctx.Err() != nil || !gone(err) {
		return err
	}
	return &BrokenError{Stage: stageID, Name: name, Digest: d, Err: err}
}

// mendSet makes sure that the object of a result's limitation set is there: the
// result holds the set, so it can always be written again.
func (e *execution) mendSet(ctx context.Context, res *prov.Result) error {
	if len(res.Outputs) == 0 {
		return nil
	}
	raw, d := res.Limitations.Canonical()
	if err := e.checkObject(ctx, d, int64(len(raw))); err == nil || e.opt.DryRun {
		return nil
	}
	_, err := e.x.Store.PutBytes(ctx, raw)
	return err
}

// checkObject hashes an object once in a run.
func (e *execution) checkObject(ctx context.Context, d digest.Digest, size int64) error {
	if _, ok := e.sound.Load(d); ok {
		return nil
	}
	if err := e.x.Store.Check(ctx, d, size); err != nil {
		return err
	}
	e.sound.Store(d, true)
	return nil
}

// setAside takes a damaged object out of the way and says so. A dry run says so alone.
func (e *execution) setAside(n *node, lost *lostError) error {
	if errors.Is(lost.err, store.ErrNotFound) {
		e.warn(n, "object_missing", fmt.Sprintf("%s of %s is not in the store and is made again (sha256 %s)", lost.name, n.ID, lost.digest))
		return nil
	}
	e.warn(n, "object_damaged", fmt.Sprintf("%s of %s is damaged, is set aside and made again: %v", lost.name, n.ID, lost.err))
	if e.opt.DryRun {
		return nil
	}
	_, err := e.x.Store.SetAside(lost.digest)
	return err
}
