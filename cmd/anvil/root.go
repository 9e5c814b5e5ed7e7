package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

// app is what every command has at hand: the standard streams and the flags
// that stand before any command.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) (string, bool)

	workspace string
	json      bool
	logLevel  string
}

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "anvil",
		Short: "Run declared experiments against LLM serving endpoints, with evidence that a stranger can check",
		Long: `anvil runs the stages of a plan against a serving endpoint and writes artifacts
that name everything they stand on by SHA-256. What weakens the evidence is
written down as a limitation and carried into the final record.

    anvil plan run plans/glm-4k.yaml                 measure, grade, summarize, validate
    anvil provenance show latest                     what came from what, down to every digest
    anvil plan run plans/glm-4k.yaml --only grade    grade the same evidence again`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArguments,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if _, err := zerolog.ParseLevel(a.logLevel); err != nil {
				return usagef("--log-level %q: want debug, info, warn, error or disabled", a.logLevel)
			}
			if info, err := os.Stat(a.workspace); err == nil && !info.IsDir() {
				return usagef("--workspace %s: is a file, not a folder", a.workspace)
			}
			return nil
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help-command"})
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w (see `%s --help`)", err, c.CommandPath())
	})
	flags := root.PersistentFlags()
	flags.StringVar(&a.workspace, "workspace", ".", "folder that holds .anvil and runs")
	flags.BoolVar(&a.json, "json", false, "one JSON document on stdout, or one a line for streams; errors as JSON on stderr")
	flags.StringVar(&a.logLevel, "log-level", "warn", "diagnosis on stderr: debug, info, warn, error, disabled")
	root.AddCommand(
		newPlanCommand(a),
		newRunCommand(a),
		newArtifactCommand(a),
		newProvenanceCommand(a),
		newWeightsCommand(a),
		newSimCommand(a),
		newSchemaCommand(a),
		newCompletionCommand(a),
		newVersionCommand(a),
	)
	return root
}

// group makes a command that only holds others: alone it shows its help, and a
// word that it does not know is an error rather than help with exit code 0.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(commands...)
	return c
}

// noArguments says what a word that is no command might have been meant as.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())
	c.SuggestionsMinimumDistance = 2 // cobra sets this only on the way that we do not take
	if s := c.SuggestionsFor(args[0]); len(s) > 0 {
		err = fmt.Errorf("%w (did you mean %q?)", err, s[0])
	}
	return usagef("%w", err)
}

// exactly is cobra.ExactArgs with an error that names what is missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usagef("%s needs %s (usage: %s)", c.CommandPath(), names[len(args)], c.UseLine())
		case len(args) > len(names):
			return usagef("%s takes %d argument(s), got %q as well (usage: %s)", c.CommandPath(), len(names), args[len(names)], c.UseLine())
		}
		return nil
	}
}

// logger is for diagnosis alone; results and progress never go through it. Its
// lines go to w: stderr, or the bars that move there.
func (a *app) logger(w io.Writer) zerolog.Logger {
	level, err := zerolog.ParseLevel(a.logLevel)
	if err != nil {
		level = zerolog.WarnLevel
	}
	lines := zerolog.ConsoleWriter{
		Out: w, NoColor: true, TimeFormat: time.TimeOnly, // zerolog's stamps are whole seconds
		FormatMessage: func(text any) string { return line(fmt.Sprint(text)) }, // it may quote a server
	}
	return zerolog.New(lines).Level(level).With().Timestamp().Logger()
}
