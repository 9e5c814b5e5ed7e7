package pipeline

import (
	"context"
	"errors"
	"testing"

	"anvil/pipeline/stage"
)

// design.md 9: when several codes apply, the first of 130, 1, 3, 8, 4, 6, 7, 5,
// 9. Those of a run that never begins (3, 8, 6) come alone.
func TestOfSeveralExitCodesTheFirstCounts(t *testing.T) {
	type action = func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error
	find := func(code string) action {
		return func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
			out.Finding(code, "found")
			return out.JSON("seen.json", map[string]any{})
		}
	}
	const interrupted, internal, failed, incomparable, finding, insufficient = "interrupted", "internal", "failed", "incomparable", "finding", "insufficient"
	does := map[string]action{
		internal:     func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error { panic("a fault") },
		failed:       func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error { return errors.New("no disk") },
		incomparable: find(FindingIncomparable),
		finding:      find("min_ok"),
		insufficient: find(FindingInsufficient),
	}
	order := []struct {
		name string
		code int
	}{{interrupted, 130}, {internal, 1}, {failed, 4}, {incomparable, 7}, {finding, 5}, {insufficient, 9}}
	for i, first := range order {
		for _, second := range order[i:] {
			t.Run(first.name+" and "+second.name, func(t *testing.T) {
				l := newLab(t)
				// The second comes first in the plan: the code decides, not the place.
				l.do["a"], l.do["b"] = does[second.name], does[first.name]
				opt := Options{}
				if first.name == interrupted {
					stop := make(chan struct{})
					opt.Interrupt = stop
					l.do["b"] = func(ctx context.Context, env stage.Env, _ stage.Inputs, _ *stage.Outputs) error {
						close(stop)
						<-env.Stop
						return stage.ErrAborted
					}
				}
				if r := l.run(l.plan("a look", "b look"), opt); r.Exit != first.code {
					t.Errorf("exit %d, want %d", r.Exit, first.code)
				}
			})
		}
	}
	l := newLab(t)
	if r := l.run(l.plan("a look", "b look"), Options{}); r.Exit != exitOK {
		t.Errorf("exit %d of a run that is whole, want 0", r.Exit)
	}
}
