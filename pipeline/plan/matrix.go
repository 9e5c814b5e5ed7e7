package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

// maxChildren bounds what a matrix multiplies the stages of one plan to.
const maxChildren = 50_000

// A child is a draft at one point of the matrix.
type child struct {
	of      *draft
	cell    stage.Cell
	id, dir string
	needs   []*child // plan order
	inputs  []childPort

	with     map[string]any // resolved, once it is
	endpoint *Endpoint
	fits     bool // with fits its schema
	resolved resolution
	stage    Stage
}

type childPort struct {
	port stage.Port
	from []childOutput
}

type childOutput struct {
	child *child
	name  string
}

// multiply makes the children of every draft and links them.
func (p *parser) multiply() {
	p.checkOrder()
	p.spreadAxes()
	p.checkUnusedAxes()
	total := 0
	seen := map[string]string{}
	for _, d := range p.drafts {
		n := 1
		for _, a := range p.axes {
			if d.axes[a.name] {
				n *= len(a.values)
			}
			if n > maxChildren {
				break
			}
		}
		if total += n; total > maxChildren {
			p.problem("/matrix", fmt.Sprintf("the matrix multiplies the stages to more than %d", maxChildren), "")
			d.children = nil
			return
		}
		p.makeChildren(d, n, seen)
	}
	for _, d := range p.drafts {
		p.link(d)
	}
}

// spreadAxes finds the axes that multiply each draft: its own and those of its
// inputs, less what it collects. A calibration has the axes of the stage that
// it is like, which may in turn have it as an input, so the sets are grown
// until they stand still.
func (p *parser) spreadAxes() {
	for _, d := range p.drafts {
		d.axes = maps.Clone(d.own)
		for name := range d.collect {
			if d.own[name] {
				p.problem(d.pointer+"/collect", fmt.Sprintf("collects the axis %q that its own with names", name), "")
			}
		}
	}
	for grown := true; grown; {
		grown = false
		for _, d := range p.drafts {
			before := len(d.axes)
			for _, b := range d.ports {
				for _, o := range b.from {
					for name := range o.of.axes {
						if !d.collects(name) {
							d.axes[name] = true
						}
					}
				}
			}
			for _, other := range d.like {
				maps.Copy(d.axes, other.axes)
			}
			grown = grown || len(d.axes) > before
		}
	}
	for _, d := range p.drafts {
		for _, b := range d.ports {
			for _, o := range b.from {
				for _, name := range keys(o.of.axes) {
					if !d.axes[name] && !b.port.Many {
						p.problem(d.pointer, fmt.Sprintf("port %q takes one artifact, and %q has one for each value of the axis %q", b.port.Name, o.of.id, name),
							"collect: [] multiplies this stage as well")
					}
				}
			}
		}
	}
}

// collects tells whether the children along an axis arrive together.
func (d *draft) collects(name string) bool {
	if _, written := d.head["collect"]; written {
		return d.collect[name]
	}
	return d.spec.Collects && !d.own[name]
}

func (p *parser) checkUnusedAxes() {
	for _, a := range p.axes {
		if !slices.ContainsFunc(p.drafts, func(d *draft) bool { return d.own[a.name] }) {
			hint := fmt.Sprintf("write ${matrix.%s} in the with of a stage", a.name)
			if a.name == rep {
				hint += `, for example seed: "${matrix.rep}" in a workload`
			}
			p.keyProblem("/matrix/"+a.name, fmt.Sprintf("no stage names the axis %q", a.name), hint)
		}
	}
}

// makeChildren makes the n children of d in written order, the last axis fastest.
func (p *parser) makeChildren(d *draft, n int, seen map[string]string) {
	d.children = make([]*child, n)
	var axes []axis
	for _, a := range p.axes {
		if d.axes[a.name] {
			axes = append(axes, a)
		}
	}
	for i := range n {
		cell := make(stage.Cell, len(axes))
		at := i
		for j := len(axes) - 1; j >= 0; j-- {
			size := len(axes[j].values)
			cell[j] = stage.AxisValue{Axis: axes[j].name, Value: axes[j].values[at%size]}
			at /= size
		}
		c := &child{of: d, cell: cell, id: d.id}
		if len(cell) > 0 {
			c.id += "[" + cellName(cell) + "]"
		}
		c.dir = dirName(c.id)
		if other, ok := seen[c.dir]; ok && d.id != "" {
			p.problem(d.pointer+"/id", fmt.Sprintf("%q and %q would share the folder %q", other, c.id, c.dir), "")
		}
		seen[c.dir] = c.id
		d.children[i] = c
	}
}

