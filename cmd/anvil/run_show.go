package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"anvil/pipeline/prov"
)

func (a *app) runShow(ctx context.Context, name string) error {
	run, err := a.openRun(name)
	if err != nil {
		return err
	}
	defer run.Close()
	s, err := a.openStore()
	if err != nil {
		return err
	}
	defer s.Close()
	o, err := prov.Describe(ctx, run, s)
	if err != nil {
		return broken(err)
	}
	code := exitOK
	if len(o.Problems) > 0 {
		code = exitProvenance
	}
	if a.json {
		if err := a.document(o); err != nil {
			return err
		}
		return done(code)
	}
	a.writeOverview(o)
	return done(code)
}

func (a *app) writeOverview(o *prov.Overview) {
	fmt.Fprintf(a.stdout, "run    %s %s, %s\n", line(o.Run), okWith(o.Status, ownFindings(o)), took(&o.StartedAt, o.FinishedAt))
	if o.Base != nil {
		fmt.Fprintf(a.stdout, "base   %s\n", line(*o.Base))
	}
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, s := range o.Stages {
		how := ""
		if s.How != nil {
			how = string(*s.How)
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", line(s.ID), line(s.Kind), okWith(s.Status, len(s.Findings)), how, suffix("blocked by ", s.BlockedBy))
	}
	t.Flush()
	for _, s := range o.Stages {
		for _, at := range s.Attempts[:max(0, len(s.Attempts)-1)] {
			fmt.Fprintf(a.stdout, "  %s attempt %d: %s\n", line(s.ID), at.Attempt, at.Status)
		}
		for _, f := range s.Findings {
			fmt.Fprintf(a.stdout, "finding in %s: %s\n", line(s.ID), line(f.Text))
		}
		if s.Error != nil {
			fmt.Fprintf(a.stdout, "error in %s: %s\n", line(s.ID), line(s.Error.Message))
		}
	}
	for _, p := range o.Problems {
		fmt.Fprintf(a.stdout, "%s: %s: %s\n", line(place(p)), p.Code, line(p.Text))
	}
	writeLimitations(a.stdout, o.Limitations.Set.Union(o.Stated))
	if o.Record != nil {
		fmt.Fprintf(a.stdout, "\nrecord %s/%s sha256 %s\n", line(o.Record.Stage), line(o.Record.Name), o.Record.SHA256)
	}
}

// ownFindings counts those that are the run's, not a run's from which it took a
// result over.
func ownFindings(o *prov.Overview) (n int) {
	for _, s := range o.Stages {
		if s.How == nil || *s.How != prov.TakenOver && *s.How != prov.Reused {
			n += len(s.Findings)
		}
	}
	return n
}
