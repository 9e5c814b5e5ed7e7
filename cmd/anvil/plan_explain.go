package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"anvil/pipeline"
)

func newPlanExplainCommand(a *app) *cobra.Command {
	f := &planRunFlags{}
	c := &cobra.Command{
		Use: "explain PLAN", Short: "Say what a run would do with each stage and why, field by field; runs nothing",
		Args: onePlan,
		RunE: func(c *cobra.Command, args []string) error { return a.planExplain(c.Context(), args[0], f) },
	}
	setFlag(c, &f.sets)
	selectionFlags(c, f)
	return c
}

func (a *app) planExplain(ctx context.Context, file string, f *planRunFlags) error {
	src, err := readBounded(file, maxPlan)
	if err != nil {
		return &exitError{code: exitUsage, name: "unreadable", err: err}
	}
	p, err := a.parsePlan(file, src, f.sets, nil)
	if err != nil {
		return planError(err)
	}
	x, err := a.executor(f)
	if err != nil {
		return err
	}
	defer x.Store.Close()
	if p, err = a.onBase(ctx, x, p, f); err != nil {
		return planError(err)
	}
	f.opt.DryRun = true
	run, err := x.Run(ctx, p, f.opt)
	if errors.Is(err, pipeline.ErrNothingUnfinished) {
		fmt.Fprintf(a.stderr, "%s\n", line(err.Error()))
		run, err = &pipeline.Run{Decisions: []pipeline.Decision{}}, nil
	}
	if err != nil {
		return err
	}
	return a.showDecisions(run, cmp.Or(f.opt.Base, run.Base))
}

// showDecisions prints what a run would do.
func (a *app) showDecisions(run *pipeline.Run, base string) error {
	if a.json {
		return a.document(map[string]any{"base": orNull(base), "stages": run.Decisions})
	}
	if run.ID != "" {
		fmt.Fprintf(a.stdout, "resumes %s\n", line(run.ID))
	}
	if base != "" {
		fmt.Fprintf(a.stdout, "base %s\n", line(base))
	}
	for _, d := range run.Decisions {
		fmt.Fprintf(a.stdout, "%-20s %-10s %s\n", line(d.ID), strings.ReplaceAll(string(d.Will), "_", " "), d.Reason)
		for _, diff := range d.Differences {
			fmt.Fprintf(a.stdout, "    %s: %s -> %s\n", line(diff.Path), oneLine(diff.Before), oneLine(diff.After))
		}
	}
	return nil
}

func oneLine(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return line(fmt.Sprint(v))
	}
	return line(string(b))
}
