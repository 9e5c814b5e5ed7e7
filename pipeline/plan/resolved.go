package plan

import (
	"encoding/json"

	"anvil/pipeline/digest"
	"anvil/schemas"
)

// ResolvedSchema is the id of plan.resolved.json.
const ResolvedSchema schemas.ID = "anvil.plan-resolved/v1"

// finish puts the plan together once nothing is wrong with it.
func (p *parser) finish() {
	written := make([]*draft, len(p.drafts))
	for _, d := range p.drafts {
		written[d.index] = d
	}
	for _, d := range written {
		for _, c := range p.inRunOrder(d) {
			p.plan.Stages = append(p.plan.Stages, c.stage)
		}
	}
	p.plan.Resolved = p.document()
	p.plan.ResolvedDigest = digest.FromBytes(p.plan.Resolved)
}

// document is plan.resolved.json: one line for each stage, nothing that
// depends on where the plan lies or on how it is laid out.
func (p *parser) document() []byte {
	head := encode(map[string]any{
		"schema": ResolvedSchema, "name": p.plan.Name, "title": p.plan.Title, "seed": p.plan.Seed, "salt": p.plan.Salt,
		"params": p.plan.Params, "env": p.scope.env, "matrix": p.axesList(), "matrix_order": p.top["matrix_order"],
		"deployment": p.top["deployment"], "conditions": p.top["conditions"], "limitations": p.plan.Limitations,
		"endpoints": p.endpointConfigs(),
	})
	size := len(head)
	for i := range p.plan.Stages {
		size += len(p.plan.Stages[i].With) + 512 // its head is about as long
	}
	b := append(append(make([]byte, 0, size), head[:len(head)-1]...), ",\"stages\":[\n"...)
	for i := range p.plan.Stages {
		if i > 0 {
			b = append(b, ",\n"...)
		}
		s := &p.plan.Stages[i]
		b = s.append(b, p.byID[s.Of].head)
	}
	return append(b, "\n]}\n"...)
}

func (p *parser) axesList() []any {
	list := make([]any, len(p.axes))
	for i, a := range p.axes {
		list[i] = map[string]any{"axis": a.name, "values": a.values}
	}
	return list
}

func (p *parser) endpointConfigs() map[string]json.RawMessage {
	m := make(map[string]json.RawMessage, len(p.plan.Endpoints))
	for name, e := range p.plan.Endpoints {
		m[name] = e.Config
	}
	return m
}

// append writes the stage as it stands in the resolved plan.
func (s *Stage) append(b []byte, head map[string]any) []byte {
	field := func(name string, v any) {
		b = append(append(append(b, `,"`...), name...), `":`...)
		b = schemas.AppendJSON(b, v)
	}
	spec := s.Kind.Spec()
	b = append(b, `{"id":`...)
	b = schemas.AppendString(b, s.ID)
	field("of", s.Of)
	field("dir", s.Dir)
	field("cell", s.Cell.Map())
	field("uses", spec.Name)
	field("contract", spec.Contract)
	field("needs", nil)
	b = append(b[:len(b)-len("null")], '[')
	for i, id := range s.Needs {
		if i > 0 {
			b = append(b, ',')
		}
		b = schemas.AppendString(b, id)
	}
	b = append(b, `],"inputs":{`...)
	for i, in := range s.Inputs {
		if i > 0 {
			b = append(b, ',')
		}
		b = in.append(b)
	}
	b = append(b, '}')
	files := make(map[string]any, len(s.Files))
	for _, f := range s.Files {
		files[f.Pointer] = f.Written
	}
	field("files", files)
	for _, name := range []string{"timeout", "retries", "on_failure", "resources"} {
		field(name, head[name])
	}
	field("with", s.With)
	return append(b, '}')
}

func (in Binding) append(b []byte) []byte {
	b = append(schemas.AppendString(b, in.Port), `:[`...)
	for i, f := range in.From {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"stage":`...)
		b = append(schemas.AppendString(b, f.Stage), `,"output":`...)
		b = append(schemas.AppendString(b, f.Output), '}')
	}
	return append(b, ']')
}

func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

type source struct {
	Stage  string `json:"stage"`
	Output string `json:"output"`
}

func (s *Stage) inputsByPort() map[string][]source {
	m := make(map[string][]source, len(s.Inputs))
	for _, b := range s.Inputs {
		list := make([]source, len(b.From))
		for i, f := range b.From {
			list[i] = source(f)
		}
		m[b.Port] = list
	}
	return m
}
