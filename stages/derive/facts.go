package derive

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// facts are what the documents beside the cells observed.
type facts struct {
	scouts  []scoutFacts
	weights []weightFacts
}

// scoutFacts is what a record takes from scout.json.
type scoutFacts struct {
	Engine struct {
		Name    *string `json:"name"`
		Version *string `json:"version"`
	} `json:"engine"`
}

// weightFacts is what a record takes from weights.json.
type weightFacts struct {
	OK             bool           `json:"ok"`
	Revision       *string        `json:"revision"`
	ManifestSHA256 *digest.Digest `json:"manifest_sha256"`
	Reference      *struct {
		SHA256 digest.Digest `json:"sha256"`
	} `json:"reference"`
	Replicas []struct {
		Name  string `json:"name"`
		Files []any  `json:"files"`
	} `json:"replicas"`
	Bytes int64 `json:"bytes"`
}

func readFacts(ctx context.Context, ports map[string][]stage.Artifact) (facts, error) {
	var f facts
	for _, a := range ports["scout"] {
		s, err := stage.Decode[scoutFacts](ctx, a)
		if err != nil {
			return f, err
		}
		f.scouts = append(f.scouts, s)
	}
	for _, a := range ports["weights"] {
		w, err := stage.Decode[weightFacts](ctx, a)
		if err != nil {
			return f, err
		}
		f.weights = append(f.weights, w)
	}
	return f, nil
}

// agreed returns the one value that all agree on, or why there is none.
func agreed[T comparable](values []*T, missing, differ string) (*T, string) {
	if len(values) == 0 {
		return nil, missing
	}
	for _, v := range values {
		switch {
		case v == nil:
			return nil, missing
		case *v != *values[0]:
			return nil, differ
		}
	}
	return values[0], ""
}

// observe fills the observed facts; each null has its reason.
func observe(f facts, cells []*cell) record.Observed {
	o := record.Observed{Reasons: map[string]string{}}
	take := func(name, reason string) {
		if reason != "" {
			o.Reasons[name] = reason
		}
	}
	var reason string
	silent := "no scout stands in the evidence"
	if len(f.scouts) > 0 {
		silent = "the endpoint does not say"
	}
	o.Engine, reason = agreed(mapOf(f.scouts, func(s scoutFacts) *string { return s.Engine.Name }), silent, "the scouts saw different ones")
	take("engine", reason)
	o.Version, reason = agreed(mapOf(f.scouts, func(s scoutFacts) *string { return s.Engine.Version }), silent, "the scouts saw different ones")
	take("version", reason)
	o.Model, reason = observedModel(cells)
	take("model", reason)
	o.ServedWindow, reason = agreed(mapOf(cells, func(c *cell) *int {
		if c.measurement == nil {
			return nil
		}
		return c.measurement.ServedWindow
	}), "the endpoint does not say", "it differs between cells")
	take("served_window", reason)
	o.Weights, reason = observedWeights(f.weights)
	take("weights.manifest_sha256", reason)
	return o
}

func mapOf[A, B any](as []A, f func(A) B) []B {
	out := make([]B, len(as))
	for i, a := range as {
		out[i] = f(a)
	}
	return out
}

// observedModel is the name in the answers when every success bears the same.
func observedModel(cells []*cell) (*string, string) {
	names := map[string]bool{}
	silent := false
	for _, c := range cells {
		silent = silent || c.tally.silent > 0
		for name := range c.tally.models {
			names[name] = true
		}
	}
	sorted := sortedKeys(names)
	switch {
	case len(sorted) == 0:
		return nil, "no successful answer names a model"
	case len(sorted) > 1:
		return nil, "answers name several: " + strings.Join(sorted, ", ")
	case silent:
		return nil, "some answers name none, the others " + sorted[0]
	}
	return &sorted[0], ""
}

func observedWeights(all []weightFacts) (record.ObservedWeights, string) {
	w := record.ObservedWeights{Replicas: []string{}}
	if len(all) == 0 {
		return w, "no weights were verified"
	}
	w.Verified = true
	for _, v := range all {
		w.Verified = w.Verified && v.OK && v.Reference != nil
		for _, r := range v.Replicas {
			w.Replicas = append(w.Replicas, r.Name)
		}
	}
	var reason string
	w.ManifestSHA256, reason = agreed(mapOf(all, func(v weightFacts) *digest.Digest { return v.ManifestSHA256 }),
		"the replicas differ", "the checkpoints differ")
	return w, reason
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// weightVerification says in words what was hashed and compared.
func weightVerification(all []weightFacts) string {
	if len(all) == 0 {
		return "Not verified; what the endpoint serves is known by its name alone"
	}
	var out []string
	for _, w := range all {
		files := 0
		for _, r := range w.Replicas {
			files += len(r.Files)
		}
		text := fmt.Sprintf("%s hashed on %s, %d bytes", plural(files, "checkpoint file"), plural(len(w.Replicas), "replica"), w.Bytes)
		switch {
		case !w.OK:
			text += "; NOT equal to the pinned manifest, or incomplete"
		case w.Reference == nil:
			text += "; compared with no pinned manifest"
		default:
			text += "; equal to the pinned manifest " + w.Reference.SHA256.String()
		}
		out = append(out, text)
	}
	return strings.Join(out, " | ")
}
