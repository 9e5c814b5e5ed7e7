// Package summarize is the kind summarize: it makes the final record of
// everything that was measured, graded and verified. It computes nothing of its
// own: package derive does, and validate does the same again.
package summarize

import (
	"context"

	"anvil/pipeline/stage"
	"anvil/stages/derive"
)

// Kind is summarize.
var Kind = stage.Define(stage.Spec{
	Name: "summarize", Contract: derive.SummarizeContract, Config: "anvil.summarize-config/v1", Class: stage.Pure, Collects: true,
	In:      derive.SummarizePorts(),
	Out:     derive.SummarizeOutputs(),
	Resolve: resolve,
}, func(c derive.SummarizeConfig) (stage.Stage, error) { return &summarize{c}, nil })

type summarize struct{ config derive.SummarizeConfig }

func (s *summarize) Run(ctx context.Context, env stage.Env, in stage.Inputs, out *stage.Outputs) error {
	ports := map[string][]stage.Artifact{}
	for _, p := range derive.SummarizePorts() {
		ports[p.Name] = in.All(p.Name)
	}
	summary, err := derive.Summarize(ctx, s.config, ports, env.Plan)
	if err != nil {
		return err
	}
	out.Limit(summary.Limitations...)
	for _, w := range summary.Withheld {
		out.Finding(w.Code, w.Text)
	}
	for _, f := range summary.Formats() {
		build := func(set stage.LimitationSet) ([]byte, error) { return f.Build(summary, set) }
		if err := out.Build(f.Name, build); err != nil {
			return err
		}
	}
	return nil
}
