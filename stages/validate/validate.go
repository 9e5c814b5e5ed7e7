// Package validate is the kind validate: it proves the final record from all
// that it stands on and makes again what was derived. Package derive does the
// work, for `anvil provenance verify` as well.
package validate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"anvil/pipeline/stage"
	"anvil/stages/derive"
	"anvil/stages/record"
)

// Kind is validate.
var Kind = stage.Define(stage.Spec{
	Name: "validate", Contract: derive.ValidateContract, Config: "anvil.validate-config/v1", Class: stage.Pure, Collects: true,
	In:  append([]stage.Port{{Name: "record", Schema: record.FinalSchema, Closure: true}}, besides()...),
	Out: []stage.Port{{Name: "validation.json", Schema: record.ValidationSchema}},
}, func(c config) (stage.Stage, error) { return &validate{c}, nil })

// besides are the ports of what summarize writes on request: an artifact on one
// enters the key, since the report depends on it.
func besides() []stage.Port {
	var out []stage.Port
	for _, p := range derive.SummarizeOutputs() {
		if p.Optional {
			name := strings.ReplaceAll(strings.TrimSuffix(p.Name, ".json"), "-", "_")
			out = append(out, stage.Port{Name: name, Schema: p.Schema, Many: true, Optional: true})
		}
	}
	return out
}

type config struct {
	Level int `json:"level"` // what must be reached
}

type validate struct{ config }

func (v *validate) Run(ctx context.Context, _ stage.Env, in stage.Inputs, out *stage.Outputs) error {
	rec, ok := in.One("record")
	if !ok {
		return errors.New("no record is bound")
	}
	closure := in.Closure("record")
	if closure == nil {
		return errors.New("no closure of the record is bound")
	}
	var beside []stage.Artifact
	for _, p := range besides() {
		beside = append(beside, in.All(p.Name)...)
	}
	report, err := derive.Validate(ctx, rec, closure, beside...)
	if err != nil {
		return err
	}
	if report.Level < v.Level {
		out.Finding("validate.level", finding(report, v.Level))
	}
	return out.JSON("validation.json", report)
}

func finding(r record.Validation, want int) string {
	text := fmt.Sprintf("level %d reached, %d is wanted", r.Level, want)
	for _, p := range r.Problems {
		if p.Level <= want {
			return fmt.Sprintf("%s; the first of %d problems: %s%s: %s", text, len(r.Problems), p.Artifact, p.Pointer, p.Text)
		}
	}
	return text
}
