package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"anvil/pipeline"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
	"anvil/stages/record"
)

// maxShown bounds the stages, and of each the items, that a run without a record
// shows.
const maxShown = 10

// writeVerdicts shows what the grade stages that this run executed said, for a
// run that made no record: whoever grades again wants to see it before all else.
func (a *app) writeVerdicts(ctx context.Context, s *store.Store, run *pipeline.Run) error {
	simulated := slices.ContainsFunc(run.Limitations, func(l stage.Limitation) bool { return l.Code == "engine.simulated" })
	stages := 0
	for _, st := range run.Stages {
		if st.How != prov.Executed {
			continue
		}
		for _, o := range st.Outputs {
			if o.Schema != record.GradesSchema {
				continue
			}
			if stages++; stages > maxShown {
				continue
			}
			if simulated {
				fmt.Fprintln(a.stdout, simulatedBanner)
				simulated = false // once
			}
			whole := refreshLine(a.inWorkspace([]string{"artifact", "cat", run.ID, st.ID + "/" + o.Name}))
			if err := writeGrades(ctx, a.stdout, s, st.ID, o, whole); err != nil {
				return fmt.Errorf("read %s of %s: %w", o.Name, st.ID, err)
			}
		}
	}
	if stages > maxShown {
		fmt.Fprintf(a.stdout, "\n%d of %d grade stages\n", maxShown, stages)
	}
	return nil
}

// writeGrades shows one grades.jsonl; whole is the command that prints it.
func writeGrades(ctx context.Context, w io.Writer, s *store.Store, id string, o prov.Output, whole string) (err error) {
	f, err := s.Open(ctx, o.SHA256, o.Size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	grades, err := record.NewGradesReader(f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, grades.Close()) }()
	var others []record.Grade
	for g, err := range grades.All() {
		if err != nil {
			return err
		}
		if g.Verdict != record.Pass {
			others = append(others, g)
		}
	}
	fmt.Fprintf(w, "\n%s\n  verdicts  %s\n", line(id), tally(grades.Footer().Counts))
	for i, g := range others {
		if i == maxShown {
			fmt.Fprintf(w, "  %d of %d that did not pass; all of them: %s\n", i, len(others), line(whole))
			break
		}
		fmt.Fprintf(w, "  %-9s %s\n", g.Verdict, line(because(g)))
	}
	return nil
}

func because(g record.Grade) string {
	if g.Item == nil {
		return fmt.Sprintf("request %d: %s", g.Index, g.Reason)
	}
	return *g.Item + ": " + g.Reason
}
