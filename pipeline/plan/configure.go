package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"anvil/pipeline/stage"
)

// configure resolves every child, each after what it needs.
func (p *parser) configure() {
	for _, d := range p.drafts {
		if d.kind == nil {
			continue
		}
		for _, c := range d.children {
			p.configureChild(c)
		}
	}
}

func (p *parser) configureChild(c *child) {
	d := c.of
	f := d.first
	if f == nil || !sameCell(project(c.cell, d.own), d.firstCell) {
		f, _ = p.fillWith(d, c.cell)
	} else {
		d.first = nil // a second child gets its own
	}
	c.with, c.endpoint = f.with, f.endpoint
	if !f.ok {
		return
	}
	at := d.pointer + "/with"
	if d.spec.Resolve != nil {
		r := p.resolution(c.id, c.with)
		r.Upstream, r.Peer = c.upstream(), c.peer(p)
		d.spec.Resolve(r)
		for _, problem := range r.Problems() {
			p.problem(at+problem.Pointer, problem.Message, problem.Hint)
		}
	}
	p.assemble(c)
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
		f, _ := p.fillWith(d, other.cell)
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
	d := c.of
	codec, err := p.codec(d.spec.Config)
	if err != nil {
		return // reported when the configuration was checked
	}
	with, key, marks, err := codec.write(c.with)
	if err != nil {
		p.problem(d.pointer+"/with", fmt.Sprintf("configuration has no canonical form: %v", err), "")
		return
	}
	where, _, _ := p.places.find(d.pointer)
	timeout, _ := d.head["timeout"].(string)
	limit, _ := time.ParseDuration(timeout)
	c.stage = Stage{
		ID: c.id, Of: d.id, Dir: c.dir, Cell: c.cell, Kind: d.kind,
		With: with, KeyConfig: key, Files: p.filesOf(d.pointer+"/with", marks),
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
