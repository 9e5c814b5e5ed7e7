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

// restorable looks for a result of a pure stage under its key, the newest
// first, and hashes what it would stand on. Without one the reason says why.
func (e *execution) restorable(ctx context.Context, n *node, b *bound) (*standing, Reason, error) {
	results, err := e.x.Store.Lookup(b.key)
	if err != nil {
		return nil, "", err
	}
	reason := First
	for _, sum := range results {
		res, err := e.reader.Result(ctx, sum)
		if mismatch := (*digest.MismatchError)(nil); errors.As(err, &mismatch) {
			if err := e.setAside(n, &lostError{sum, "result.json", err}); err != nil {
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
		return &standing{sum: sum, res: res, how: prov.Restored}, Cached, nil
	}
	return nil, reason, nil
}

// speaksFor tells whether a result that was made under n's key can stand for
// it. The key knows no stage id, and limitations name the stage that raised
// them: a result of another stage serves only if that stage raised none.
func speaksFor(res *prov.Result, n *node, b *bound) bool {
	return res.Stage == n.ID || len(res.Limitations.Missing(b.set)) == 0
}

// A lostError says that an output which can be made again is gone or damaged.
type lostError struct {
	digest digest.Digest
	name   string
	err    error
}

func (e *lostError) Error() string { return fmt.Sprintf("%s: %v", e.name, e.err) }

func (e *lostError) Unwrap() error { return e.err }

// What a check does about an output that is damaged or missing.
const (
	mustStand = false // it was observed: the run is broken
	mayBeMade = true  // it is made again
)

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
	if _, ok := e.sound.Load(res.Outputs[0].Limitations); ok {
		return nil // thousands of stages share one
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

// setAside takes a damaged object out of the way and says so, in the journal
// too. A dry run says so alone.
func (e *execution) setAside(n *node, lost *lostError) error {
	if errors.Is(lost.err, store.ErrNotFound) {
		e.warn(n, "object_missing", fmt.Sprintf("%s of %s is not in the store and is made again (sha256 %s)", lost.name, n.ID, lost.digest))
		return nil
	}
	e.warn(n, "object_damaged", fmt.Sprintf("%s of %s is damaged, is set aside and made again: %v", lost.name, n.ID, lost.err))
	if e.opt.DryRun {
		return nil
	}
	if _, err := e.x.Store.SetAside(lost.digest); err != nil {
		return err
	}
	return e.note(prov.Line{Event: prov.ObjectSetAside, Stage: n.ID, Kind: n.spec.Name, Old: &lost.digest, Text: lost.name + " is damaged and is made again"})
}