// cellName is "concurrency=4,rep=1".
func cellName(cell stage.Cell) string {
	var b strings.Builder
	for i, a := range cell {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(a.Axis)
		b.WriteByte('=')
		b.WriteString(scalarText(a.Value))
	}
	return b.String()
}

// project drops the axes of a cell that are not among those given.
func project(cell stage.Cell, axes map[string]bool) stage.Cell {
	if len(cell) == 0 || len(axes) == 0 {
		return nil
	}
	out := make(stage.Cell, 0, len(cell))
	for _, a := range cell {
		if axes[a.Axis] {
			out = append(out, a)
		}
	}
	return out
}

const (
	longestDir = 120 // bytes
	keptOfLong = 80
)

// dirName is the name of a child's folder: its id with every byte but letters,
// digits and "._=,[]-" percent-encoded, and shortened when it is long.
func dirName(id string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(id) {
		c := id[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._=,[]-", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	name := b.String()
	if len(name) > longestDir {
		return name[:keptOfLong] + "~" + digest.FromBytes([]byte(name)).Short()
	}
	return name
}

// agreeing returns a function that gives the children of from which lie, on the
// axes that it shares with d, at the point of a child of d.
func (d *draft) agreeing(from *draft) func(*child) []*child {
	shared := map[string]bool{}
	for name := range from.axes {
		if d.axes[name] {
			shared[name] = true
		}
	}
	if len(shared) == 0 {
		return func(*child) []*child { return from.children }
	}
	which := join(keys(shared))
	if from.groups[which] == nil {
		if from.groups == nil {
			from.groups = map[string]map[string][]*child{}
		}
		group := make(map[string][]*child, len(from.children))
		for _, other := range from.children {
			point := cellName(project(other.cell, shared))
			group[point] = append(group[point], other)
		}
		from.groups[which] = group
	}
	return func(c *child) []*child { return from.groups[which][cellName(project(c.cell, shared))] }
}

// link connects the children of d to those of its needs.
func (p *parser) link(d *draft) {
	for _, from := range d.needs {
		near := d.agreeing(from)
		for _, c := range d.children {
			c.needs = append(c.needs, near(c)...)
		}
	}
	for _, b := range d.ports {
		for _, c := range d.children {
			c.inputs = append(c.inputs, childPort{port: b.port})
		}
		for _, o := range b.from {
			near := d.agreeing(o.of)
			for _, c := range d.children {
				in := &c.inputs[len(c.inputs)-1]
				for _, other := range near(c) {
					in.from = append(in.from, childOutput{child: other, name: o.name})
				}
			}
		}
	}
}

// inRunOrder sorts the children of one draft as matrix_order says.
func (p *parser) inRunOrder(d *draft) []*child {
	order := slices.Clone(d.children)
	switch p.top["matrix_order"] {
	case "shuffled":
		env := stage.Env{Seed: stage.SeedOf(p.plan.Seed)}
		// Drafts on the same axes share one order.
		env.Rand("matrix_order/"+join(keys(d.axes))).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	case "abba":
		if len(d.axes) == 2 {
			return p.abba(order)
		}
	}
	return order
}

// abba orders the children of a two-valued axis and rep as A B, B A, A B, ...
func (p *parser) abba(written []*child) []*child {
	at := slices.IndexFunc(p.axes, func(a axis) bool { return a.name == rep })
	reps := len(p.axes[at].values)
	order := make([]*child, 0, len(written))
	for r := range reps {
		for v := range 2 {
			if r%2 == 1 {
				v = 1 - v
			}
			i := r*2 + v // rep first, then the other axis fastest
			if at == 1 {
				i = v*reps + r
			}
			order = append(order, written[i])
		}
	}
	return order
}
