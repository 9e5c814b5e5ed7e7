package pipeline

import (
	"time"

	"anvil/pipeline/digest"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

// A Run is one execution of a plan.
type Run struct {
	ID   string // of a dry run: the run that would be gone on with, "" for none
	Base string // of a derived run
	Dir  string // the run's folder

	Status            prov.Status
	Exit              int
	Started, Finished time.Time

	Stages      []StageResult // plan order
	Findings    []StageFinding
	Record      *Record // nil when the run made none
	Limitations stage.LimitationSet

	// Refresh are the arguments of `anvil` that bring the stale stages up to
	// date; nil when none is stale.
	Refresh []string

	Decisions []Decision // of a dry run; nil otherwise
}

// A StageResult is what became of one stage.
type StageResult struct {
	ID, Of, Kind string
	Status       prov.Status
	How          prov.How      // "" without a result
	Attempt      int           // of the result; 0 without one
	Result       digest.Digest // of the result.json; zero without one
	Outputs      []prov.Output // with the limitation sets that they have in this run
	BlockedBy    string        // the stage at the root of it
	Reason       string        // why it was skipped, or waits to be refreshed
	Error        *prov.ResultError
	Elapsed      time.Duration // of the attempt that this run executed
}

// A StageFinding is a gate that failed. Those of stages that were taken over
// are for the reader; they do not change the exit code.
type StageFinding struct {
	Stage string
	stage.Finding
	TakenOver bool
}

// A Record names the final record of a run.
type Record struct {
	Stage, Name string
	stage.Ref
	Path string // the readable copy, from the workspace
	ID   string // the record's own
}
