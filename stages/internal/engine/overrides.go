package engine

import (
	"encoding/json"

	"anvil/stages/internal/engine/jsonview"
)

// samplingNames are the members of a sampling that APIs know by the same name.
var samplingNames = []string{"temperature", "top_p", "seed", "stop", "min_tokens", "ignore_eos", "reasoning_effort"}

// Overrides are the members of a sampling that extra_body says: they go out in
// place of the plan's, null for one that it takes away.
func (p *Protocol) Overrides() map[string]json.RawMessage {
	extra, ok := jsonview.Parse(p.Endpoint.ExtraBody)
	if !ok {
		return nil
	}
	out := map[string]json.RawMessage{}
	place := p.samplingPlace()
	for _, name := range samplingNames {
		if v := extra.At(append(place, name)...); v.Kind() != jsonview.Absent {
			out[name] = json.RawMessage(v.Raw())
		}
	}
	return out
}

// samplingPlace is the object of the body in which this API has its sampling:
// that of the temperature, which all have that have any.
func (p *Protocol) samplingPlace() []string {
	one := 1.0
	body, err := p.Adapter.Body(&p.Endpoint, Request{Prompt: "x", MaxTokens: 1, Sampling: Sampling{Temperature: &one}}, p.Stream)
	if err != nil {
		return nil
	}
	for name, v := range body {
		if below, ok := v.(Fields); ok && below["temperature"] != nil {
			return []string{name}
		}
	}
	return nil
}
