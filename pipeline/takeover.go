package pipeline

import (
	"context"
	"errors"
	"fmt"

	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

func (e *execution) decideObservation(ctx context.Context, n *node, b *bound) error {
	n.decision.will, n.decision.reason = WillExecute, IsObservational
	if e.reuse != nil && e.reuse.gone {
		return &BaseError{Base: e.reuse.run, Stage: n.ID, Reason: "it was removed before the stage was taken over from it"}
	}
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

// makeAgain decides a pure stage whose result cannot be read any more.
func (e *execution) makeAgain(ctx context.Context, n *node, broken *BrokenError) error {
	if err := e.setAside(n, &lostError{broken.Digest, broken.Name, broken.Err}); err != nil {
		return err
	}
	n.role = asPlain
	if !n.known() {
		n.decision = decision{will: WillExecute, reason: Upstream}
		return nil
	}
	return e.decidePlain(ctx, n)
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

// acceptAborted is what helps where partial evidence is all that there is.
const acceptAborted = "run the whole plan, name another run with --base, or add --accept-aborted, which stands on the partial evidence and says so"

// decideFromBase decides a stage that is to be taken over from the base run.
func (e *execution) decideFromBase(ctx context.Context, n *node) error {
	var remedy string
	leave := func(reason string, diffs []Difference) error {
		if n.role == ifInBase {
			n.decision = decision{will: WillLeave, reason: FromBase}
			n.outcome = outcome{status: prov.Skipped, reason: reason}
			return nil
		}
		return &BaseError{Base: e.base.id(), Stage: n.ID, Reason: reason, Differences: diffs, Remedy: remedy}
	}
	s, kept, err := e.taken(n.ID)
	if broken, ok := errors.AsType[*BrokenError](err); ok && n.spec.Class == stage.Pure {
		return e.makeAgain(ctx, n, broken)
	}
	if err != nil {
		return err
	}
	if n.spec.Class == stage.Pure && !n.known() {
		// Something that it stands on is made again; then it is restored.
		n.role = asPlain
		n.decision = decision{will: WillExecute, reason: Upstream}
		return nil
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
		var would bool
		if s, err = e.settleInBase(ctx, n, b); err == nil {
			would, err = e.wouldSettle(ctx, n, b)
		}
		if other, ok := errors.AsType[*BaseError](err); ok {
			return leave(other.Reason, other.Differences)
		}
		if busy, ok := errors.AsType[*BusyError](err); ok && n.role == ifInBase {
			return leave(busy.Error(), nil)
		}
		if err != nil {
			return err
		}
		if would {
			n.decision = decision{will: WillTakeOver, reason: FromBase, bound: b}
			return nil
		}
	}
	if s == nil && e.base.gone {
		return leave("it was removed before the stage was taken over from it", nil)
	}
	if s == nil && e.base.stages[n.ID].Status == prov.Lost && !e.opt.AcceptAborted && n.recovers() {
		remedy = acceptAborted
		return leave("its process was killed there", nil)
	}
	if s == nil {
		return leave("it has no result of it", nil)
	}
	expected := s.res.Status == prov.Aborted && e.opt.AcceptAborted
	if s.res.Status != prov.OK && !expected {
		if s.res.Status == prov.Aborted {
			remedy = acceptAborted
		}
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
	if n.kept = kept; !kept {
		s.how = prov.TakenOver
	}
	n.decision = decision{will: WillTakeOver, reason: FromBase, bound: b}
	n.outcome = n.stand(s, e.x.Store)
	n.outcome.expected = expected
	return nil
}

// taken is the result with which a stage is taken over. Of a resumed run it is
// the one that the journal names: the base may have got another since, or be
// gone.
func (e *execution) taken(id string) (s *standing, kept bool, err error) {
	s, err = e.kept.standing(id)
	if err != nil || s != nil && (s.res.Status == prov.OK || s.how == prov.TakenOver) {
		return s, true, err
	}
	s, err = e.base.standing(id)
	return s, false, err
}
