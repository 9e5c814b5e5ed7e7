package pipeline

import (
	"context"
	"errors"
	"fmt"

	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
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

// bindHashed binds a stage's inputs and hashes its files without storing them.
func (e *execution) bindHashed(ctx context.Context, n *node) (*bound, error) {
	leaves, err := hashing(&e.files).leaves(ctx, n)
	if err != nil {
		return nil, err
	}
	return e.bind(ctx, n, leaves)
}
