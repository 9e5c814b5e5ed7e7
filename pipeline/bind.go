package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/gowebpki/jcs"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/key"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
	"anvil/schemas"
)

// ClosureSchema is the shape of the list of what a port with a closure reaches:
// it enters the key as the input "<port>.closure", and is stored as an object.
const ClosureSchema schemas.ID = "anvil.closure/v1"

// emptySet is the digest of the limitation set of a leaf file.
var emptySet = sync.OnceValue(func() digest.Digest {
	_, d := stage.LimitationSet(nil).Canonical()
	return d
})

// A bound is everything that a stage reads, with its key.
type bound struct {
	ports    map[string][]stage.Artifact
	closures map[string]stage.Closure
	lists    map[digest.Digest][]byte // the closures' lists, to be stored
	leaves   []leaf
	inputs   []prov.Input        // in the order of the key
	set      stage.LimitationSet // union of the inputs' sets
	key      digest.Digest
}

// bind gathers what arrives on a stage's ports from the outcomes of its needs,
// which must be known, and the given leaves, and forms its key.
func (e *execution) bind(ctx context.Context, n *node, leaves []leaf) (*bound, error) {
	return e.bindWith(ctx, n, leaves, func(a stage.Artifact, _ *standing) stage.Artifact { return a })
}

// bindAsMade is bind without what the executor added in this run to the sets of
// what it took over.
func (e *execution) bindAsMade(ctx context.Context, n *node, leaves []leaf) (*bound, error) {
	return e.bindWith(ctx, n, leaves, func(a stage.Artifact, s *standing) stage.Artifact {
		for _, o := range s.res.Outputs {
			if o.Name == a.Name {
				return stage.NewArtifact(o.Ref, a.Stage, a.Name, e.x.Store, s.res.Limitations)
			}
		}
		return a
	})
}

func (e *execution) bindWith(ctx context.Context, n *node, leaves []leaf, as func(stage.Artifact, *standing) stage.Artifact) (*bound, error) {
	b := &bound{ports: map[string][]stage.Artifact{}, leaves: leaves}
	sets := map[digest.Digest]stage.LimitationSet{}
	for _, binding := range n.Inputs {
		port := n.inPort(binding.Port)
		for _, src := range binding.From {
			if err := e.bindSource(ctx, b, port, e.graph.nodes[src.Stage], src.Output, as, sets); err != nil {
				return nil, err
			}
		}
		if len(b.ports[port.Name]) == 0 && !port.Optional {
			return nil, fmt.Errorf("input %s: none of the stages that it is bound to published anything for it", port.Name)
		}
	}
	for _, l := range leaves {
		b.inputs = append(b.inputs, l.input())
	}
	for _, set := range sets {
		b.set = append(b.set, set...)
	}
	b.set = stage.NewLimitationSet(b.set...)
	var err error
	b.key, err = n.key(b.inputs, e.plan.Salt)
	return b, err
}

func (e *execution) bindSource(ctx context.Context, b *bound, port stage.Port, from *node, output string, as func(stage.Artifact, *standing) stage.Artifact, sets map[digest.Digest]stage.LimitationSet) error {
	a, ok := from.outcome.artifact(output)
	if !ok {
		return nil // an optional output that was not written, or a stage that did not make it
	}
	a = as(a, from.outcome.standing)
	b.ports[port.Name] = append(b.ports[port.Name], a)
	sets[a.Limitations] = a.LimitationSet()
	origin := from.outcome.standing.origin(output)
	b.inputs = append(b.inputs, prov.Input{Port: port.Name, Ref: a.Ref, From: origin, Name: a.Name})
	if !port.Closure {
		return nil
	}
	c, err := prov.NewClosure(ctx, e.reader, a, origin)
	if err != nil {
		return err
	}
	if b.closures == nil {
		b.closures, b.lists = map[string]stage.Closure{}, map[digest.Digest][]byte{}
	}
	b.closures[port.Name] = c
	list, err := closureList(c)
	if err != nil {
		return err
	}
	d := digest.FromBytes(list)
	b.lists[d] = list
	b.inputs = append(b.inputs, prov.Input{
		Port: port.Name + ".closure",
		Ref:  stage.Ref{Schema: ClosureSchema, SHA256: d, Size: int64(len(list)), Limitations: emptySet()},
		Name: port.Name + ".closure.json",
	})
	return nil
}

// closureList is what of a closure enters the key: the references of all its
// members, and of what is absent.
func closureList(c stage.Closure) ([]byte, error) {
	list := struct {
		Schema  schemas.ID  `json:"schema"`
		Members []stage.Ref `json:"members"`
		Absent  []stage.Ref `json:"absent"`
	}{ClosureSchema, []stage.Ref{}, []stage.Ref{}}
	for a := range c.All() {
		list.Members = append(list.Members, a.Ref)
	}
	list.Absent = append(list.Absent, c.Absent()...)
	raw, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	return jcs.Transform(raw)
}

// key is the stage key under the given inputs.
func (n *node) key(inputs []prov.Input, salt string) (digest.Digest, error) {
	in := make([]key.Input, len(inputs))
	for i, input := range inputs {
		in[i] = key.Input{Port: input.Port, Ref: input.Ref}
	}
	return key.OfCanonical(key.Spec{
		Kind: n.spec.Name, Contract: n.spec.Contract, Config: n.KeyConfig, Inputs: in, Salt: salt,
	})
}

// putLists stores the lists of the closures, so that the key can be formed
// again by whoever checks it.
func (b *bound) putLists(ctx context.Context, s *store.Store) error {
	for _, list := range b.lists {
		if _, _, err := s.Put(ctx, bytes.NewReader(list)); err != nil {
			return err
		}
	}
	return nil
}

// stageInputs are what the stage itself is given.
func (b *bound) stageInputs(opener stage.Opener) stage.Inputs {
	files := make(map[string]stage.Artifact, len(b.leaves))
	for _, l := range b.leaves {
		files[l.file.Pointer] = stage.NewArtifact(l.read, "", l.name(), opener, stage.LimitationSet{})
	}
	return stage.NewInputs(b.ports, files, b.closures)
}
