// Package measure is the kind that puts an endpoint under a declared load and
// keeps what became of each request.
//
// A failed request is a result, not a failed stage: the stage fails only when
// it could not run its phase.
package measure

import (
	"encoding/json"

	"anvil/pipeline/stage"
	"anvil/schemas"
	"anvil/stages/derive"
	"anvil/stages/internal/engine"
	"anvil/stages/internal/prompt"
	"anvil/stages/internal/target"
	"anvil/stages/record"
)

// Names of what a measurement publishes.
const (
	attemptsName    = "attempts.jsonl.zst"
	measurementName = "measurement.json"
	scheduleName    = "schedule.json"
)

const scheduleSchema schemas.ID = "anvil.schedule/v1"

// Kind is the kind "measure".
var Kind = stage.Define(stage.Spec{
	Name: "measure", Contract: derive.MeasureContract, Config: "anvil.measure-config/v1", Class: stage.Observational, Exclusive: true, Drains: true,
	In: []stage.Port{
		{Name: "scout", Schema: "anvil.scout/v1", Optional: true},
		{Name: "weights", Schema: "anvil.weights-verification/v1", Optional: true},
		{Name: "calibration", Schema: "anvil.calibration/v1", Optional: true},
	},
	Out: []stage.Port{
		{Name: attemptsName, Schema: record.AttemptsSchema},
		{Name: measurementName, Schema: record.MeasurementSchema},
		{Name: scheduleName, Schema: scheduleSchema},
		{Name: benchmarkName, Schema: "anvil-serving.benchmark/v1", Optional: true},
		{Name: liveName, Schema: "anvil.live-http-run/v1", Optional: true},
	},
	Resolve: resolve,
	Project: prompt.ProjectWorkload,
}, newStage)

type config struct {
	Endpoint  engine.Endpoint `json:"endpoint"`
	Protocol  string          `json:"protocol"`
	Load      loadConfig      `json:"load"`
	MaxTokens int             `json:"max_tokens"`
	Workload  prompt.Config   `json:"workload"`
	Sampling  target.Sampling `json:"sampling"`
	Limits    target.Limits   `json:"limits"`

	Connections string          `json:"connections"`
	Drain       target.Duration `json:"drain"`
	Cancel      struct {
		Share       float64         `json:"share"`
		AfterOutput target.Duration `json:"after_output"`
	} `json:"cancel"`
	RequestRetries int  `json:"request_retries"`
	StoreText      bool `json:"store_text"`
	Cache          struct {
		Reset    string `json:"reset"`
		State    string `json:"state"`
		Sequence string `json:"sequence"`
	} `json:"cache"`
	Objectives struct {
		TTFTMS *float64 `json:"ttft_ms"`
		TPOTMS *float64 `json:"tpot_ms"`
		E2EMS  *float64 `json:"e2e_ms"`
	} `json:"objectives"`
	ClockDomainID *string `json:"clock_domain_id"`
	Stamps        string  `json:"stamps"`
	Gate          struct {
		MinOK  float64 `json:"min_ok"`
		Client string  `json:"client"`
		Canary bool    `json:"canary"`
	} `json:"gate"`
	Search json.RawMessage `json:"search"`

	raw struct{ load, workload, sampling json.RawMessage } // as resolved, for the record
}

// UnmarshalJSON keeps the parts that stand in the record as they were resolved.
func (c *config) UnmarshalJSON(b []byte) error {
	type plain config
	if err := json.Unmarshal(b, (*plain)(c)); err != nil {
		return err
	}
	var raw struct {
		Load     json.RawMessage `json:"load"`
		Workload json.RawMessage `json:"workload"`
		Sampling json.RawMessage `json:"sampling"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	c.raw.load, c.raw.workload, c.raw.sampling = raw.Load, raw.Workload, raw.Sampling
	return nil
}

type measure struct{ config }

var _ stage.Stage = measure{}

func newStage(c config) (stage.Stage, error) { return measure{c}, nil }
