package scout

import (
	"fmt"
	"maps"
	"time"

	"anvil/pipeline/stage"
	"anvil/stages/internal/prompt"
	"anvil/stages/internal/target"
)

// resolve sets the workload: the scout's own, whose prompts no measurement
// sends, or the first prompts of the measure stage that same_as names.
func resolve(r *stage.Resolution) {
	settleReady(r)
	sampling := map[string]any{}
	if id, ok := r.With["same_as"].(string); ok {
		sampling = sameAs(r, id)
	} else {
		prompt.Resolve(r, "/workload", scoutStream)
	}
	target.SettleSampling(r, sampling)
	r.With["sampling"] = sampling
}

// leastInterval keeps the probes from being a load of their own.
const leastInterval = 10 * time.Millisecond

func settleReady(r *stage.Resolution) {
	ready, _ := r.With["ready"].(map[string]any)
	text, _ := ready["interval"].(string)
	if d, err := time.ParseDuration(text); err == nil && d < leastInterval {
		r.Problem("/ready/interval", fmt.Sprintf("must be at least %s, got %s: every probe is a request to the endpoint", leastInterval, text), "500ms is the default")
	}
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
