package grade

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"anvil/pipeline/stage"
	"anvil/stages/derive"
)

// resolve takes the dataset from the measurement, fills the defaults of the
// graders, and checks these and the dataset's rows.
func resolve(r *stage.Resolution) {
	measure, found := upstreamMeasure(r)
	resolveDataset(r, measure, found)
	resolveReducer(r, measure, found)
	derive.ResolveGraders(r)
	resolveRows(r)
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
// a default would decide a result. Whether imported attempts hold such items
// shows when they are read, so the reducer then stays null until Grade settles it.
func resolveReducer(r *stage.Resolution, measure map[string]any, found bool) {
	times, known := attemptsPerItem(workload(measure))
	known = known && found && !imports(r)
	switch {
	case r.With["reducer"] != nil:
	case times > 1:
		r.Problem("/reducer", "is required: the measure stage asks every item several times (epochs)", "one of none, mean, majority, pass_at_k, all")
		return
	case found && !imports(r):
		r.With["reducer"] = "none"
	}
	reducer, k := r.With["reducer"], r.With["k"]
	switch {
	case reducer == "pass_at_k" && k == nil:
		r.Problem("/k", "is required by `reducer: pass_at_k`", "k: 1")
	case reducer == "pass_at_k" && known && whole(k) > times:
		r.Problem("/k", fmt.Sprintf("pass@%d needs as many attempts at an item, and the measure stage makes %d", whole(k), times),
			"a smaller k, or more epochs of a dataset")
	case reducer != "pass_at_k" && k != nil:
		r.Problem("/k", fmt.Sprintf("belongs to `reducer: pass_at_k`, not to %v", cmp.Or(reducer, any("none"))), "")
	}
}

// attemptsPerItem is how often a workload asks an item at most; ok is false when
// the plan does not tell.
func attemptsPerItem(workload map[string]any) (n int64, ok bool) {
	switch workload["source"] {
	case "dataset":
		return max(1, whole(workload["epochs"])), true
	case "synthetic":
		return 1, true
	}
	return 0, false
}

func whole(v any) int64 {
	n, _ := v.(json.Number)
	i, _ := n.Int64()
	return i
}

// imports tells whether the attempts may come from an import.
func imports(r *stage.Resolution) bool {
	return slices.ContainsFunc(r.Upstream, func(p stage.Peer) bool { return p.Kind == "import" && p.Direct })
}
