package plan

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"anvil/pipeline/stage"
	"anvil/schemas"
)

// bindPorts finds for each port the outputs that arrive on it: those that
// inputs names, else those of the needs that have the port's schema.
func (p *parser) bindPorts() {
	for i, c := range p.checkDrafts() {
		p.prepare(p.drafts[i], c)
	}
	for _, d := range p.drafts {
		if d.kind == nil {
			continue
		}
		for _, port := range d.spec.In {
			b := boundPort{port: port}
			if from, ok := d.inputs[port.Name]; ok {
				b.from = p.named(d, port, from)
			} else {
				b.from = p.matching(d, port)
			}
			if len(b.from) > 0 {
				d.ports = append(d.ports, b)
			}
		}
	}
}

// named binds the stages that the plan names for a port.
func (p *parser) named(d *draft, port stage.Port, from []*draft) []output {
	at := schemas.Join(d.pointer, "inputs", port.Name)
	if len(from) > 1 && !port.Many {
		p.problem(at, fmt.Sprintf("port %q takes one artifact, not %d", port.Name, len(from)), "")
	}
	var out []output
	for _, f := range from {
		if f.kind == nil {
			continue
		}
		fit := p.outputs(f, port.Schema, true)
		switch len(fit) {
		case 1:
			out = append(out, fit[0])
		case 0:
			p.problem(p.edge(d, f), fmt.Sprintf("stage %q has no output of %s, which port %q takes", f.id, port.Schema, port.Name), "")
		default:
			p.problem(p.edge(d, f), fmt.Sprintf("stage %q has %d outputs of %s", f.id, len(fit), port.Schema), "")
		}
	}
	slices.SortStableFunc(out, func(a, b output) int { return cmp.Compare(a.of.index, b.of.index) })
	return out
}

// matching binds a port by its schema alone.
func (p *parser) matching(d *draft, port stage.Port) []output {
	var fit []output
	for _, f := range d.needs {
		if f.kind == nil {
			d.lame = true
			continue
		}
		fit = append(fit, p.outputs(f, port.Schema, false)...)
	}
	if len(fit) == 0 && !port.Optional {
		// A file whose schema is not known before it is read may be the one.
		for _, f := range d.needs {
			if f.kind != nil {
				fit = append(fit, p.outputs(f, port.Schema, true)...)
			}
		}
	}
	switch {
	case len(fit) == 0 && !port.Optional && !d.lame:
		hint := "add a stage to needs that makes it, or name one in inputs"
		if p.ps.advice += len(p.drafts); p.ps.advice < maxAdvice {
			if makers := p.makers(port.Schema); len(makers) > 0 {
				hint = fmt.Sprintf("needs: [%s]?", join(makers))
			}
		}
		p.problem(d.pointer, fmt.Sprintf("nothing that it needs makes %s for port %q", port.Schema, port.Name), hint)
	case len(fit) > 1 && !port.Many:
		names := make([]string, len(fit))
		for i, o := range fit {
			names[i] = o.of.id
		}
		p.problem(d.pointer, fmt.Sprintf("port %q could take %s of %s", port.Name, port.Schema, join(names)), fmt.Sprintf("name one: inputs: {%s: %s}", port.Name, names[0]))
		return nil
	}
	return fit
}

// makers are the stages of the plan that write a schema.
func (p *parser) makers(id schemas.ID) []string {
	var ids []string
	for _, d := range p.drafts {
		if d.kind != nil && d.id != "" && len(p.outputs(d, id, false)) > 0 {
			ids = append(ids, d.id)
		}
	}
	return ids
}

// outputs lists the outputs of d that have a schema; with unknown, also those
// whose schema only the run will tell.
func (p *parser) outputs(d *draft, id schemas.ID, unknown bool) []output {
	var out []output
	ports := d.spec.Out
	if d.spec.Outputs != nil {
		ports = d.spec.Outputs(d.preview)
	}
	for _, o := range ports {
		has := o.Schema
		if has == "" {
			text, _ := d.preview["schema"].(string)
			has = schemas.ID(text)
		}
		if has == id || has == "" && unknown {
			out = append(out, output{of: d, name: o.Name})
		}
	}
	return out
}

// outputName is the file name of an output whose kind leaves it to the
// configuration: what the kind resolved it to, else that of the file it names.
func outputName(with map[string]any) string {
	if name, ok := with["name"].(string); ok && name != "" {
		return name
	}
	if file, ok := with["file"].(string); ok {
		return filepath.Base(file)
	}
	return "artifact"
}
