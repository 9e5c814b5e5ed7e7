package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"anvil/pipeline/stage"
	"anvil/schemas"
)

// configure resolves every child, each after what it needs.
func (p *parser) configure() {
	p.fillChildren()
	for _, level := range p.levels() {
		p.spread(len(level), func(w *worker, i int) { p.resolveChild(w, level[i]) })
		for _, c := range level {
			p.assemble(c)
		}
	}
}

// fillChildren configures each child at its matrix point.
func (p *parser) fillChildren() {
	var todo []*child
	for _, d := range p.drafts {
		if d.kind == nil {
			continue
		}
		for _, c := range d.children {
			if f := d.first; f != nil && sameCell(project(c.cell, d.own), d.firstCell) {
				d.first = nil // a second child gets its own
				c.take(f)
			} else {
				todo = append(todo, c)
			}
		}
	}
	found := make([]*checked, len(todo))
	p.spread(len(todo), func(w *worker, i int) { found[i] = p.checkWith(w, todo[i].of, todo[i].cell) })
	for i, c := range todo {
		c.take(p.place(c.of, found[i], c.cell))
	}
}

func (c *child) take(f *filled) { c.with, c.endpoint, c.fits = f.with, f.endpoint, f.ok }

// levels are the children whose configuration fits: those that need nothing,
// those that need only these, and so on, each in the order of the drafts.
func (p *parser) levels() [][]*child {
	var out [][]*child
	depth := make(map[*draft]int, len(p.drafts))
	for _, d := range p.drafts {
		at := 0
		for _, need := range d.needs {
			at = max(at, depth[need]+1)
		}
		depth[d] = at
		for len(out) <= at {
			out = append(out, nil)
		}
		for _, c := range d.children {
			if d.kind != nil && c.fits {
				out[at] = append(out[at], c)
			}
		}
	}
	return out
}

// A resolution is what came of resolving a child: nothing of it is reported yet.
type resolution struct {
	problems  []stage.ResolutionProblem
	with, key json.RawMessage
	marks     []schemas.Mark
	err       error
}

// resolveChild lets the kind resolve a configuration and writes it. Those of
// one level are resolved at once.
func (p *parser) resolveChild(w *worker, c *child) {
	d := c.of
	if d.spec.Resolve != nil {
		r := p.resolution(c.id, c.with)
		r.Upstream, r.Peer = c.upstream(), c.peer(p)
		d.spec.Resolve(r)
		c.resolved.problems = r.Problems()
	}
	codec, err := w.codec(d.spec.Config)
	if err != nil {
		return // reported when the configuration was checked
	}
	c.resolved.with, c.resolved.key, c.resolved.marks, c.resolved.err = codec.write(c.with)
}

func sameCell(a, b stage.Cell) bool { return slices.Equal(a, b) }

// resolution is what a kind sees of the plan while it resolves one stage.
func (p *parser) resolution(id string, with map[string]any) *stage.Resolution {
	deployment, _ := p.top["deployment"].(map[string]any)
	conditions, _ := p.top["conditions"].([]any)
	return &stage.Resolution{
		With: with, ID: id,
		Plan: stage.ResolutionPlan{
			Dir: p.dir, Name: p.plan.Name, Title: p.plan.Title, Seed: p.plan.Seed,
			Deployment: deployment, Conditions: conditions, Limitations: p.plan.Limitations,
		},
		Peer: func(string) (stage.Peer, bool) { return stage.Peer{}, false },
		Open: p.open,
		Once: p.shelf.once,
	}
}

// upstream lists what c depends on, the nearest first and in plan order where
// equally near.
func (c *child) upstream() []stage.Peer {
	var peers []stage.Peer
	seen := map[*child]bool{c: true}
	near := true
	for level := []*child{c}; len(level) > 0; {
		var next []*child
		for _, at := range level {
			for _, n := range at.needs {
				if !seen[n] {
					seen[n] = true
					next = append(next, n)
				}
			}
		}
		slices.SortStableFunc(next, func(a, b *child) int { return cmp.Compare(a.of.index, b.of.index) })
		for _, n := range next {
			if n.of.kind != nil {
				peer := n.asPeer()
				peer.Direct = near
				peers = append(peers, peer)
			}
		}
		level, near = next, false
	}
	return peers
}

func (c *child) asPeer() stage.Peer {
	return stage.Peer{ID: c.id, Of: c.of.id, Kind: c.of.spec.Name, With: c.with}
}

// peer finds a stage by the id that the plan writes: the child at c's point.
func (c *child) peer(p *parser) func(id string) (stage.Peer, bool) {
	return func(id string) (stage.Peer, bool) {
		p.peers.Lock()
		defer p.peers.Unlock()
		d, ok := p.byID[id]
		if !ok || d.kind == nil {
			return stage.Peer{}, false
		}
		near := c.of.agreeing(d)(c)
		if len(near) == 0 {
			return stage.Peer{}, false
		}
		other := near[0]
		if c.dependsOn(other) {
			return other.asPeer(), true
		}
		f := p.fillWith(d, other.cell)
		return stage.Peer{ID: other.id, Of: d.id, Kind: d.spec.Name, With: f.with}, true
	}
}

func (c *child) dependsOn(other *child) bool {
	seen := map[*child]bool{c: true}
	for todo := []*child{c}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, n := range at.needs {
			if n == other {
				return true
			}
			if !seen[n] {
				seen[n] = true
				todo = append(todo, n)
			}
		}
	}
	return false
}

// assemble builds the stage of a child from its resolved configuration.
func (p *parser) assemble(c *child) {
	d, r := c.of, &c.resolved
	at := d.pointer + "/with"
	for _, problem := range r.problems {
		p.problem(at+problem.Pointer, problem.Message, problem.Hint)
	}
	if r.err != nil {
		p.problem(at, fmt.Sprintf("configuration has no canonical form: %v", r.err), "")
		return
	}
	where, _, _ := p.places.find(d.pointer)
	timeout, _ := d.head["timeout"].(string)
	limit, _ := time.ParseDuration(timeout)
	c.stage = Stage{
		ID: c.id, Of: d.id, Dir: c.dir, Cell: c.cell, Kind: d.kind,
		With: r.with, KeyConfig: r.key, Files: p.filesOf(at, r.marks),
		Timeout: limit, Retries: int(asInt(d.head["retries"])), ContinueOnFailure: d.head["on_failure"] == "continue",
		Endpoint: c.endpoint, Pos: p.pos(where.at),
	}
	for _, n := range c.needs {
		c.stage.Needs = append(c.stage.Needs, n.id)
	}
	for _, in := range c.inputs {
		b := Binding{Port: in.port.Name, From: make([]Source, len(in.from))}
		for i, o := range in.from {
			name := o.name
			if name == "" {
				name = outputName(o.child.with)
			}
			b.From[i] = Source{Stage: o.child.id, Output: name}
		}
		c.stage.Inputs = append(c.stage.Inputs, b)
	}
}
