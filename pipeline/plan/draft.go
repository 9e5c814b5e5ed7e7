package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"anvil/pipeline/dag"
	"anvil/pipeline/stage"
	"anvil/schemas"
)

// A draft is a stage as the plan writes it, before the matrix multiplies it.
type draft struct {
	index   int
	id      string // "" when the plan gives none that can be used
	pointer string // "/stages/2"
	head    map[string]any
	with    map[string]any // as written
	kind    stage.Kind     // nil for an unknown one
	spec    stage.Spec

	needs  []*draft // without duplicates, plan order; those of inputs among them
	inputs map[string][]*draft
	bad    bool // something in with was reported while it was read
	lame   bool // a need is unknown, so that what is missing on a port is no news

	named   map[string]bool // axes in with
	own     map[string]bool // these and the axes of its endpoints
	like    []*draft        // multiplied with these
	collect map[string]bool
	axes    map[string]bool // what it is multiplied by
	ports   []boundPort

	first     *filled // its configuration at the first matrix point, not resolved; taken by the first child
	firstCell stage.Cell
	preview   map[string]any // the same; resolved where the kind's outputs depend on it
	children  []*child
	groups    map[string]map[string][]*child // by axes, then by point
}

// A boundPort is a port of a draft with the outputs that arrive on it.
type boundPort struct {
	port stage.Port
	from []output
}

type output struct {
	of   *draft
	name string // "" for an output that its own configuration names
}

func (p *parser) readStages() {
	where := p.places.fields["stages"]
	p.byID = map[string]*draft{}
	folded := map[string]*draft{}
	for i, head := range p.heads {
		if head == nil {
			continue
		}
		d := &draft{index: i, pointer: "/stages/" + strconv.Itoa(i), head: head, named: map[string]bool{}, inputs: map[string][]*draft{}}
		p.drafts = append(p.drafts, d)
		p.nameStage(d, folded)
		p.findKind(d)
		raw, _ := p.root["stages"].([]any)[i].(map[string]any)
		d.with, _ = raw["with"].(map[string]any)
		if at := where.items[i].fields["with"]; at != nil {
			if at.fields != nil {
				p.checkReferences(d.with, at, d.pointer+"/with", p.full(nil), d.named)
			} else {
				at.bad = true // no mapping, which was reported: what it lacks is no news
			}
			d.bad = at.anyBad()
		}
		if text, ok := head["timeout"].(string); ok {
			if t, err := time.ParseDuration(text); err == nil && t == 0 {
				p.problem(d.pointer+"/timeout", "must be > 0", "leave it out for none")
			}
		}
	}
	for _, d := range p.drafts {
		p.readNeeds(d)
		p.readCollect(d)
	}
}

func (p *parser) nameStage(d *draft, folded map[string]*draft) {
	id, ok := d.head["id"].(string)
	if !ok {
		return
	}
	at := d.pointer + "/id"
	switch why := unsafeName(id); {
	case id == stage.OriginPlan || id == stage.OriginRun:
		p.problem(at, fmt.Sprintf("no stage may be called %q: limitations name their origin so", id), "")
	case why != "":
		p.problem(at, why, "")
	}
	fold := strings.ToLower(norm.NFKC.String(id))
	if first, ok := folded[fold]; ok {
		message := fmt.Sprintf("duplicate stage id %q", id)
		if first.id != id {
			message = fmt.Sprintf("stage id %+q is like %+q but for case or Unicode form", id, first.id)
		}
		where, _, _ := p.places.find(first.pointer + "/id")
		p.problem(at, message, fmt.Sprintf("first at line %d", where.at.line))
		return
	}
	d.id = id
	folded[fold], p.byID[id] = d, d
}

func (p *parser) findKind(d *draft) {
	uses, ok := d.head["uses"].(string)
	if !ok || uses == "" {
		return
	}
	kind, ok := p.kinds[uses]
	switch {
	case ok:
		d.kind, d.spec = kind, kind.Spec()
	case later(uses):
		p.problem(d.pointer+"/uses", fmt.Sprintf("kind %q is not in this version of anvil", uses), "leave the stage out, or use a later version")
	default:
		hint := p.meant(uses, "", func() []string { return keys(p.kinds) })
		p.problem(d.pointer+"/uses", fmt.Sprintf("unknown kind %q", uses), hint)
	}
}

// later tells whether a kind is one that the plan's format has and this build
// may not: another name is no remedy for it.
func later(kind string) bool {
	switch kind {
	case "calibrate", "compare", "report":
		return true
	}
	return false
}

