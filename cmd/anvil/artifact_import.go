package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"anvil/pipeline"
	"anvil/pipeline/plan"
	"anvil/pipeline/prov"
)

// artifactImportFlags are the flags of `artifact import`.
type artifactImportFlags struct {
	name, schema, sha256 string
}

func newArtifactImportCommand(a *app) *cobra.Command {
	f := &artifactImportFlags{}
	c := &cobra.Command{
		Use: "import FILE", Short: "Put a record from elsewhere into the store, with its limitations and where it came from",
		Long: `import makes a run of one stage of the kind import: the file becomes a leaf
artifact, byte for byte, its limitations are carried (its own, else those of
FILE.limitations.json beside it), and commands that take a run can name it.
Without --sha256 the limitation import.unverified says that nobody pinned it.`,
		Args: exactly("a file"),
		RunE: func(c *cobra.Command, args []string) error { return a.artifactImport(c.Context(), args[0], f) },
	}
	c.Flags().StringVar(&f.name, "name", "", "name of the run's plan; default: import- and the file's name")
	c.Flags().StringVar(&f.schema, "schema", "", "schema id of the file; default: recognised by content")
	c.Flags().StringVar(&f.sha256, "sha256", "", "digest that the file must have")
	return c
}

// An importedArtifact is the document of `artifact import --json`.
type importedArtifact struct {
	Run string `json:"run"`
	prov.Listed
}

func (a *app) artifactImport(ctx context.Context, file string, f *artifactImportFlags) error {
	src, err := f.plan(file)
	if err != nil {
		return err
	}
	// The plan stands, in thought, beside the file: its paths are relative.
	p, err := a.parsePlan(filepath.Join(filepath.Dir(file), "import.yaml"), src, nil, nil)
	if err != nil {
		return &exitError{code: exitUsage, name: "unreadable", err: fmt.Errorf("import %s: %w", file, importProblem(err))}
	}
	x, err := a.executor(&planRunFlags{quiet: true})
	if err != nil {
		return err
	}
	defer x.Store.Close()
	x.Tool = toolIdentity
	x.Events = &plainLines{w: a.stderr, quiet: true}
	run, err := x.Run(ctx, p, pipeline.Options{})
	if err != nil {
		return err
	}
	if run.Exit != exitOK {
		return done(run.Exit)
	}
	rows, err := a.artifacts(ctx, x.Store, run.ID)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if a.json {
			return a.document(importedArtifact{Run: run.ID, Listed: r})
		}
		fmt.Fprintf(a.stdout, "imported %s (%s) as %s/%s of run %s\n  sha256 %s\n", line(file), line(string(r.Schema)), line(r.Stage), line(r.Name), line(run.ID), r.SHA256)
	}
	return nil
}

// importProblem leaves out where in the plan of our own making a problem lies.
func importProblem(err error) error {
	var texts []string
	for _, p := range plan.Problems(err) {
		texts = append(texts, p.Message)
	}
	if len(texts) == 0 {
		return err
	}
	return errors.New(strings.Join(texts, "; "))
}

var notSlug = regexp.MustCompile(`[^a-z0-9._-]+`)

// plan writes the plan of one import stage; its texts are JSON, which is YAML.
func (f *artifactImportFlags) plan(file string) ([]byte, error) {
	name := f.name
	if name == "" {
		name = "import-" + notSlug.ReplaceAllString(strings.ToLower(filepath.Base(file)), "-")
		name = name[:min(len(name), 64)]
	}
	with := map[string]any{"file": literal(filepath.Base(file))}
	if f.schema != "" {
		with["schema"] = literal(f.schema)
	}
	if f.sha256 != "" {
		with["sha256"] = literal(f.sha256)
	}
	return json.Marshal(map[string]any{
		"schema": "anvil.plan/v1", "name": literal(name),
		"stages": []any{map[string]any{"id": "import", "uses": "import", "with": with}},
	})
}

// literal keeps a text of the user's from being read as a reference.
func literal(s string) string { return strings.ReplaceAll(s, "${", "$${") }
