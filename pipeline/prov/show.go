package prov

import (
	"context"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

// A Document is `provenance show --json`.
type Document struct {
	Run    string          `json:"run"`
	Base   *string         `json:"base"`
	Record *ManifestRecord `json:"record"`
	Tool   stage.Tool      `json:"tool"`
	Plan   ManifestPlan    `json:"plan"`
	Stages []ShownStage    `json:"stages"` // of the run in plan order, then upstream attempts of other runs
	Level  int             `json:"level"`  // Verify's; the caller fills it in
}

// A ShownStage is a stage of the run with its result's fields; without a
// result it is the first three fields alone.
type ShownStage struct {
	Stage  string `json:"stage"`
	Kind   string `json:"kind"`
	Status Status `json:"status"`
	*ShownResult
}

// A ShownResult is what a result adds to a shown stage.
type ShownResult struct {
	How          *How           `json:"how"` // null on an attempt of another run that the run's results stand on
	ResultSHA256 digest.Digest  `json:"result_sha256"`
	Added        *digest.Digest `json:"added"`
	Result       `json:"-"`     // flattened by MarshalJSON
}

// Show describes a run: what came from what, down to every digest. The run
// must have its run.json.
func Show(ctx context.Context, run *Run, r *Reader) (*Document, error) {
	return nil, errNotYet
}
