package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"anvil/pipeline/prov"
	"anvil/pipeline/store"
)

func newArtifactCommand(a *app) *cobra.Command {
	return group("artifact", "Artifacts of a run, and records from anywhere",
		&cobra.Command{
			Use: "list RUN", Short: "List what a run published", Args: exactly("a run (an id, a prefix, a path or latest)"),
			RunE: func(c *cobra.Command, args []string) error { return a.artifactList(c.Context(), args[0]) },
		},
		&cobra.Command{
			Use: "cat RUN STAGE/NAME", Short: "Print an artifact, JSON Lines decompressed",
			Args: exactly("a run (an id, a prefix, a path or latest)", "an artifact as STAGE/NAME"),
			RunE: func(c *cobra.Command, args []string) error { return a.artifactCat(c.Context(), args[0], args[1]) },
		},
		newArtifactCheckCommand(a),
		newArtifactImportCommand(a),
	)
}

func (a *app) artifactList(ctx context.Context, name string) error {
	s, err := a.openStore()
	if err != nil {
		return err
	}
	defer s.Close()
	rows, err := a.artifacts(ctx, s, name)
	if err != nil {
		return err
	}
	if a.json {
		return a.document(rows)
	}
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintf(t, "%s/%s\t%s\t%s\t%s\n", line(r.Stage), line(r.Name), line(string(r.Schema)), size(r.Size), r.SHA256)
	}
	return t.Flush()
}

func (a *app) artifacts(ctx context.Context, s *store.Store, name string) ([]prov.Listed, error) {
	run, err := a.openRun(name)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	rows, err := prov.Artifacts(ctx, run, s, a.workspace)
	if err != nil {
		return nil, broken(err)
	}
	return rows, nil
}

func (a *app) artifactCat(ctx context.Context, name, which string) error {
	s, err := a.openStore()
	if err != nil {
		return err
	}
	defer s.Close()
	rows, err := a.artifacts(ctx, s, name)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.Stage+"/"+r.Name == which {
			return a.catObject(ctx, s, r)
		}
	}
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Stage + "/" + r.Name
	}
	return &exitError{
		code: exitUsage, name: "no_artifact", err: fmt.Errorf("run %s has no artifact %q", name, which),
		hint: "it has " + strings.Join(names, ", "),
	}
}

var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

func (a *app) catObject(ctx context.Context, s *store.Store, r prov.Listed) error {
	f, err := s.Open(ctx, r.SHA256, r.Size)
	if err != nil {
		return broken(err)
	}
	defer f.Close()
	in := bufio.NewReader(f)
	if head, _ := in.Peek(len(zstdMagic)); !bytes.Equal(head, zstdMagic) {
		if _, err := io.Copy(a.stdout, in); err != nil {
			return broken(err)
		}
		return nil
	}
	dec, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer dec.Close()
	if _, err := io.Copy(a.stdout, dec); err != nil {
		return broken(err)
	}
	return nil
}
