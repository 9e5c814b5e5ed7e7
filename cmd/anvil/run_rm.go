package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"anvil/pipeline"
	"anvil/pipeline/prov"
)

func newRunRemoveCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "rm RUN", Short: "Remove a run's folder; `run gc` then frees what nothing else needs",
		Args: exactly("a run (an id, a prefix, a path or latest)"),
		RunE: func(_ *cobra.Command, args []string) error { return a.runRemove(args[0]) },
	}
}

func (a *app) runRemove(name string) error {
	run, err := a.openRun(name)
	if err != nil {
		return err
	}
	run.Close()
	id, err := prov.Remove(a.workspace, name)
	if _, ok := errors.AsType[*prov.LiveError](err); ok {
		return &exitError{code: exitBusy, name: "busy", err: err, hint: "wait for it to end, or interrupt it"}
	}
	if err != nil {
		return err
	}
	if a.json {
		return a.document(map[string]string{"removed": id})
	}
	fmt.Fprintf(a.stdout, "removed %s\n", line(id))
	return nil
}

func newRunCollectCommand(a *app) *cobra.Command {
	var dryRun, emptyTrash bool
	c := &cobra.Command{
		Use: "gc", Short: "Remove objects that no run needs; safe beside a running plan", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return a.runCollect(c.Context(), dryRun, emptyTrash) },
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be removed and remove nothing")
	c.Flags().BoolVar(&emptyTrash, "empty-trash", false, "also what was set aside because it was damaged")
	return c
}

func (a *app) runCollect(ctx context.Context, dryRun, emptyTrash bool) error {
	s, err := a.openStore()
	if err != nil {
		return err
	}
	defer s.Close()
	c, err := pipeline.Collect(ctx, a.workspace, s, dryRun, emptyTrash)
	if err != nil {
		return err
	}
	if a.json {
		return a.document(c)
	}
	verb := "removed"
	if dryRun {
		verb = "would remove"
	}
	fmt.Fprintf(a.stdout, "%s %d objects (%s), %d index entries, %d temporary files; %d objects (%s) are needed\n",
		verb, c.Objects, size(c.Bytes), c.Pointers, c.Temporary, c.KeptObjects, size(c.KeptBytes))
	return nil
}
