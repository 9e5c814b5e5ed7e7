package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"anvil/pipeline/prov"
)

func newRunLogCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "log RUN", Short: "Print a run's journal: what happened, in order", Args: exactly("a run (an id, a prefix, a path or latest)"),
		RunE: func(_ *cobra.Command, args []string) error { return a.runLog(args[0]) },
	}
}

func (a *app) runLog(name string) error {
	run, err := a.openRun(name)
	if err != nil {
		return err
	}
	defer run.Close()
	chain, err := run.Journal()
	if err != nil && len(chain.Lines) == 0 {
		return broken(err)
	}
	for _, l := range chain.Lines {
		a.writeJournalLine(l)
	}
	if err != nil {
		return broken(err)
	}
	return nil
}

func (a *app) writeJournalLine(l prov.Line) {
	if a.json {
		if b, err := json.Marshal(l); err == nil {
			fmt.Fprintf(a.stdout, "%s\n", b)
		}
		return
	}
	fmt.Fprintf(a.stdout, "%s  %-18s %s%s%s\n", l.At.Format("15:04:05.000"), l.Event, line(l.Stage),
		suffix(" attempt ", attempt(l.Attempt)), suffix(" ", string(l.Status)))
}
