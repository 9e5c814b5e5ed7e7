// Package stages holds the one list of kinds.
package stages

import (
	"anvil/pipeline/stage"
	"anvil/stages/grade"
	imports "anvil/stages/import"
	"anvil/stages/measure"
	"anvil/stages/scout"
	"anvil/stages/summarize"
	"anvil/stages/validate"
	verifyweights "anvil/stages/verify-weights"
)

// All returns every kind that a plan can use.
func All() stage.Set {
	return stage.NewSet(
		grade.Kind,
		imports.Kind,
		measure.Kind,
		scout.Kind,
		summarize.Kind,
		validate.Kind,
		verifyweights.Kind,
	)
}
