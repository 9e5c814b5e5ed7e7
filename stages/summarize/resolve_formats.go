package summarize

import (
	"encoding/json"
	"fmt"

	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// resolveServingCell reports, before anything is measured, what a serving cell
// cannot be made of: several cells, prompts that are sent twice.
func resolveServingCell(r *stage.Resolution) {
	config, ok := r.With["serving_cell"].(map[string]any)
	if !ok {
		return
	}
	cells := sources(r, "measure", string(record.AttemptsSchema))
	if len(cells) > 1 {
		r.Problem("/serving_cell", fmt.Sprintf("the record has %d cells (%s, %s, …), a serving cell is one", len(cells), cells[0].ID, cells[1].ID),
			"write collect: [] on this stage for a record of each, or leave serving_cell out")
		return
	}
	for _, p := range cells {
		workload, _ := p.With["workload"].(map[string]any)
		if n, ok := workload["epochs"].(json.Number); ok && n != "1" {
			r.Problem("/serving_cell", fmt.Sprintf("stage %q sends each prompt %s times, a serving cell counts each prompt once", p.ID, n),
				"set epochs: 1 there, or leave serving_cell out")
		}
		if n, ok := workload["context_tokens"].(json.Number); ok && config["target_input_tokens"] == nil {
			config["target_input_tokens"] = n
		}
	}
	if url, ok := r.Plan.Deployment["source_url"].(string); ok {
		if err := record.CheckSourceURL(url); err != nil {
			r.Problem("/serving_cell", fmt.Sprintf("deployment.source_url: %v", err), "name a page of those hosts, or null")
		}
	}
}

// resolveDerivedSummary: a summary copies from one benchmark record, which
// closed loops alone write.
func resolveDerivedSummary(r *stage.Resolution) {
	if r.With["derived_summary"] == nil {
		return
	}
	from := 0
	open := ""
	for _, p := range sources(r, "measure", "anvil-serving.benchmark/v1") {
		load, _ := p.With["load"].(map[string]any)
		if p.Kind == "measure" && load["mode"] == "open" {
			open = p.ID
			continue
		}
		from++
	}
	const remedy = "leave derived_summary out; record.json holds the figures"
	switch {
	case from > 1:
		r.Problem("/derived_summary", fmt.Sprintf("%d benchmark records arrive, a derived summary copies from one", from),
			"write collect: [] on this stage for a summary of each, or leave derived_summary out")
	case from == 0 && open != "":
		r.Problem("/derived_summary", fmt.Sprintf("stage %q runs an open loop, which writes no benchmark.json to copy from", open), remedy)
	case from == 0:
		r.Problem("/derived_summary", "nothing on the port \"benchmark\": no stage that this one needs writes a benchmark record", remedy)
	}
}

// sources are the stages that this one needs itself and that may give it an
// artifact of the schema: those of a kind, and imports.
func sources(r *stage.Resolution, kind, schema string) []stage.Peer {
	var out []stage.Peer
	for _, p := range r.Upstream {
		if !p.Direct {
			continue
		}
		if p.Kind == kind || p.Kind == "import" && p.With["schema"] == schema {
			out = append(out, p)
		}
	}
	return out
}
