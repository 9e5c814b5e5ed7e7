package scout

import (
	"fmt"
	"maps"

	"anvil/pipeline/stage"
	"anvil/stages/internal/prompt"
	"anvil/stages/internal/target"
)

// resolve sets the workload: the scout's own, whose prompts no measurement
// sends, or the first prompts of the measure stage that same_as names.
func resolve(r *stage.Resolution) {
	sampling := map[string]any{}
	if id, ok := r.With["same_as"].(string); ok {
		sampling = sameAs(r, id)
	} else {
		prompt.Resolve(r, "/workload", scoutStream)
	}
	target.SettleSampling(r, sampling)
	r.With["sampling"] = sampling
}

// sameAs takes what the measure stage sends, and how, and returns its sampling.
func sameAs(r *stage.Resolution, id string) (sampling map[string]any) {
	peer, ok := r.Peer(id)
	if !ok {
		r.Problem("/same_as", fmt.Sprintf("no stage %q", id), "name a measure stage")
		return map[string]any{}
	}
	if peer.Kind != "measure" {
		r.Problem("/same_as", fmt.Sprintf("%q is a %s stage", id, peer.Kind), "name a measure stage")
		return map[string]any{}
	}
	if workload, ok := peer.With["workload"].(map[string]any); ok {
		r.With["workload"] = maps.Clone(workload)
	}
	prompt.Resolve(r, "/workload", "measure")
	sampling = map[string]any{}
	if s, ok := peer.With["sampling"].(map[string]any); ok {
		maps.Copy(sampling, s)
	}
	if !sameAPI(r.With, peer.With) { // else the measure stage's own keys are reported
		target.RefuseUnsent(r, sampling, func(string) string { return "/same_as" })
	}
	return sampling
}

func sameAPI(a, b map[string]any) bool {
	x, _ := a["endpoint"].(map[string]any)
	y, _ := b["endpoint"].(map[string]any)
	return x["api"] == y["api"]
}
