package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"anvil/pipeline/plan"
)

func newPlanCheckCommand(a *app) *cobra.Command {
	var sets []string
	c := &cobra.Command{
		Use: "check PLAN", Short: "Report every problem of a plan, each with its place", Args: exactly("a plan file"),
		RunE: func(_ *cobra.Command, args []string) error { return a.planCheck(args[0], sets) },
	}
	setFlag(c, &sets)
	return c
}

func setFlag(c *cobra.Command, sets *[]string) {
	c.Flags().StringArrayVar(sets, "set", nil, "set a parameter of the plan: key=value, typed by its default")
}

func (a *app) planCheck(file string, sets []string) error {
	p, err := a.readPlan(file, sets, nil)
	check := plan.CheckOf(err)
	if err != nil && len(check.Problems) == 0 {
		return err
	}
	code := exitOK
	if !check.OK {
		code = exitPlan
	}
	if a.json {
		if err := a.document(check); err != nil {
			return err
		}
		return done(code)
	}
	for _, p := range plan.Problems(err) {
		fmt.Fprintln(a.stderr, line(p.Error()))
	}
	if check.OK {
		fmt.Fprintf(a.stdout, "%s: ok, %d stages\n", file, len(p.Stages))
	}
	return done(code)
}
