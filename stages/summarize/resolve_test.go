package summarize

import (
	"encoding/json"
	"fmt"
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

// below resolves a stage that needs the peers itself.
func below(t *testing.T, with string, peers ...stage.Peer) *stage.Resolution {
	t.Helper()
	r := &stage.Resolution{With: object(t, with), ID: "summarize", Plan: stage.ResolutionPlan{Name: "p", Deployment: map[string]any{}}, Upstream: peers}
	if err := schemas.Fill("anvil.summarize-config/v1", r.With); err != nil {
		t.Fatal(err)
	}
	resolve(r)
	return r
}

func TestDocumentsOnRequestNeedOneCell(t *testing.T) {
	peer := func(id, kind, with string) stage.Peer {
		return stage.Peer{ID: id, Of: id, Kind: kind, With: object(t, with), Direct: true}
	}
	const (
		cell    = `{"serving_cell": {"public_id": "x", "suite_version": "y"}}`
		summary = `{"derived_summary": {"cache_caveat": "x"}}`
	)
	closed := peer("measure", "measure", `{"load": {"mode": "closed"}, "workload": {"context_tokens": 512}}`)
	open := peer("open", "measure", `{"load": {"mode": "open"}, "workload": {"context_tokens": 512}}`)
	twice := peer("twice", "measure", `{"load": {"mode": "closed"}, "workload": {"source": "dataset", "epochs": 2}}`)
	imported := peer("old", "import", `{"schema": "anvil-serving.benchmark/v1"}`)
	far := closed
	far.Direct = false
	for _, c := range []struct {
		name, with string
		peers      []stage.Peer
		want       string // part of the one problem; "" for none
	}{
		{"one cell", cell, []stage.Peer{closed}, ""},
		{"two cells", cell, []stage.Peer{closed, open}, "2 cells (measure, open"},
		{"a cell farther up", cell, []stage.Peer{open, far}, ""},
		{"each prompt twice", cell, []stage.Peer{twice}, "each prompt 2 times"},
		{"closed loop", summary, []stage.Peer{closed}, ""},
		{"open loop", summary, []stage.Peer{open}, "open loop"},
		{"imported source", summary, []stage.Peer{open, imported}, ""},
		{"two sources", summary, []stage.Peer{closed, imported}, "2 benchmark records"},
		{"no source", summary, nil, `port "benchmark"`},
	} {
		problems := below(t, c.with, c.peers...).Problems()
		switch {
		case c.want == "" && len(problems) > 0:
			t.Errorf("%s: %+v", c.name, problems)
		case c.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Message, c.want) || problems[0].Hint == ""):
			t.Errorf("%s: %+v, want one about %q with a remedy", c.name, problems, c.want)
		}
	}
}

func TestServingCellTakesTheSizeOfTheWorkload(t *testing.T) {
	measure := stage.Peer{ID: "measure", Kind: "measure", With: object(t, `{"workload": {"context_tokens": 512}}`), Direct: true}
	for with, want := range map[string]string{
		`{"serving_cell": {"public_id": "x", "suite_version": "y"}}`:                              "512",
		`{"serving_cell": {"public_id": "x", "suite_version": "y", "target_input_tokens": 4096}}`: "4096",
	} {
		config := below(t, with, measure).With["serving_cell"].(map[string]any)
		if got := fmt.Sprint(config["target_input_tokens"]); got != want {
			t.Errorf("%s: target %s, want %s", with, got, want)
		}
	}
}

func TestServingCellNamesNoPageOfAnotherHost(t *testing.T) {
	r := &stage.Resolution{With: object(t, `{"serving_cell": {"public_id": "x", "suite_version": "y"}}`)}
	r.Plan.Deployment = map[string]any{"source_url": "https://intranet.example/model"}
	resolveServingCell(r)
	if len(r.Problems()) != 1 || !strings.Contains(r.Problems()[0].Message, "source_url") {
		t.Errorf("%+v", r.Problems())
	}
}
