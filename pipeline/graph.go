package pipeline

import (
	"encoding/json"
	"fmt"
	"strings"

	"anvil/pipeline/dag"
	"anvil/pipeline/plan"
	"anvil/pipeline/stage"
)

// A role is what a run is asked to do with a stage.
type role int

const (
	asPlain   role = iota // restored when it is pure and its key is known, else executed
	forced                // executed
	fromBase              // taken over from the base, which must have it
	ifInBase              // taken over where the base has it, else skipped
	leftStale             // comes after what was asked for
)

// A node is a stage of the plan while a run goes on. What happens to it is
// written by one goroutine and read by others only after it was visited.
type node struct {
	*plan.Stage
	spec  stage.Spec // Out as it is for this stage
	needs []*node
	role  role

	attempts int  // begun in this run, by this process or an earlier one
	locks    bool // is exclusive and still to be executed: the endpoint locks wait for it
	kept     bool // stands on a result that an earlier process of this run wrote down
	decision decision
	outcome  outcome
}

// A graph is the plan's stages, wired.
type graph struct {
	dag.Graph[string]
	nodes map[string]*node
	order []*node // plan order
}

func newGraph(p *plan.Plan) (*graph, error) {
	g := &graph{nodes: make(map[string]*node, len(p.Stages))}
	for i := range p.Stages {
		st := &p.Stages[i]
		spec, err := specOf(st)
		if err != nil {
			return nil, err
		}
		n := &node{Stage: st, spec: spec}
		g.Add(st.ID, st.Needs...)
		g.nodes[st.ID] = n
		g.order = append(g.order, n)
	}
	for _, n := range g.order {
		for _, id := range g.Needs(n.ID) {
			n.needs = append(n.needs, g.nodes[id])
		}
	}
	return g, nil
}

func specOf(st *plan.Stage) (stage.Spec, error) {
	spec := st.Kind.Spec()
	if spec.Outputs == nil {
		return spec, nil
	}
	var with map[string]any
	if err := json.Unmarshal(st.With, &with); err != nil {
		return spec, fmt.Errorf("configuration of %s: %w", st.ID, err)
	}
	spec.Out = spec.Outputs(with)
	return spec, nil
}

// pick finds the stages that a flag names: an id of the plan, which means all
// of its children, or a child's id.
func (g *graph) pick(flag string, names []string) (map[string]bool, error) {
	picked := map[string]bool{}
	for _, name := range names {
		found := false
		for _, n := range g.order {
			if n.ID == name || n.Of == name {
				picked[n.ID], found = true, true
			}
		}
		if !found {
			return nil, &SelectionError{
				Reason:     fmt.Sprintf("%s: the plan has no stage %q", flag, name),
				Suggestion: "its stages are " + strings.Join(g.written(), ", "),
			}
		}
	}
	return picked, nil
}

// written returns the ids as the plan writes them.
func (g *graph) written() []string {
	var ids []string
	seen := map[string]bool{}
	for _, n := range g.order {
		if !seen[n.Of] {
			seen[n.Of] = true
			ids = append(ids, n.Of)
		}
	}
	return ids
}

// assign gives every stage its role.
func (g *graph) assign(opt Options) error {
	only, err := g.pick("--only", opt.Only)
	if err != nil {
		return err
	}
	from, err := g.pick("--from", opt.From)
	if err != nil {
		return err
	}
	force, err := g.pick("--force", opt.Force)
	if err != nil {
		return err
	}
	if len(only) > 0 && len(from) > 0 {
		return &SelectionError{Reason: "--only and --from exclude each other", Suggestion: "name the stages with one of them"}
	}
	for _, n := range g.order {
		if force[n.ID] {
			n.role = forced
		}
	}
	switch {
	case len(only) > 0:
		g.assignOnly(only)
	case len(from) > 0:
		g.assignFrom(from)
	}
	return g.reached(force)
}

// reached refuses to force a stage that --only or --from leaves alone.
func (g *graph) reached(force map[string]bool) error {
	for _, n := range g.order {
		if !force[n.ID] || n.role == forced {
			continue
		}
		return &SelectionError{
			Reason:     fmt.Sprintf("--force: %s is not among the stages that --only or --from executes", n.ID),
			Suggestion: "name it, or a stage that it stands on, with --from, or leave out --force",
		}
	}
	return nil
}

func (g *graph) assignOnly(only map[string]bool) {
	named := keys(only)
	upstream, downstream := g.Upstream(named...), g.Downstream(named...)
	for _, n := range g.order {
		switch {
		case only[n.ID]:
			n.role = forced
		case upstream[n.ID]:
			n.role = fromBase
		case downstream[n.ID]:
			n.role = leftStale
		default:
			n.role = ifInBase
		}
	}
}

func (g *graph) assignFrom(from map[string]bool) {
	again := g.Downstream(keys(from)...)
	for id := range from {
		again[id] = true
	}
	upstream := g.Upstream(keys(again)...)
	for _, n := range g.order {
		switch {
		case again[n.ID]: // as a plain run, or forced
		case upstream[n.ID]:
			n.role = fromBase
		default:
			n.role = ifInBase
		}
	}
}

func keys(m map[string]bool) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}

// exclusive tells whether a stage must run alone.
func (g *graph) exclusive(id string) bool { return g.nodes[id].spec.Exclusive }

// optionalFor tells whether n can do without what need publishes: every port
// on which it arrives is optional. A need that arrives on no port only orders.
func (n *node) optionalFor(need *node) bool {
	for _, b := range n.Inputs {
		for _, s := range b.From {
			if s.Stage == need.ID && !n.inPort(b.Port).Optional {
				return false
			}
		}
	}
	return true
}

func (n *node) inPort(name string) stage.Port {
	for _, p := range n.spec.In {
		if p.Name == name {
			return p
		}
	}
	return stage.Port{Name: name}
}
