// Package grade is the kind grade: it judges every attempt of a measurement by
// the graders of the plan. It measures nothing and asks nobody: the same
// attempts, dataset and graders give the same bytes.
package grade

import (
	"context"
	"errors"
	"fmt"

	"anvil/pipeline/stage"
	"anvil/stages/derive"
	"anvil/stages/record"
)

// Kind is grade.
var Kind = stage.Define(stage.Spec{
	Name: "grade", Contract: derive.GradeContract, Config: "anvil.grade-config/v1", Class: stage.Pure,
	In:      []stage.Port{{Name: "attempts", Schema: record.AttemptsSchema}},
	Out:     []stage.Port{{Name: output, Schema: record.GradesSchema}},
	Resolve: resolve,
}, func(c derive.GradeConfig) (stage.Stage, error) { return &grade{c}, nil })

const output = "grades.jsonl"

type grade struct{ config derive.GradeConfig }

func (g *grade) Run(ctx context.Context, _ stage.Env, in stage.Inputs, out *stage.Outputs) error {
	attempts, ok := in.One("attempts")
	if !ok {
		return errors.New("no attempts are bound")
	}
	dataset, ok := in.File("/dataset")
	if !ok {
		return errors.New("no dataset is bound")
	}
	files := map[string]stage.Artifact{}
	for _, pointer := range derive.GraderFiles(g.config.Graders) {
		if a, ok := in.File(pointer); ok {
			files[pointer] = a
		}
	}
	graded, err := derive.Grade(ctx, g.config, attempts, dataset, files)
	if err != nil {
		return err
	}
	if err := write(out, graded); err != nil {
		return err
	}
	if gate := graded.Footer.Gate; gate != nil {
		for _, text := range gate.Failures {
			out.Finding("grade.gate", text)
		}
	}
	return nil
}

func write(out *stage.Outputs, g *derive.Graded) (err error) {
	w, err := out.Create(output)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := record.WriteGrades(w, g.Header, g.Rows, g.Footer); err != nil {
		return fmt.Errorf("write %s: %w", output, err)
	}
	return nil
}
