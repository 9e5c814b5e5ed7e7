package pipeline

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"anvil/pipeline/prov"
)

// explain adds to the decision about a stage in what it differs from its
// nearest earlier attempt. A run that goes on to execute does not ask.
func (e *execution) explain(ctx context.Context, n *node) error {
	if !e.opt.DryRun || n.decision.will == WillLeave || n.decision.will == WillBlock {
		return nil
	}
	before, err := e.nearest(ctx, n.ID)
	if err != nil || before == nil {
		return err
	}
	d := &n.decision
	var c comparison
	if d.bound != nil {
		c = compare(before, n, d.bound, e.plan.Salt)
	} else {
		c = e.partly(ctx, before, n)
	}
	d.diffs = c.list()
	if d.will == WillExecute && (d.reason == First || d.reason == Upstream) && len(d.diffs) > 0 {
		d.reason = c.reason()
	}
	return nil
}

// partly compares what is known of a stage before its inputs are: everything
// but what arrives on its ports.
func (e *execution) partly(ctx context.Context, before *prov.Result, n *node) comparison {
	leaves, err := hashing(&e.files).leaves(ctx, n)
	if err != nil {
		return comparison{} // the stage will say so when it runs
	}
	now := &bound{}
	for _, l := range leaves {
		now.inputs = append(now.inputs, l.input())
	}
	told := *before
	told.Inputs = slices.DeleteFunc(slices.Clone(before.Inputs), func(in prov.Input) bool { return !strings.HasPrefix(in.Port, "with.") })
	return compare(&told, n, now, e.plan.Salt)
}

// history finds the nearest earlier attempt of a stage: the base's, else that
// of the newest run of the plan that has one.
type history struct {
	mu   sync.Mutex
	ids  []string // runs that were not read yet, the newest first
	read []*earlierRun
	once bool
}

func (e *execution) nearest(ctx context.Context, id string) (*prov.Result, error) {
	s, err := e.base.standing(id)
	if broken := (*BrokenError)(nil); err != nil && !errors.As(err, &broken) {
		return nil, err
	}
	if err == nil && s != nil {
		return s.res, nil
	}
	h := &e.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.once {
		h.once = true
		ids, err := prov.RunIDs(e.x.Workspace)
		if err != nil {
			return nil, err
		}
		h.ids = slices.DeleteFunc(ids, func(id string) bool { name, _, _ := prov.SplitRunID(id); return name != e.plan.Name })
	}
	for i := 0; ; i++ {
		run := h.at(ctx, e, i)
		if run == nil {
			return nil, nil
		}
		// A result that cannot be read explains nothing; an older one may.
		if s, err := run.standing(id); err == nil && s != nil {
			return s.res, nil
		}
	}
}

// at returns the i-th earlier run that can be read, nil past the last.
func (h *history) at(ctx context.Context, e *execution, i int) *earlierRun {
	for i >= len(h.read) && len(h.ids) > 0 {
		r, err := prov.OpenRun(e.x.Workspace, h.ids[0])
		h.ids = h.ids[1:]
		if err != nil {
			continue
		}
		run, err := loadRun(ctx, r, e.reader)
		if errors.Join(err, r.Close()) == nil {
			h.read = append(h.read, run)
		}
	}
	if i >= len(h.read) {
		return nil
	}
	return h.read[i]
}
