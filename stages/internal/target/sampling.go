package target

import (
	"encoding/json"
	"fmt"

	"anvil/pipeline/stage"
	"anvil/stages/internal/engine"
)

// Sampling is engine.Sampling with what the plan itself asked for.
type Sampling struct {
	engine.Sampling
	TemperatureRequested *float64 `json:"temperature_requested"`
}

// SentSampling is a sampling, and its JSON as the plan resolved it, as it goes
// out: extra_body is merged last, and is as much the plan's wish.
func (t *Target) SentSampling(s Sampling, resolved json.RawMessage) (sent Sampling, raw json.RawMessage) {
	over, members := t.Protocol.Overrides(), map[string]json.RawMessage{}
	if len(over) == 0 || json.Unmarshal(resolved, &members) != nil {
		return s, resolved
	}
	for name, v := range over {
		members[name] = v
		if name == "temperature" {
			members["temperature_requested"] = v
		}
	}
	raw, err := json.Marshal(members)
	if err != nil {
		return s, resolved
	}
	if json.Unmarshal(raw, &sent) == nil {
		return sent, raw
	}
	// A value of a type that no server takes for it: what became of it is not known.
	if _, odd := over["temperature"]; odd {
		s.Temperature, s.TemperatureRequested = nil, nil
	}
	if _, odd := over["top_p"]; odd {
		s.TopP = nil
	}
	return s, raw
}

// SettleSampling tells a temperature that was left out, for which 0 is sent, from
// one that the plan asked for, and both from null, for which nothing is. An API
// without a field for it is sent none, also where the plan writes the 0 that it
// could have left out: its records have no request for it then.
func SettleSampling(r *stage.Resolution, s map[string]any) {
	if _, settled := s["temperature_requested"]; settled {
		return
	}
	asked, written := s["temperature"]
	s["temperature_requested"] = asked
	if n, ok := asked.(json.Number); written && (!ok || !isZero(n)) {
		return
	}
	if !written {
		s["temperature"] = json.Number("0")
	}
	if len(unsent(r.With, map[string]any{"temperature": s["temperature"]})) > 0 {
		s["temperature"], s["temperature_requested"] = nil, nil
	}
}

func isZero(n json.Number) bool {
	f, err := n.Float64()
	return err == nil && f == 0
}

// RefuseUnsent reports, at place, each key of a sampling that the stage's API has
// no field for: a request without it would be another one than the plan says.
func RefuseUnsent(r *stage.Resolution, s map[string]any, place func(key string) string) {
	for _, key := range unsent(r.With, s) {
		r.Problem(place(key), fmt.Sprintf("api %s has no field for %s", apiOf(r.With), key), "leave it out; what this server knows by another name goes into the endpoint's extra_body")
	}
}

func unsent(with, s map[string]any) []string {
	adapter, ok := engine.Find(apiOf(with))
	if !ok {
		return nil
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil
	}
	var sampling engine.Sampling
	if json.Unmarshal(raw, &sampling) != nil {
		return nil
	}
	return adapter.Unsent(sampling)
}

// apiOf is the API of the endpoint that a configuration names; "" where it names
// none, which is the plan's to report.
func apiOf(with map[string]any) string {
	e, _ := with["endpoint"].(map[string]any)
	api, _ := e["api"].(string)
	return api
}
