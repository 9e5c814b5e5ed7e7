package sim

import (
	"errors"
	"fmt"
	"math"
)

// DefaultModel is the name that the engine serves when none is given.
const DefaultModel = "anvil-sim"

// A Config declares an engine: how fast it is, how many requests it serves at
// once, how well it answers and what goes wrong. The JSON names are those of
// the plan's endpoint key "sim"; anvil.sim-config/v1 is its schema.
type Config struct {
	PrefillTokS     float64            `json:"prefill_tok_s"`     // prompt tokens a second in one slot
	DecodeTokS      float64            `json:"decode_tok_s"`      // output tokens a second in one slot
	Slots           int                `json:"slots"`             // requests served at the same time
	Queue           int                `json:"queue"`             // requests that may wait; one more is refused with 503
	PrefixCache     bool               `json:"prefix_cache"`      // skip the part of a prompt that was seen before
	ReasoningTokens int                `json:"reasoning_tokens"`  // reasoning before each answer
	TokensPerEvent  int                `json:"tokens_per_event"`  // tokens in one event of a stream
	Jitter          float64            `json:"jitter"`            // every step lasts between 1-jitter and 1+jitter of its nominal time
	Accuracy        float64            `json:"accuracy"`          // share of evidence questions that are answered correctly
	Seed            int64              `json:"seed"`              // of every random stream
	Faults          map[string]float64 `json:"faults"`            // outcome, outcome.variant, either @index: share of the requests
	Model           string             `json:"model,omitempty"`   // "" is DefaultModel
	Version         string             `json:"version,omitempty"` // of anvil, as the engine reports it; "" is dev
}

// DefaultConfig returns the defaults of the plan's "sim" block.
func DefaultConfig() Config {
	return Config{
		PrefillTokS: 8000, DecodeTokS: 100, Slots: 8, Queue: 256, PrefixCache: true,
		TokensPerEvent: 1, Accuracy: 1, Model: DefaultModel,
	}
}

// Limits that keep an engine's memory and a plan's typing errors bounded.
const (
	maxSlots           = 65536
	maxQueue           = 1 << 20
	maxReasoningTokens = 1 << 17
	maxTokensPerEvent  = 4096
	maxRate            = 1e9
)

// resolve fills in the names and reports everything that is wrong with c.
func (c *Config) resolve() (*faultPlan, error) {
	if c.Model == "" {
		c.Model = DefaultModel
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	faults, err := newFaultPlan(*c)
	return faults, errors.Join(c.check(), err)
}

// Check reports everything that is wrong with c, one error a line.
func (c Config) Check() error {
	_, err := c.resolve()
	return err
}

func (c Config) check() error {
	errs := []error{
		checkRate("prefill_tok_s", c.PrefillTokS),
		checkRate("decode_tok_s", c.DecodeTokS),
		checkInt("slots", c.Slots, 1, maxSlots),
		checkInt("queue", c.Queue, 0, maxQueue),
		checkInt("reasoning_tokens", c.ReasoningTokens, 0, maxReasoningTokens),
		checkInt("tokens_per_event", c.TokensPerEvent, 1, maxTokensPerEvent),
		checkShare("jitter", c.Jitter),
		checkShare("accuracy", c.Accuracy),
	}
	return errors.Join(errs...)
}

func checkRate(name string, v float64) error {
	if !(v >= 1e-3 && v <= maxRate) { // NaN is neither
		return fmt.Errorf("%s: want 0.001 to 1e9 tokens a second, got %v", name, v)
	}
	return nil
}

func checkInt(name string, v, low, high int) error {
	if v < low || v > high {
		return fmt.Errorf("%s: want %d to %d, got %d", name, low, high, v)
	}
	return nil
}

func checkShare(name string, v float64) error {
	if math.IsNaN(v) || v < 0 || v > 1 {
		return fmt.Errorf("%s: want a share from 0 to 1, got %v", name, v)
	}
	return nil
}
