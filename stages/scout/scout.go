// Package scout is the kind that looks at an endpoint before money is spent on
// it: whether it answers, what it says of itself, and whether a few requests
// come back as they should.
package scout

import (
	"encoding/json"

	"anvil/pipeline/stage"
	"anvil/schemas"
	"anvil/stages/internal/engine"
	"anvil/stages/internal/prompt"
	"anvil/stages/internal/target"
)

const (
	scoutName                = "scout.json"
	scoutSchema   schemas.ID = "anvil.scout/v1"
	weightsSchema schemas.ID = "anvil.weights-verification/v1"
	scoutStream              = "scout"
)

// Kind is the kind "scout".
var Kind = stage.Define(stage.Spec{
	Name: "scout", Contract: 1, Config: "anvil.scout-config/v1", Class: stage.Observational, Exclusive: true, Gates: true, Drains: true,
	In:      []stage.Port{{Name: "weights", Schema: weightsSchema, Optional: true}},
	Out:     []stage.Port{{Name: scoutName, Schema: scoutSchema}},
	Resolve: resolve,
	Project: prompt.ProjectWorkload,
}, newStage)

type config struct {
	Endpoint engine.Endpoint `json:"endpoint"`
	Ready    struct {
		Timeout  target.Duration `json:"timeout"`
		Interval target.Duration `json:"interval"`
	} `json:"ready"`
	Requests    int             `json:"requests"`
	Concurrency int             `json:"concurrency"`
	MaxTokens   int             `json:"max_tokens"`
	Workload    prompt.Config   `json:"workload"`
	SameAs      *string         `json:"same_as"`
	Sampling    target.Sampling `json:"sampling"`
	Canary      canaryConfig    `json:"canary"`
	CacheReset  string          `json:"cache_reset"`
	Gate        struct {
		MinOK          float64          `json:"min_ok"`
		ModelListed    bool             `json:"model_listed"`
		MaxFirstOutput *target.Duration `json:"max_first_output"`
		Canary         bool             `json:"canary"`
	} `json:"gate"`
}

// canaryConfig is "off" or an object.
type canaryConfig struct {
	Off       bool `json:"-"`
	Prompts   int  `json:"prompts"`
	MaxTokens int  `json:"max_tokens"`
	Logprobs  bool `json:"logprobs"`
}

// UnmarshalJSON reads both forms.
func (c *canaryConfig) UnmarshalJSON(b []byte) error {
	var word string
	if json.Unmarshal(b, &word) == nil {
		*c = canaryConfig{Off: true}
		return nil
	}
	type plain canaryConfig
	return json.Unmarshal(b, (*plain)(c))
}

type scout struct{ config }

var _ stage.Stage = scout{}

func newStage(c config) (stage.Stage, error) { return scout{c}, nil }
