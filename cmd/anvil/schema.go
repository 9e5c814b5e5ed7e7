package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"anvil/schemas"
)

func newSchemaCommand(a *app) *cobra.Command {
	return group("schema", "The shapes of every document",
		&cobra.Command{
			Use: "list", Short: "List the schema ids", Args: exactly(),
			RunE: func(*cobra.Command, []string) error { return a.schemaList() },
		},
		&cobra.Command{
			Use: "show ID", Short: "Print a schema", Args: exactly("a schema id"),
			RunE: func(_ *cobra.Command, args []string) error { return a.schemaShow(schemas.ID(args[0])) },
		},
	)
}

func (a *app) schemaList() error {
	if a.json {
		return a.document(schemas.List())
	}
	for _, id := range schemas.List() {
		fmt.Fprintln(a.stdout, id)
	}
	return nil
}

func (a *app) schemaShow(id schemas.ID) error {
	if !slices.Contains(schemas.List(), id) {
		return usagef("no schema %q (see `anvil schema list`)", id)
	}
	src, err := schemas.Bundle(id)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(src)
	return err
}