func (p *parser) readNeeds(d *draft) {
	needs, _ := d.head["needs"].([]any)
	for i, n := range needs {
		d.need(p.findStage(d, fmt.Sprintf("%s/needs/%d", d.pointer, i), n))
	}
	inputs, _ := d.head["inputs"].(map[string]any)
	for _, name := range keys(inputs) {
		at := schemas.Join(d.pointer, "inputs", name)
		if !slices.ContainsFunc(d.spec.In, func(port stage.Port) bool { return port.Name == name }) && d.kind != nil {
			p.unknownPort(d, at, name)
			d.lame = true
			continue
		}
		ids, many := inputs[name].([]any)
		if !many {
			ids = []any{inputs[name]}
		}
		for i, id := range ids {
			at := at
			if many {
				at += "/" + strconv.Itoa(i)
			}
			from := p.findStage(d, at, id)
			d.need(from)
			if slices.Contains(d.inputs[name], from) && from != nil {
				p.problem(at, fmt.Sprintf("stage %q stands twice on this port", from.id), "")
			} else if from != nil {
				d.inputs[name] = append(d.inputs[name], from)
			}
		}
	}
	slices.SortFunc(d.needs, func(a, b *draft) int { return cmp.Compare(a.index, b.index) })
}

func (d *draft) need(from *draft) {
	switch {
	case from == nil:
		d.lame = true
	case !slices.Contains(d.needs, from):
		d.needs = append(d.needs, from)
	}
}

// findStage returns the stage with that id, nil for none that d may need.
func (p *parser) findStage(d *draft, pointer string, id any) *draft {
	name, ok := id.(string)
	if !ok || name == "" {
		return nil
	}
	from, ok := p.byID[name]
	if !ok {
		hint := ""
		if near, ok := p.ps.near(name, func() []string { return keys(p.byID) }); ok {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		p.problem(pointer, fmt.Sprintf("no stage has the id %q", name), hint)
		return nil
	}
	if from == d {
		p.problem(pointer, fmt.Sprintf("stage %q needs itself", name), "")
		return nil
	}
	return from
}

func (p *parser) unknownPort(d *draft, pointer, name string) {
	ports := make([]string, len(d.spec.In))
	for i, port := range d.spec.In {
		ports[i] = port.Name
	}
	hint := p.meant(name, "it has no ports", func() []string { return ports })
	p.keyProblem(pointer, fmt.Sprintf("kind %q has no port %q", d.spec.Name, name), hint)
}

func (p *parser) readCollect(d *draft) {
	d.collect = map[string]bool{}
	list, written := d.head["collect"].([]any)
	if !written {
		return
	}
	for i, e := range list {
		name, ok := e.(string)
		if !ok {
			continue
		}
		at := fmt.Sprintf("%s/collect/%d", d.pointer, i)
		if !slices.Contains(p.scope.axes, name) {
			hint := p.meant(name, "the matrix has no axes", func() []string { return p.scope.axes })
			p.problem(at, fmt.Sprintf("unknown axis %q", name), hint)
			continue
		}
		d.collect[name] = true
	}
}

// maxCycles bounds the search for further cycles, each of which starts anew.
const maxCycles = 20

// orderStages sorts the drafts so that each comes after its needs. Every cycle
// is reported; its last edge is then taken for absent. It returns false when
// there are too many to go on.
func (p *parser) orderStages() bool {
	for range maxCycles {
		var g dag.Graph[*draft]
		for _, d := range p.drafts {
			g.Add(d, d.needs...)
		}
		order, err := g.Order()
		var cycle *dag.CycleError[*draft]
		if !errors.As(err, &cycle) {
			p.drafts = order
			return true
		}
		ids := make([]string, len(cycle.Path))
		for i, d := range cycle.Path {
			ids[i] = d.id
		}
		from, to := cycle.Path[0], cycle.Path[1]
		p.problem(p.edge(from, to), "cycle: "+strings.Join(ids, " -> "), "")
		last := cycle.Path[len(cycle.Path)-2]
		last.needs = slices.DeleteFunc(last.needs, func(d *draft) bool { return d == from })
		for port, list := range last.inputs {
			last.inputs[port] = slices.DeleteFunc(list, func(d *draft) bool { return d == from })
		}
		last.lame = true
	}
	return false
}

// edge is the pointer to the place where one stage says that it needs another.
func (p *parser) edge(from, to *draft) string {
	needs, _ := from.head["needs"].([]any)
	for i, n := range needs {
		if n == to.id {
			return fmt.Sprintf("%s/needs/%d", from.pointer, i)
		}
	}
	inputs, _ := from.head["inputs"].(map[string]any)
	for _, port := range keys(inputs) {
		at := schemas.Join(from.pointer, "inputs", port)
		if inputs[port] == to.id {
			return at
		}
		list, _ := inputs[port].([]any)
		for i, n := range list {
			if n == to.id {
				return fmt.Sprintf("%s/%d", at, i)
			}
		}
	}
	return from.pointer
}
