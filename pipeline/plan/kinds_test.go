package plan_test

import (
	"context"
	"encoding/json"
	"path/filepath"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/schemas"
)

// The kinds of these tests do nothing; what counts is what they declare. Their
// configurations have the schemas of the real kinds.

type idle struct{}

func (idle) Run(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error { return nil }

func fake(spec stage.Spec) stage.Kind {
	return stage.Define(spec, func(json.RawMessage) (stage.Stage, error) { return idle{}, nil })
}

func port(name string, schema schemas.ID) stage.Port { return stage.Port{Name: name, Schema: schema} }

func optional(p stage.Port) stage.Port { p.Optional = true; return p }

func many(p stage.Port) stage.Port { p.Many = true; return p }

func fakeKinds() stage.Set {
	weights, scout := port("weights", "anvil.weights-verification/v1"), port("scout", "anvil.scout/v1")
	attempts, measurement := port("attempts", "anvil.attempts/v1"), port("measurement", "anvil.measurement/v1")
	return stage.NewSet(
		fake(stage.Spec{
			Name: "verify-weights", Contract: 1, Config: "anvil.verify-weights-config/v1", Class: stage.Observational,
			Out: []stage.Port{port("weights.json", weights.Schema)},
		}),
		fake(stage.Spec{
			Name: "scout", Contract: 1, Config: "anvil.scout-config/v1", Class: stage.Observational, Exclusive: true,
			In:  []stage.Port{optional(weights)},
			Out: []stage.Port{port("scout.json", scout.Schema)},
		}),
		fake(stage.Spec{
			Name: "measure", Contract: 1, Config: "anvil.measure-config/v1", Class: stage.Observational, Exclusive: true,
			In:      []stage.Port{optional(scout), optional(weights)},
			Out:     []stage.Port{port("attempts.jsonl.zst", attempts.Schema), port("measurement.json", measurement.Schema)},
			Resolve: resolveMeasure,
		}),
		// What follows borrows a schema in which everything is optional.
		fake(stage.Spec{
			Name: "import", Contract: 1, Config: "anvil.import-config/v1", Class: stage.Pure,
			Out: []stage.Port{{}}, Resolve: resolveImport,
		}),
		fake(stage.Spec{
			Name: "join", Contract: 1, Config: "anvil.endpoint/v1", Class: stage.Pure, Collects: true,
			In:  []stage.Port{many(attempts), many(optional(measurement))},
			Out: []stage.Port{port("record.json", "anvil.record/v1")},
		}),
		fake(stage.Spec{
			Name: "score", Contract: 1, Config: "anvil.endpoint/v1", Class: stage.Pure,
			In:  []stage.Port{attempts},
			Out: []stage.Port{port("grades.jsonl", "anvil.grades/v1")},
		}),
		fake(stage.Spec{
			Name: "pass", Contract: 1, Config: "anvil.endpoint/v1", Class: stage.Pure,
			In:  []stage.Port{port("grades", "anvil.grades/v1")},
			Out: []stage.Port{port("passed.jsonl", "anvil.passed/v1")},
		}),
		fake(stage.Spec{
			Name: "pair", Contract: 1, Config: "anvil.endpoint/v1", Class: stage.Pure,
			In:  []stage.Port{port("base", "anvil.record/v1"), port("candidate", "anvil.record/v1")},
			Out: []stage.Port{port("comparison.json", "anvil.comparison/v1")},
		}),
	)
}

func resolveMeasure(r *stage.Resolution) {
	load := r.With["load"].(map[string]any)
	if (load["requests"] == nil) == (load["duration"] == nil) {
		r.Problem("/load", "must hold exactly one of requests and duration", "")
	}
	w := r.With["workload"].(map[string]any)
	if w["source"] == "synthetic" && w["seed"] == nil {
		w["seed"] = r.Plan.Seed
	}
}

func stageDigest(id string) string { return digest.FromBytes([]byte(id)).Short() }

func resolveImport(r *stage.Resolution) {
	r.With["name"] = filepath.Base(r.With["file"].(string))
}

func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
