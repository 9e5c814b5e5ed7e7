package scout

import (
	"encoding/json"
	"fmt"
	"maps"

	"anvil/pipeline/stage"
	"anvil/stages/internal/prompt"
)

// resolve sets the workload: the scout's own, whose prompts no measurement
// sends, or the first prompts of the measure stage that same_as names.
func resolve(r *stage.Resolution) {
	r.With["sampling"] = map[string]any{"temperature": json.Number("0"), "temperature_requested": nil}
	if id, ok := r.With["same_as"].(string); ok {
		sameAs(r, id)
	} else {
		prompt.Resolve(r, "/workload", scoutStream)
	}
}

func sameAs(r *stage.Resolution, id string) {
	peer, ok := r.Peer(id)
	if !ok {
		r.Problem("/same_as", fmt.Sprintf("no stage %q", id), "name a measure stage")
		return
	}
	if peer.Kind != "measure" {
		r.Problem("/same_as", fmt.Sprintf("%q is a %s stage", id, peer.Kind), "name a measure stage")
		return
	}
	workload, _ := peer.With["workload"].(map[string]any)
	if workload["source"] == "dataset" {
		r.Problem("/same_as", fmt.Sprintf("%q sends a dataset", id), "give the scout the same dataset as its own workload")
		return
	}
	r.With["workload"] = maps.Clone(workload)
	if s, ok := peer.With["sampling"].(map[string]any); ok {
		s = maps.Clone(s)
		if _, written := s["temperature"]; !written {
			s["temperature"] = json.Number("0")
		}
		if _, resolved := s["temperature_requested"]; !resolved {
			s["temperature_requested"] = peer.With["sampling"].(map[string]any)["temperature"]
		}
		r.With["sampling"] = s
	}
	prompt.Resolve(r, "/workload", "measure")
}
