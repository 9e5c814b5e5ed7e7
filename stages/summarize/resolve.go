package summarize

import (
	"encoding/json"
	"fmt"
	"strconv"

	"anvil/pipeline/stage"
)

// conventions are the rivals whose figures a plan may ask for.
var conventions = []any{"vllm", "sglang", "aiperf", "guidellm", "mlperf"}

// resolve takes over what stands at the plan's top level, fills the defaults
// that come from elsewhere, and refuses what this version does not write rather
// than leave it out quietly.
func resolve(r *stage.Resolution) {
	r.With["name"] = r.Plan.Name
	r.With["deployment"] = orEmpty(r.Plan.Deployment)
	r.With["conditions"] = r.Plan.Conditions
	if r.Plan.Conditions == nil {
		r.With["conditions"] = []any{}
	}
	r.With["limitations"] = plain(r.Plan.Limitations)
	if b, ok := r.With["bootstrap"].(map[string]any); ok && b["seed"] == nil {
		b["seed"] = json.Number(strconv.FormatInt(r.Plan.Seed, 10))
	}
	resolveObjectives(r)
	resolveServingCell(r)
	resolveDerivedSummary(r)
	refuse(r)
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// plain is the set as a configuration holds it: maps, lists, strings.
func plain(set stage.LimitationSet) []any {
	out := []any{}
	for _, l := range set {
		applies := []any{}
		for _, id := range l.AppliesTo {
			applies = append(applies, id)
		}
		out = append(out, map[string]any{
			"code": l.Code, "severity": string(l.Severity), "origin": l.Origin, "applies_to": applies, "text": l.Text,
		})
	}
	return out
}

// resolveObjectives takes the goals of the measure stages. Where these differ
// no one goal is the plan's, and summarize has to say which is meant.
func resolveObjectives(r *stage.Resolution) {
	if r.With["objectives"] != nil {
		return
	}
	none := map[string]any{"ttft_ms": nil, "tpot_ms": nil, "e2e_ms": nil}
	var first map[string]any
	for _, peer := range r.Upstream {
		if peer.Kind != "measure" {
			continue
		}
		goals, _ := peer.With["objectives"].(map[string]any)
		goals = withNulls(goals, none)
		if first == nil {
			first = goals
		}
		if !same(first, goals) {
			r.Problem("/objectives", "the measure stages have different objectives", "write the ones that the record is about")
			return
		}
	}
	if first == nil {
		first = none
	}
	r.With["objectives"] = first
}

func withNulls(m, none map[string]any) map[string]any {
	out := map[string]any{}
	for key := range none {
		out[key] = m[key]
	}
	return out
}

func same(a, b map[string]any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

func refuse(r *stage.Resolution) {
	if per, _ := r.With["per"].([]any); len(per) > 0 {
		r.Problem("/per", "figures per gpu or node are not computed by this version", "leave it out")
	}
	asked, _ := r.With["conventions"].([]any)
	if len(asked) > 0 && fmt.Sprint(asked) != fmt.Sprint(conventions) {
		r.Problem("/conventions", "figures under the conventions of other tools are not computed by this version", "leave it out (the record says so), or write []")
	}
}
