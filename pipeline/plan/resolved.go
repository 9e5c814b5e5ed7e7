package plan

import (
	"bytes"
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
	p.plan.Resolved = p.document(written)
	p.plan.ResolvedDigest = digest.FromBytes(p.plan.Resolved)
}

// document is plan.resolved.json: one line for each stage, nothing that
// depends on where the plan lies or on how it is laid out.
func (p *parser) document(written []*draft) []byte {
	head := encode(map[string]any{
		"schema": ResolvedSchema, "name": p.plan.Name, "title": p.plan.Title, "seed": p.plan.Seed, "salt": p.plan.Salt,
		"params": p.plan.Params, "env": p.scope.env, "matrix": p.axesList(), "matrix_order": p.top["matrix_order"],
		"deployment": p.top["deployment"], "conditions": p.top["conditions"], "limitations": p.plan.Limitations,
		"endpoints": p.endpointConfigs(),
	})
	var b bytes.Buffer
	b.Write(head[:len(head)-1])
	b.WriteString(",\"stages\":[\n")
	for i := range p.plan.Stages {
		if i > 0 {
			b.WriteString(",\n")
		}
		s := &p.plan.Stages[i]
		s.write(&b, p.byID[s.Of].head)
	}
	b.WriteString("\n]}\n")
	return b.Bytes()
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

// write appends the stage as it stands in the resolved plan. It is written by
// hand because the configuration is encoded already and there may be thousands.
func (s *Stage) write(b *bytes.Buffer, head map[string]any) {
	field := func(name string, v any) {
		b.WriteString(`,"` + name + `":`)
		b.Write(encode(v))
	}
	b.WriteString(`{"id":`)
	b.Write(encode(s.ID))
	field("of", s.Of)
	field("dir", s.Dir)
	field("cell", s.Cell.Map())
	field("uses", s.Kind.Spec().Name)
	field("contract", s.Kind.Spec().Contract)
	field("needs", list(s.Needs))
	field("inputs", s.inputsByPort())
	field("files", s.filesByPointer())
	for _, name := range []string{"timeout", "retries", "on_failure", "resources"} {
		field(name, head[name])
	}
	b.WriteString(`,"with":`)
	b.Write(s.With)
	b.WriteByte('}')
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

func (s *Stage) filesByPointer() map[string]string {
	m := make(map[string]string, len(s.Files))
	for _, f := range s.Files {
		m[f.Pointer] = f.Written
	}
	return m
}
