package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"anvil/pipeline/prov"
	"anvil/pipeline/store"
)

func newProvenanceCommand(a *app) *cobra.Command {
	const which = "a run (an id, a prefix, a path or latest)"
	return group("provenance", "What came from what, and whether it still holds",
		&cobra.Command{
			Use: "show RUN", Short: "Show the tree from the final record down to every leaf", Args: exactly(which),
			RunE: func(c *cobra.Command, args []string) error { return a.provenanceShow(c.Context(), args[0]) },
		},
		&cobra.Command{
			Use: "verify RUN", Short: "Hash everything, follow every link, derive every figure again", Args: exactly(which),
			RunE: func(c *cobra.Command, args []string) error { return a.provenanceVerify(c.Context(), args[0]) },
		},
	)
}

// openStore opens the store of the workspace for reading.
func (a *app) openStore() (*store.Store, error) {
	s, err := store.Open(a.storeDir())
	if err != nil {
		return nil, &exitError{code: exitUsage, name: "unreadable", err: err}
	}
	return s, nil
}

func (a *app) provenanceShow(ctx context.Context, name string) error {
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
	doc, err := prov.Show(ctx, run, prov.NewReader(s))
	if err != nil {
		return broken(err)
	}
	var r rederiver
	report, err := prov.Verify(ctx, run, s, r.options())
	if err != nil {
		return broken(err)
	}
	doc.Level = report.Level
	if a.json {
		return a.document(doc)
	}
	writeProvenanceTree(a.stdout, doc)
	if report.OK {
		fmt.Fprintf(a.stdout, "\nlevel %d: %s\n", report.Level, r.levelText(report.Level))
		return nil
	}
	fmt.Fprintf(a.stdout, "\nlevel %d: %d problem(s); `anvil provenance verify %s` names them\n", report.Level, len(report.Problems), name)
	return nil
}

func (a *app) provenanceVerify(ctx context.Context, name string) error {
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
	var r rederiver
	report, err := prov.Verify(ctx, run, s, r.options())
	if err != nil {
		return broken(err)
	}
	code := exitOK
	if !report.OK {
		code = exitProvenance
	}
	if a.json {
		if err := a.document(report); err != nil {
			return err
		}
		return done(code)
	}
	for _, p := range report.Problems {
		fmt.Fprintf(a.stdout, "%s: %s: %s\n", line(place(p)), p.Code, line(p.Text))
		if p.Expected != "" || p.Found != "" {
			fmt.Fprintf(a.stdout, "  expected %s\n  found    %s\n", line(p.Expected), line(p.Found))
		}
	}
	for _, p := range report.Notes {
		fmt.Fprintf(a.stdout, "note: %s: %s\n", line(place(p)), line(p.Text))
	}
	if report.OK {
		fmt.Fprintf(a.stdout, "ok, level %d: %s\n", report.Level, r.levelText(report.Level))
	} else {
		fmt.Fprintf(a.stdout, "%d problem(s), level %d: %s\n", len(report.Problems), report.Level, r.levelText(report.Level))
	}
	return done(code)
}

// place says where a problem is: the file, else the artifact, else the run.
func place(p prov.Problem) string {
	switch {
	case (p.Code == prov.NotRederived || p.Code == prov.NotRederivable) && p.Name != "":
		return p.Name // artifact and pointer
	case p.Path != "":
		return p.Path
	case p.Name != "":
		return p.Stage + "/" + p.Name
	case p.Stage != "":
		return p.Stage
	}
	return "run"
}

func levelText(level int) string {
	switch level {
	case 0:
		return "not intact: something is damaged, missing or cannot be read"
	case 1:
		return "intact: every digest fits"
	case 2:
		return "consistent: digests, identities and the limitation closure hold"
	case 3:
		return "re-derived: every metric and verdict comes out again from the attempts"
	}
	return "signed"
}

// broken gives an error met while provenance is read its exit code: what cannot
// be read is 2 when the run is not there, else 6.
func broken(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, fs.ErrPermission) {
		return &exitError{code: exitUsage, name: "unreadable", err: err}
	}
	return &exitError{code: exitProvenance, name: "provenance_broken", err: err, hint: "`anvil provenance verify RUN` names everything that is damaged"}
}
