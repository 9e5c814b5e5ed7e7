package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
	"anvil/stages/derive"
	"anvil/stages/record"
)

func newRunDiffCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "diff A B", Short: "Say in what two runs differ: stages, metrics, verdicts, limitations",
		Args: exactly("a first run (an id, a prefix, a path or latest)", "a second run"),
		RunE: func(c *cobra.Command, args []string) error { return a.runDiff(c.Context(), args[0], args[1]) },
	}
}

// A runDifference is `run diff --json`, anvil.run-diff/v1.
type runDifference struct {
	Stages []stageDifference `json:"stages"`
	derive.RecordDiff
}

func (d runDifference) empty() bool {
	return len(d.Stages)+len(d.Metrics)+len(d.Verdicts)+len(d.Limitations.Added)+len(d.Limitations.Removed) == 0
}

type stageDifference struct {
	Stage     string               `json:"stage"`
	Before    *prov.Status         `json:"before"`
	After     *prov.Status         `json:"after"`
	Artifacts []artifactDifference `json:"artifacts"`
}

type artifactDifference struct {
	Name   string  `json:"name"`
	Before *string `json:"before"`
	After  *string `json:"after"`
}

func (a *app) runDiff(ctx context.Context, nameA, nameB string) error {
	s, err := a.openStore()
	if err != nil {
		return err
	}
	defer s.Close()
	before, finalA, err := a.describe(ctx, s, nameA)
	if err != nil {
		return err
	}
	after, finalB, err := a.describe(ctx, s, nameB)
	if err != nil {
		return err
	}
	d := runDifference{Stages: diffStages(before, after), RecordDiff: derive.Diff(finalA, finalB)}
	lacks := ""
	switch {
	case before.Record == nil && after.Record != nil:
		lacks = "A" + hasNoRecord(before, after.Record.Stage)
	case before.Record != nil && after.Record == nil:
		lacks = "B" + hasNoRecord(after, before.Record.Stage)
	}
	if lacks != "" { // what one side never computed is no difference of figures
		d.Metrics, d.Verdicts = []derive.MetricDiff{}, []derive.VerdictDiff{}
	}
	if a.json {
		return a.document(d)
	}
	return a.writeDiff(d, lacks)
}

// hasNoRecord says so, and what became of the stage that makes it.
func hasNoRecord(o *prov.Overview, maker string) string {
	if s, ok := findStage(o, maker); ok {
		return fmt.Sprintf(" has no record (%s is %s)", line(s.ID), strings.ReplaceAll(string(s.Status), "_", " "))
	}
	return " has no record"
}

// describe reads a run with its final record, an empty one where it made none:
// then its limitations are those of what it published and its plan's own.
func (a *app) describe(ctx context.Context, s *store.Store, name string) (*prov.Overview, *record.Final, error) {
	run, err := a.openRun(name)
	if err != nil {
		return nil, nil, err
	}
	defer run.Close()
	o, err := prov.Describe(ctx, run, s)
	if err != nil {
		return nil, nil, broken(err)
	}
	final := &record.Final{Limitations: o.Limitations.Set.Union(o.Stated)}
	for _, st := range o.Stages {
		for _, out := range st.Outputs {
			if o.Record == nil || st.ID != o.Record.Stage || out.Name != o.Record.Name {
				continue
			}
			b, err := stage.NewArtifact(out.Ref, st.ID, out.Name, s, nil).Bytes(ctx)
			if err != nil {
				return nil, nil, broken(err)
			}
			if err := json.Unmarshal(b, final); err != nil {
				return nil, nil, broken(err)
			}
		}
	}
	return o, final, nil
}

func diffStages(before, after *prov.Overview) []stageDifference {
	var ids []string
	for _, o := range []*prov.Overview{before, after} {
		for _, s := range o.Stages {
			if !slices.Contains(ids, s.ID) {
				ids = append(ids, s.ID)
			}
		}
	}
	out := []stageDifference{}
	for _, id := range ids {
		b, inB := findStage(before, id)
		a, inA := findStage(after, id)
		d := stageDifference{Stage: id, Artifacts: diffOutputs(b.Outputs, a.Outputs)}
		if inB {
			d.Before = &b.Status
		}
		if inA {
			d.After = &a.Status
		}
		if inA != inB || b.Status != a.Status || len(d.Artifacts) > 0 {
			out = append(out, d)
		}
	}
	return out
}

func findStage(o *prov.Overview, id string) (prov.OverviewStage, bool) {
	i := slices.IndexFunc(o.Stages, func(s prov.OverviewStage) bool { return s.ID == id })
	if i < 0 {
		return prov.OverviewStage{}, false
	}
	return o.Stages[i], true
}

func diffOutputs(before, after []prov.Output) []artifactDifference {
	out := []artifactDifference{}
	digestOf := func(list []prov.Output, name string) *string {
		for _, o := range list {
			if o.Name == name {
				d := o.SHA256.String()
				return &d
			}
		}
		return nil
	}
	var names []string
	for _, o := range append(slices.Clone(before), after...) {
		if !slices.Contains(names, o.Name) {
			names = append(names, o.Name)
		}
	}
	for _, name := range names {
		b, a := digestOf(before, name), digestOf(after, name)
		if b == nil || a == nil || *b != *a {
			out = append(out, artifactDifference{Name: name, Before: b, After: a})
		}
	}
	return out
}

// writeDiff prints the differences; lacks says which run made no record.
func (a *app) writeDiff(d runDifference, lacks string) error {
	if lacks != "" {
		fmt.Fprintln(a.stdout, lacks)
	} else if d.empty() {
		fmt.Fprintln(a.stdout, "no difference")
	}
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, s := range d.Stages {
		fmt.Fprintf(t, "stage %s\t%s\t%s\n", line(s.Stage), said(s.Before), said(s.After))
		for _, f := range s.Artifacts {
			fmt.Fprintf(t, "  %s\t%s\t%s\n", line(f.Name), said(f.Before), said(f.After))
		}
	}
	for _, m := range d.Metrics {
		fmt.Fprintf(t, "%s %s\t%s\t%s\n", line(m.Cell), line(m.ID), value(m.Before, m.Unit), value(m.After, m.Unit))
	}
	for _, v := range d.Verdicts {
		name := fmt.Sprint(v.Index)
		if v.Item != nil {
			name = *v.Item
		}
		fmt.Fprintf(t, "%s case %s\t%s\t%s\n", line(v.Cell), line(name), said(v.Before), said(v.After))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, l := range d.Limitations.Added {
		fmt.Fprintf(a.stdout, "+ %s [%s] %s\n", line(l.Code), line(l.Origin), line(l.Text))
	}
	for _, l := range d.Limitations.Removed {
		fmt.Fprintf(a.stdout, "- %s [%s] %s\n", line(l.Code), line(l.Origin), line(l.Text))
	}
	return nil
}

func said[T ~string](s *T) string {
	if s == nil {
		return "-"
	}
	if len(*s) == 64 {
		return string((*s)[:12])
	}
	return line(string(*s))
}

func value(v *float64, unit string) string {
	if v == nil {
		return "withheld"
	}
	return figure(*v) + " " + line(unit)
}
