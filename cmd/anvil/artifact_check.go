package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"anvil/stages/record"
)

// artifactCheckFlags are the flags of `artifact check`.
type artifactCheckFlags struct {
	source string
	strict bool
}

func newArtifactCheckCommand(a *app) *cobra.Command {
	f := &artifactCheckFlags{}
	c := &cobra.Command{
		Use: "check FILE...", Short: "Check any published serving record: recompute its figures, hold it against its rules",
		Long: `check recognises a record by its content, never by its name or label, recomputes
every figure that its rows witness, and reports every rule that it violates by
JSON pointer, with the stored and the recomputed value. It never changes a file.

FILE is a file, a directory (all records below it) or a pattern. A record whose
figures nothing in reach witnesses is "unverified": that is no fault, unless
--strict makes it one. Exit code 5: a rule is violated; 2: a file cannot be read.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%s needs a file, a directory or a pattern (usage: %s)", c.CommandPath(), c.UseLine())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.artifactCheck(c.Context(), args, f) },
	}
	c.Flags().StringVar(&f.source, "source", "", "the record of which derived summaries copy; default: the one beside each")
	c.Flags().BoolVar(&f.strict, "strict", false, "an unverified record is a finding (exit 5)")
	return c
}

func (a *app) artifactCheck(ctx context.Context, args []string, f *artifactCheckFlags) error {
	reports, err := record.Check(ctx, args, record.Options{Source: f.source})
	if source, ok := errors.AsType[*record.SourceError](err); ok {
		return &exitError{code: exitUsage, name: "unreadable", err: source}
	}
	if err != nil {
		return err
	}
	if a.json {
		err = a.document(reports)
	} else {
		err = a.printChecks(reports)
	}
	if err != nil {
		return err
	}
	code := record.Exit(reports, f.strict)
	if code != exitUsage || !a.json {
		return done(code)
	}
	return &exitError{code: code, name: "unreadable", err: fmt.Errorf("%s", unreadable(reports))}
}

func (a *app) printChecks(reports []record.Report) error {
	count := map[string]int{}
	for _, r := range reports {
		if r.Unreadable {
			count["unreadable"]++
			fmt.Fprintf(a.stderr, "anvil: %s: %s\n", line(r.File), line(r.Problems[len(r.Problems)-1].Text))
			continue
		}
		count[string(r.Status)]++
		if err := a.printCheck(r); err != nil {
			return err
		}
	}
	if len(reports) < 2 {
		return nil
	}
	var parts []string
	for _, s := range []string{string(record.StatusOK), string(record.StatusUnverified), string(record.StatusProblems), "unreadable"} {
		if count[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[s], s))
		}
	}
	_, err := fmt.Fprintf(a.stdout, "%d files: %s\n", len(reports), strings.Join(parts, ", "))
	return err
}

func (a *app) printCheck(r record.Report) error {
	what := "no known kind"
	if r.Kind != nil {
		what = string(*r.Kind)
	}
	if r.Shape != nil {
		what += ", shape " + *r.Shape
	}
	status := string(r.Status)
	if n := len(r.Problems); n > 0 {
		status = fmt.Sprintf("%d problem%s", n, plural(n))
	}
	if _, err := fmt.Fprintf(a.stdout, "%s: %s (%s)\n", line(r.File), status, line(what)); err != nil {
		return err
	}
	for _, p := range r.Problems {
		place := p.Pointer
		if place == "" {
			place = "(document)"
		}
		values := ""
		if string(p.Stored) != "null" || string(p.Computed) != "null" {
			values = "; stored " + clipped(p.Stored)
		}
		if string(p.Computed) != "null" {
			values += ", computed " + clipped(p.Computed)
		}
		fmt.Fprintf(a.stdout, "  %s: %s%s [%s]\n", line(place), line(p.Text), line(values), p.Rule)
	}
	for _, n := range r.Notes {
		place := ""
		if n.Pointer != "" {
			place = n.Pointer + ": "
		}
		if _, err := fmt.Fprintf(a.stdout, "  note: %s%s [%s]\n", line(place), line(n.Text), n.Rule); err != nil {
			return err
		}
	}
	return nil
}

// clipped keeps a value to a part of a line; --json has all of it.
func clipped(value []byte) string {
	const most = 512
	if len(value) <= most {
		return string(value)
	}
	return strings.ToValidUTF8(string(value[:most]), "") + "…"
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// unreadable names every file that could not be read, on one line.
func unreadable(reports []record.Report) string {
	var out []string
	for _, r := range reports {
		if r.Unreadable {
			out = append(out, r.File+": "+r.Problems[len(r.Problems)-1].Text)
		}
	}
	return strings.Join(out, "; ")
}
