package main

import "github.com/spf13/cobra"

func newArtifactCommand(_ *app) *cobra.Command {
	return group("artifact", "Artifacts of a run, and records from anywhere")
}
