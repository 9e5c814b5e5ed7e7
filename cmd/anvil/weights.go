package main

import (
	"github.com/spf13/cobra"

	verifyweights "anvil/stages/verify-weights"
)

func newWeightsCommand(a *app) *cobra.Command {
	var ignore []string
	manifest := &cobra.Command{
		Use: "manifest DIR", Short: "Hash a checkpoint and print its manifest, to be pinned by a plan",
		Args: exactly("a checkpoint directory"),
		RunE: func(c *cobra.Command, args []string) error {
			m, err := verifyweights.Manifest(c.Context(), args[0], ignore)
			if err != nil {
				return &exitError{code: exitUsage, name: "unreadable", err: err}
			}
			_, err = a.stdout.Write(m)
			return err
		},
	}
	manifest.Flags().StringSliceVar(&ignore, "ignore", nil, "path patterns to leave out")
	return group("weights", "Manifests of checkpoints", manifest)
}
