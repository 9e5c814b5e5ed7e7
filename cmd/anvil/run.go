package main

import (
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

func newRunCommand(a *app) *cobra.Command {
	return group("run", "Runs of a workspace",
		&cobra.Command{
			Use: "list", Short: "List the runs, the newest first", Args: exactly(),
			RunE: func(*cobra.Command, []string) error { return a.runList() },
		},
		&cobra.Command{
			Use: "show RUN", Short: "Show the stages of a run and its final record", Args: exactly("a run (an id, a prefix, a path or latest)"),
			RunE: func(c *cobra.Command, args []string) error { return a.runShow(c.Context(), args[0]) },
		},
		newRunLogCommand(a),
		newRunDiffCommand(a),
		newRunRemoveCommand(a),
		newRunCollectCommand(a),
	)
}

func (a *app) runList() error {
	if _, err := os.Stat(a.workspace); err != nil {
		return &exitError{code: exitUsage, name: "unreadable", err: fmt.Errorf("--workspace: %w", err)}
	}
	runs, err := prov.ListRuns(a.workspace)
	if err != nil {
		return err
	}
	if a.json {
		return a.document(runs)
	}
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, r := range runs {
		base := ""
		if r.Base != nil {
			base = "from " + *r.Base
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", line(r.Run), a.listedStatus(r), took(r.StartedAt, r.FinishedAt), size(r.Size), line(base))
	}
	return t.Flush()
}

// listedStatus is a run's status as people read it.
func (a *app) listedStatus(r prov.Summary) string {
	if r.Status != string(prov.OK) {
		return r.Status
	}
	run, err := prov.OpenRun(a.workspace, r.Run)
	if err != nil {
		return r.Status // removed meanwhile
	}
	defer run.Close()
	if run.Manifest != nil && run.Manifest.Exit != exitOK {
		return okWith(r.Status, 1)
	}
	return r.Status
}

// openRun opens a run by the name that a user gave.
func (a *app) openRun(name string) (*prov.Run, error) {
	run, err := prov.OpenRun(a.workspace, name)
	var ambiguous *prov.AmbiguousError
	switch {
	case errors.Is(err, prov.ErrNoRun):
		return nil, &exitError{code: exitUsage, name: "no_run", err: err, hint: "`anvil run list` shows the runs of this workspace; --workspace names another"}
	case errors.As(err, &ambiguous):
		return nil, &exitError{code: exitUsage, name: "ambiguous_run", err: err}
	case err != nil:
		return nil, &exitError{code: exitUsage, name: "unreadable", err: err}
	}
	return run, nil
}

func took(from, to *stage.Time) string {
	if from == nil || to == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f s", to.Sub(from.Time).Seconds())
}

// size shows bytes as people read them.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/unit, 0
	for v >= unit && i < 3 {
		v, i = v/unit, i+1
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGT"[i])
}
