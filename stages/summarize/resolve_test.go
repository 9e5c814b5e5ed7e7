package summarize

import (
	"encoding/json"
	"strings"
	"testing"

	"anvil/pipeline/stage"
	"anvil/schemas"
	"anvil/stages/derive"
)

func resolved(t *testing.T, with string, upstream ...string) *stage.Resolution {
	t.Helper()
	r := &stage.Resolution{With: object(t, with), ID: "summarize", Plan: stage.ResolutionPlan{
		Name: "p", Seed: 7, Deployment: map[string]any{"model": "m"}, Conditions: []any{map[string]any{"label": "Parsers", "value": "none"}},
		Limitations: stage.NewLimitationSet(stage.Limitation{Code: "plan.stated", Severity: stage.Caveat, Origin: stage.OriginPlan, AppliesTo: []string{"*"}, Text: "x"}),
	}}
	if err := schemas.Fill("anvil.summarize-config/v1", r.With); err != nil {
		t.Fatal(err)
	}
	for _, goals := range upstream {
		r.Upstream = append(r.Upstream, stage.Peer{ID: "measure", Of: "measure", Kind: "measure", With: map[string]any{"objectives": object(t, goals)}})
	}
	resolve(r)
	return r
}

func object(t *testing.T, src string) map[string]any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(src))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDefaultsPassAndMakeAStage(t *testing.T) {
	r := resolved(t, `{}`, `{"ttft_ms": 500}`)
	if len(r.Problems()) > 0 {
		t.Fatalf("problems %+v", r.Problems())
	}
	raw, err := json.Marshal(r.With)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Kind.New(raw); err != nil {
		t.Error(err)
	}
	var c derive.SummarizeConfig
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	if c.Name != "p" || *c.Bootstrap.Seed != 7 || *c.Objectives.TTFTMS != 500 || len(c.Limitations) != 1 || c.Limitations[0].Origin != stage.OriginPlan || c.Conditions[0].Label != "Parsers" {
		t.Errorf("resolved %+v", c)
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	var doc any
	if err := dec.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if err := schemas.Check("anvil.summarize-config/v1", doc); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNotBuiltIsRefused(t *testing.T) {
	for with, pointer := range map[string]string{
		`{"serving_cell": {"public_id": "x", "suite_version": "y"}}`: "/serving_cell",
		`{"derived_summary": {"cache_caveat": "x"}}`:                 "/derived_summary",
		`{"per": ["gpu"]}`:          "/per",
		`{"conventions": ["vllm"]}`: "/conventions",
	} {
		if r := resolved(t, with); len(r.Problems()) != 1 || r.Problems()[0].Pointer != pointer {
			t.Errorf("%s: %+v, want one problem at %s", with, r.Problems(), pointer)
		}
	}
	if r := resolved(t, `{"conventions": []}`); len(r.Problems()) != 0 {
		t.Errorf("asking for no convention: %+v", r.Problems())
	}
}

func TestObjectivesOfSeveralMeasurementsMustAgree(t *testing.T) {
	if r := resolved(t, `{}`, `{"ttft_ms": 500}`, `{"ttft_ms": 400}`); len(r.Problems()) != 1 || r.Problems()[0].Pointer != "/objectives" {
		t.Errorf("%+v", r.Problems())
	}
	if r := resolved(t, `{"objectives": {"ttft_ms": 300}}`, `{"ttft_ms": 500}`, `{"ttft_ms": 400}`); len(r.Problems()) != 0 {
		t.Errorf("own objectives: %+v", r.Problems())
	}
	if r := resolved(t, `{}`, `{"ttft_ms": 500}`, `{"ttft_ms": 500, "e2e_ms": null}`); len(r.Problems()) != 0 {
		t.Errorf("equal objectives: %+v", r.Problems())
	}
}
