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
// limitation sets. A document that import made, and one of which no result is
// known (from is nil), stands on the references in it that the store holds; the
// others are absent. Results and sets are verified, other objects not hashed.
//
// The bound artifact carries the set that it has where it is bound.
func NewClosure(ctx context.Context, r *Reader, bound stage.Artifact, from *From) (stage.Closure, error) {
	c := &closure{
		r: r, byDigest: map[digest.Digest]int{}, made: map[digest.Digest]stage.Production{},
		seen: map[stage.Ref]bool{bound.Ref: true}, results: map[digest.Digest]bool{},
	}
	if err := c.resolve(ctx, bound, from); err != nil {
		return nil, fmt.Errorf("closure of %s: %w", path.Join(bound.Stage, bound.Name), err)
	}
	return c, nil
}

type closure struct {
	r        *Reader
	all      []stage.Artifact
	byDigest map[digest.Digest]int // into all, the first of several
	made     map[digest.Digest]stage.Production
	absent   []stage.Ref
	seen     map[stage.Ref]bool
	results  map[digest.Digest]bool
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

// resolve adds what the artifact stands on. It keeps a list of its own: a chain
// of 10,000 stages must not cost goroutine stack.
func (c *closure) resolve(ctx context.Context, bound stage.Artifact, from *From) error {
	type node struct {
		a    stage.Artifact
		from *From
	}
	todo := []node{{bound, from}}
	for len(todo) > 0 {
		n := todo[0]
		todo = todo[1:]
		res, err := c.producer(ctx, n.from)
		if err != nil {
			return err
		}
		if res == nil || res.Kind == KindImport {
			if err := c.document(ctx, n.a); err != nil {
				return err
			}
		}
		if res == nil || c.results[n.from.Result] {
			continue
		}
		c.results[n.from.Result] = true
		artifacts, err := c.inputs(ctx, res)
		if err != nil {
			return err
		}
		for i, in := range res.Inputs {
			if in.From != nil {
				todo = append(todo, node{artifacts[i], in.From})
			}
		}
	}
	return nil
}

// KindImport is the one kind whose output is a document of somewhere else.
const KindImport = "import"

func (c *closure) producer(ctx context.Context, from *From) (*Result, error) {
	if from == nil {
		return nil, nil
	}
	return c.r.Result(ctx, from.Result)
}

// inputs adds what an attempt read and says how its outputs were made.
func (c *closure) inputs(ctx context.Context, res *Result) ([]stage.Artifact, error) {
	production := stage.Production{
		Stage: res.Stage, Kind: res.Kind, Contract: res.Contract, Config: res.Config,
		Inputs: map[string][]stage.Artifact{}, Raised: res.Limitations,
	}
	artifacts := make([]stage.Artifact, len(res.Inputs))
	for i, in := range res.Inputs {
		a, err := c.artifact(ctx, in.Ref, fromStage(in.From), in.Name)
		if err != nil {
			return nil, err
		}
		c.add(a)
		artifacts[i] = a
		production.Inputs[in.Port] = append(production.Inputs[in.Port], a)
		if in.Whole == nil {
			continue
		}
		whole, err := c.artifact(ctx, *in.Whole, "", in.Name)
		if err != nil {
			return nil, err
		}
		c.add(whole)
	}
	for _, o := range res.Outputs {
		if _, ok := c.made[o.SHA256]; !ok {
			c.made[o.SHA256] = production
		}
	}
	return artifacts, nil
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

// add takes an artifact in, once. Of several with the same bytes Get returns
// the first that a stage made: a leaf has no limitations to show.
func (c *closure) add(a stage.Artifact) bool {
	if c.seen[a.Ref] {
		return false
	}
	c.seen[a.Ref] = true
	i, ok := c.byDigest[a.SHA256]
	if !ok || c.all[i].Stage == "" && a.Stage != "" {
		c.byDigest[a.SHA256] = len(c.all)
	}
	c.all = append(c.all, a)
	return true
}
