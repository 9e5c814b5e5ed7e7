package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"anvil/pipeline/stage"
	"anvil/schemas"
)

// A filled configuration has its references substituted, its defaults filled
// and its endpoints in place; a kind may still resolve the rest.
type filled struct {
	with     map[string]any
	endpoint *Endpoint // the first that it names
	ok       bool      // it fits its schema
}

// A checked configuration is one at a matrix point with what its schema says
// of it. Nothing of it is reported yet.
type checked struct {
	with   map[string]any
	faults []schemas.Fault
	marks  []schemas.Mark
	err    error
}

// checkWith substitutes and checks the configuration of a draft. It changes
// nothing of p, so that several workers can do it at once.
func (p *parser) checkWith(w *worker, d *draft, cell stage.Cell) *checked {
	c := &checked{with: map[string]any{}}
	if d.with != nil {
		c.with = substitute(d.with, p.full(cell)).(map[string]any)
	}
	codec, err := w.codec(d.spec.Config)
	if err != nil {
		c.err = err
		return c
	}
	c.faults, c.marks, c.err = codec.Check(c.with)
	return c
}

// place reports what does not fit of a checked configuration and puts the
// endpoints in.
func (p *parser) place(d *draft, c *checked, cell stage.Cell) *filled {
	f := &filled{with: c.with}
	at := d.pointer + "/with"
	if c.err != nil {
		p.problem(at, c.err.Error(), "")
		return f
	}
	faults := append(c.faults, p.resolvedKeys(d, c.marks)...)
	p.faults(at, faults)
	f.ok = len(faults) == 0 && !d.bad
	for _, m := range c.marks {
		if m.Marks.Endpoint {
			p.placeEndpoint(d, f, m, cell)
		}
	}
	return f
}

// fillWith configures a draft at a matrix point and reports what does not fit.
func (p *parser) fillWith(d *draft, cell stage.Cell) *filled {
	return p.place(d, p.checkWith(&p.own, d, cell), cell)
}

// resolvedKeys reports keys that only a kind sets.
func (p *parser) resolvedKeys(d *draft, marks []schemas.Mark) []schemas.Fault {
	var out []schemas.Fault
	for _, m := range marks {
		if _, exact, _ := p.places.find(d.pointer + "/with" + m.Pointer); m.Marks.Resolved && exact {
			key := schemas.Split(m.Pointer)
			out = append(out, schemas.Fault{Pointer: m.Pointer, Key: true, Message: fmt.Sprintf("unknown key %q", key[len(key)-1]), Hint: "anvil sets it itself"})
		}
	}
	return out
}

// anyBad tells whether something at or below a place was reported.
func (p *place) anyBad() bool {
	return p.bad || slices.ContainsFunc(p.items, (*place).anyBad) ||
		slices.ContainsFunc(slices.Collect(maps.Values(p.fields)), (*place).anyBad)
}

// placeEndpoint replaces the name of an endpoint by the endpoint.
func (p *parser) placeEndpoint(d *draft, f *filled, m schemas.Mark, cell stage.Cell) {
	name, ok := m.Value.(string)
	if !ok {
		return
	}
	e, ok := p.endpoints[name]
	if !ok {
		f.ok = false
		hint := p.meant(name, "the plan has no endpoints", func() []string { return keys(p.endpoints) })
		if where := p.places.fields["endpoints"]; where != nil && where.fields[name] != nil {
			return // it is there, and no mapping
		}
		p.problem(d.pointer+"/with"+m.Pointer, fmt.Sprintf("unknown endpoint %q", name), hint)
		return
	}
	r := p.resolveEndpoint(e, cell)
	if f.endpoint == nil {
		f.endpoint = &r.Endpoint
	}
	setAt(f.with, m.Pointer, r.config)
}

// setAt replaces the value at a pointer that exists.
func setAt(v any, pointer string, to any) {
	tokens := schemas.Split(pointer)
	for i, t := range tokens {
		last := i == len(tokens)-1
		switch c := v.(type) {
		case map[string]any:
			if last {
				c[t] = to
			}
			v = c[t]
		case []any:
			j, err := strconv.Atoi(t)
			if err != nil || j < 0 || j >= len(c) {
				return
			}
			if last {
				c[j] = to
			}
			v = c[j]
		}
	}
}

// checkDrafts checks every draft at its first matrix point.
func (p *parser) checkDrafts() []*checked {
	cell := p.firstCell(allAxes(p.axes))
	out := make([]*checked, len(p.drafts))
	p.spread(len(out), func(w *worker, i int) {
		if d := p.drafts[i]; d.kind != nil {
			out[i] = p.checkWith(w, d, cell)
		}
	})
	return out
}

// prepare configures a draft at its first matrix point: that tells which axes
// its endpoints name and what its outputs are.
func (p *parser) prepare(d *draft, c *checked) {
	d.own = maps.Clone(d.named)
	if d.kind == nil {
		return
	}
	cell := p.firstCell(allAxes(p.axes))
	f := p.place(d, c, cell)
	d.first = f
	for _, m := range c.marks {
		name, _ := m.Value.(string)
		if m.Marks.Endpoint {
			p.addEndpointAxes(d, m.Pointer, name)
		}
		if m.Marks.Like && name != "" {
			if other := p.findStage(d, d.pointer+"/with"+m.Pointer, name); other != nil {
				d.like = append(d.like, other)
			} else {
				f.ok = false
			}
		}
	}
	d.firstCell, d.preview = project(cell, d.own), f.with
	if f.ok && (d.spec.Outputs != nil || slices.ContainsFunc(d.spec.Out, func(o stage.Port) bool { return o.Name == "" || o.Schema == "" })) && d.spec.Resolve != nil {
		again := p.fillWith(d, cell)
		d.preview = again.with
		d.spec.Resolve(p.resolution(d.id, again.with))
	}
}

// addEndpointAxes adds the axes of the endpoint that a configuration names; of
// every endpoint when the name itself comes from the matrix.
func (p *parser) addEndpointAxes(d *draft, pointer, name string) {
	for _, e := range p.endpoints {
		if e.name == name || len(d.named) > 0 && p.fromMatrix(d.pointer+"/with"+pointer) {
			maps.Copy(d.own, e.axes)
		}
	}
}

func (p *parser) fromMatrix(pointer string) bool {
	parts, _ := pieces(p.written(pointer))
	return slices.ContainsFunc(parts, func(x piece) bool { return x.space == "matrix" })
}

// written is the text that the plan has at a pointer, references and all; ""
// where it has none.
func (p *parser) written(pointer string) string {
	v := any(p.root)
	for _, t := range schemas.Split(pointer) {
		switch c := v.(type) {
		case map[string]any:
			v = c[t]
		case []any:
			i, err := strconv.Atoi(t)
			if err != nil || i < 0 || i >= len(c) {
				return ""
			}
			v = c[i]
		default:
			return ""
		}
	}
	text, _ := v.(string)
	return text
}

func allAxes(axes []axis) map[string]bool {
	m := make(map[string]bool, len(axes))
	for _, a := range axes {
		m[a.name] = true
	}
	return m
}
