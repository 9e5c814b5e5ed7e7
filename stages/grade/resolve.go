package grade

import (
	"encoding/json"
	"fmt"

	"anvil/pipeline/stage"
	"anvil/stages/derive"
)

// resolve takes the dataset from the measurement, checks the graders as far as
// that goes without data, and fills their defaults.
func resolve(r *stage.Resolution) {
	measure, found := upstreamMeasure(r)
	resolveDataset(r, measure, found)
	resolveReducer(r, measure)
	derive.ResolveGraders(r)
}

func upstreamMeasure(r *stage.Resolution) (map[string]any, bool) {
	for _, peer := range r.Upstream {
		if peer.Kind == "measure" {
			return peer.With, true
		}
	}
	return nil, false
}

func workload(measure map[string]any) map[string]any {
	w, _ := measure["workload"].(map[string]any)
	return w
}

func resolveDataset(r *stage.Resolution, measure map[string]any, found bool) {
	if r.With["dataset"] != nil {
		return
	}
	w := workload(measure)
	switch {
	case !found:
		r.Problem("/dataset", "no measure stage upstream says which dataset was sent", "dataset: ../testdata/datasets/quick.jsonl")
	case w["source"] != "dataset":
		r.Problem("/dataset", fmt.Sprintf("the measure stage sends a workload of source %v, which holds nothing to grade by", w["source"]), "name the file whose rows say what is expected")
	case w["format"] != nil && w["format"] != "anvil":
		r.Problem("/dataset", fmt.Sprintf("the measure stage sends a dataset of format %v; graders read rows of anvil.dataset/v1", w["format"]), "name a dataset of that form with the same ids")
	default:
		r.With["dataset"] = w["file"]
	}
}

// resolveReducer makes the plan say what becomes of items that are asked again:
// a default would decide a result.
func resolveReducer(r *stage.Resolution, measure map[string]any) {
	reducer := r.With["reducer"]
	switch {
	case reducer == nil && repeats(workload(measure)):
		r.Problem("/reducer", "is required: the measure stage asks every item several times (epochs)", "one of none, mean, majority, pass_at_k, all")
	case reducer == nil:
		r.With["reducer"] = "none"
	case reducer == "pass_at_k" && r.With["k"] == nil:
		r.Problem("/k", "is required by `reducer: pass_at_k`", "k: 1")
	case reducer != "pass_at_k" && r.With["k"] != nil:
		r.Problem("/k", fmt.Sprintf("belongs to `reducer: pass_at_k`, not to %v", reducer), "")
	}
}

func repeats(workload map[string]any) bool {
	n, ok := workload["epochs"].(json.Number)
	return ok && n.String() != "1"
}
