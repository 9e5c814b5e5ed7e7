package measure

import (
	"encoding/json"
	"time"

	"anvil/pipeline/stage"
	"anvil/stages/internal/prompt"
	"anvil/stages/internal/target"
)

// resolve sets what comes from the plan and from other stages, and refuses what
// is not built yet: a key that would be ignored is worse than a problem.
func resolve(r *stage.Resolution) {
	prompts := prompt.Resolve(r, "/workload", "measure")
	resolveSampling(r)
	resolveStop(r, prompts)
	resolveScarce(r, prompts)
	resolveCache(r)
	refuseUnbuilt(r)
}

func resolveSampling(r *stage.Resolution) {
	s, ok := r.With["sampling"].(map[string]any)
	if !ok {
		return
	}
	target.SettleSampling(r, s)
	target.RefuseUnsent(r, s, func(key string) string { return "/sampling/" + key })
}

func resolveStop(r *stage.Resolution, prompts int) {
	load, ok := r.With["load"].(map[string]any)
	if !ok {
		return
	}
	requests, duration := load["requests"], load["duration"]
	switch {
	case requests == nil && duration == nil:
		r.Problem("/load", "nothing ends the load", "set requests: N or duration: 30s")
	case requests != nil && duration != nil:
		r.Problem("/load/duration", "requests and duration are both set", "exactly one of them ends the load")
	}
	if text, ok := duration.(string); ok {
		if d, err := time.ParseDuration(text); err == nil && d <= 0 {
			r.Problem("/load/duration", "must be longer than 0s", "")
		}
	}
	resolveRamp(r, load)
	resolveTrace(r, load, prompts)
}

func resolveRamp(r *stage.Resolution, load map[string]any) {
	from, to := number(load["rate_from"]), number(load["rate_to"])
	if load["arrival"] == "ramp" && from == 0 && to == 0 {
		r.Problem("/load/rate_to", "a ramp from 0 to 0 has no arrivals", "")
	}
}

func number(v any) float64 {
	n, _ := v.(json.Number)
	f, _ := n.Float64()
	return f
}

func resolveCache(r *stage.Resolution) {
	cache, ok := r.With["cache"].(map[string]any)
	if !ok || cache["sequence"] != nil {
		return
	}
	cache["sequence"] = "cold"
	for _, p := range r.Upstream {
		if p.Kind == "scout" {
			cache["sequence"] = "after_scout"
		}
	}
}

func refuseUnbuilt(r *stage.Resolution) {
	if r.With["search"] != nil {
		r.Problem("/search", "the search for the largest load is not built yet", "sweep with a matrix")
	}
}
