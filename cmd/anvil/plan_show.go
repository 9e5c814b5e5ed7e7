package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func newPlanShowCommand(a *app) *cobra.Command {
	var sets []string
	c := &cobra.Command{
		Use: "show PLAN", Short: "Show a plan as it resolves: defaults filled, references substituted, ports bound",
		Args: exactly("a plan file"),
		RunE: func(_ *cobra.Command, args []string) error { return a.planShow(args[0], sets) },
	}
	setFlag(c, &sets)
	return c
}

func (a *app) planShow(file string, sets []string) error {
	p, err := a.readPlan(file, sets, nil)
	if err != nil {
		return planError(err)
	}
	show := p.Show()
	if a.json {
		return a.document(show)
	}
	fmt.Fprintf(a.stdout, "# %s, resolved; sha256 %s\n", line(file), p.ResolvedDigest)
	if _, err := a.stdout.Write(p.Resolved); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	for _, s := range show.Stages {
		fmt.Fprintf(a.stdout, "# %s (%s)\n", line(s.ID), line(s.Uses))
		for _, port := range slices.Sorted(maps.Keys(s.Inputs)) {
			var from []string
			for _, in := range s.Inputs[port] {
				from = append(from, in.Stage+"/"+in.Output)
			}
			fmt.Fprintf(a.stdout, "#   %s <- %s\n", line(port), line(strings.Join(from, ", ")))
		}
	}
	return nil
}
