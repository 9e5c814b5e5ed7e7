package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"anvil/pipeline"
	"anvil/pipeline/plan"
	"anvil/pipeline/store"
	"anvil/stages/record"
)

// showRun ends a run with its table; as JSON the last event has said it already.
func (a *app) showRun(ctx context.Context, s *store.Store, p *plan.Plan, run *pipeline.Run) {
	if a.json {
		return
	}
	findings := 0
	for _, f := range run.Findings {
		note := ""
		if !f.TakenOver {
			findings++
		} else {
			note = " (taken over; does not change the exit code)"
		}
		fmt.Fprintf(a.stdout, "finding in %s: %s%s\n", line(f.Stage), line(f.Text), note)
	}
	for _, st := range run.Stages {
		if st.Error != nil {
			fmt.Fprintf(a.stdout, "%s %s: %s\n", line(st.ID), st.Status, line(st.Error.Message))
		}
	}
	hintBaseURL(a.stdout, p, run)
	if run.Record != nil {
		final, err := readFinal(ctx, s, run.Record)
		if err != nil {
			fmt.Fprintf(a.stderr, "anvil: read the final record: %s\n", line(err.Error()))
		} else {
			writeRecordTable(a.stdout, final, run.Limitations)
			fmt.Fprintf(a.stdout, "\nrecord %s\n       %s\n", line(final.ID), line(run.Record.Path))
		}
	} else { // a record would hold the plan's own limitations
		if err := a.writeVerdicts(ctx, s, run); err != nil {
			fmt.Fprintf(a.stderr, "anvil: %s\n", line(err.Error()))
		}
		writeLimitations(a.stdout, run.Limitations.Union(p.Limitations))
	}
	fmt.Fprintf(a.stdout, "run    %s %s\n", line(run.ID), okWith(run.Status, findings))
	if run.Refresh != nil {
		fmt.Fprintf(a.stdout, "\nLater stages are stale. To refresh them:\n  %s\n", line(refreshLine(a.inWorkspace(run.Refresh))))
	}
}

// inWorkspace are the arguments of a command that is to mean this workspace
// where it is typed.
func (a *app) inWorkspace(args []string) []string {
	if a.workspace == "." {
		return args
	}
	return append(slices.Clone(args), "--workspace", a.workspace)
}

func readFinal(ctx context.Context, s *store.Store, r *pipeline.Record) (final *record.Final, err error) {
	f, err := s.Open(ctx, r.SHA256, r.Size)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	final = new(record.Final)
	return final, json.Unmarshal(b, final)
}
