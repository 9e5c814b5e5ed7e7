package engine

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Where an API has its sampling is where extra_body overrides it.
func TestOverridesStandWhereTheAPIHasItsSampling(t *testing.T) {
	base := "http://127.0.0.1:9/v1"
	nested := map[string]string{"ollama": "options", "tgi": "parameters", "sglang": "sampling_params"}
	for _, a := range All() {
		members := map[string]any{"temperature": 0.25, "seed": nil, "unknown": 1}
		extra := any(members)
		if place := nested[a.API()]; place != "" {
			extra = map[string]any{place: members, "temperature": 0.5}
		}
		raw, err := json.Marshal(extra)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Open(Endpoint{API: a.API(), BaseURL: &base, Model: new("m"), ExtraBody: raw})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for name, v := range p.Overrides() {
			got[name] = string(v)
		}
		if diff := cmp.Diff(map[string]string{"temperature": "0.25", "seed": "null"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", a.API(), diff)
		}
	}
	p, err := Open(Endpoint{BaseURL: &base})
	if err != nil {
		t.Fatal(err)
	}
	if over := p.Overrides(); len(over) > 0 {
		t.Errorf("without extra_body: %v", slices.Collect(maps.Keys(over)))
	}
}
