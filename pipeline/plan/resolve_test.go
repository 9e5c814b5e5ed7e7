package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"anvil/pipeline/plan"
	"anvil/pipeline/stage"
	"anvil/schemas"
)

func mustParse(t *testing.T, src string, opt plan.Options) *plan.Plan {
	t.Helper()
	p, err := parse(src, opt)
	if err != nil {
		t.Fatalf("Parse:\n%v", err)
	}
	return p
}

func stageOf(t *testing.T, p *plan.Plan, id string) plan.Stage {
	t.Helper()
	for _, s := range p.Stages {
		if s.ID == id {
			return s
		}
	}
	t.Fatalf("no stage %q among %v", id, ids(p))
	return plan.Stage{}
}

func ids(p *plan.Plan) []string {
	var out []string
	for _, s := range p.Stages {
		out = append(out, s.ID)
	}
	return out
}

// at returns the value at a JSON pointer into a document, as JSON.
func at(t *testing.T, doc []byte, pointer string) string {
	t.Helper()
	var v any
	dec := json.NewDecoder(strings.NewReader(string(doc)))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("decode %.200s: %v", doc, err)
	}
	for _, token := range schemas.Split(pointer) {
		switch c := v.(type) {
		case map[string]any:
			e, ok := c[token]
			if !ok {
				return "absent"
			}
			v = e
		case []any:
			var i int
			if _, err := fmt.Sscan(token, &i); err != nil || i >= len(c) {
				return "absent"
			}
			v = c[i]
		default:
			return "absent"
		}
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const measuring = `schema: anvil.plan/v1
name: measuring
seed: 42
params: {url: null, model: anvil-sim, n: 4, rate: 0.50, keep: true}
env: [RACK]
endpoints:
  target: {base_url: "${params.url}", model: "${params.model}", sim: {slots: 2}}
stages:
  - id: measure
    uses: measure
    with:
      endpoint: target
      load: {mode: closed, concurrency: "${params.n}", requests: 8}
      store_text: "${params.keep}"
      gate: {min_ok: "${params.rate}"}
      sampling: {reasoning_effort: "${env.RACK}/${params.n}/${params.keep} $${params.n} $5"}
`

func rack(name string) (string, bool) {
	if name == "RACK" {
		return "r7", true
	}
	return "", false
}

func TestReferenceAloneKeepsTheType(t *testing.T) {
	p := mustParse(t, measuring, plan.Options{Getenv: rack})
	with := stageOf(t, p, "measure").With
	for pointer, want := range map[string]string{
		"/load/concurrency": "4", "/store_text": "true", "/gate/min_ok": "0.50", "/endpoint/base_url": "null",
		"/sampling/reasoning_effort": `"r7/4/true ${params.n} $5"`,
	} {
		if got := at(t, with, pointer); got != want {
			t.Errorf("%s is %s, want %s", pointer, got, want)
		}
	}
}

func TestSetIsReadAsTheTypeOfTheDefault(t *testing.T) {
	set := map[string]string{"url": "http://127.0.0.1:9/v1", "model": "12", "n": "16", "rate": "1", "keep": "false"}
	p := mustParse(t, measuring, plan.Options{Getenv: rack, Set: set})
	want := map[string]any{"url": "http://127.0.0.1:9/v1", "model": "12", "n": json.Number("16"), "rate": json.Number("1"), "keep": false}
	if diff := cmp.Diff(want, p.Params); diff != "" {
		t.Errorf("params (-want +got):\n%s", diff)
	}
	p = mustParse(t, measuring, plan.Options{Getenv: rack, Set: map[string]string{"url": "null"}})
	if p.Params["url"] != nil {
		t.Errorf("null for a null default gives %v", p.Params["url"])
	}
}

func TestWrongSetIsAProblemOfTheFlag(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"concurency", "1", "--set: params.concurency: unknown parameter (known: keep, model, n, rate, url)"},
		{"modell", "1", `--set: params.modell: unknown parameter (did you mean "model"?)`},
		{"n", "1.5", `--set: params.n: "1.5" is not an integer (its default is 4)`},
		{"n", "010", `--set: params.n: "010" is not an integer (its default is 4)`},
		{"n", "9007199254740992", "--set: params.n: 9007199254740992 is beyond ±(2^53-1) (its default is 4)"},
		{"rate", "1e3", `--set: params.rate: "1e3" is not a plain decimal number (its default is 0.50)`},
		{"keep", "yes", `--set: params.keep: "yes" is not true or false (its default is true)`},
	} {
		_, err := parse(measuring, plan.Options{Getenv: rack, Set: map[string]string{c.name: c.text}})
		if err == nil || err.Error() != c.want {
			t.Errorf("--set %s=%s gives %v, want %s", c.name, c.text, err, c.want)
		}
	}
}

func TestBaseRunsParametersStandUnderSet(t *testing.T) {
	base := map[string]any{"n": float64(7), "model": "other", "gone": "x"}
	p := mustParse(t, measuring, plan.Options{Getenv: rack, Params: base, Set: map[string]string{"model": "mine"}})
	if p.Params["n"] != json.Number("7") || p.Params["model"] != "mine" || p.Params["keep"] != true {
		t.Errorf("params are %v", p.Params)
	}
	_, err := parse(measuring, plan.Options{Getenv: rack, Params: map[string]any{"n": "many"}})
	want := []string{`4:42 params.n: the base run has "many", which is not an integer`}
	if diff := cmp.Diff(want, places(err)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestVariableThatIsNotSetIsNullUnlessItIsUsed(t *testing.T) {
	p := mustParse(t, strings.ReplaceAll(measuring, "${env.RACK}", "none"), plan.Options{})
	if got := at(t, p.Resolved, "/env/RACK"); got != "null" {
		t.Errorf("env.RACK is %s in the resolved plan", got)
	}
	_, err := parse(measuring, plan.Options{})
	want := []string{"16:36 stages[0].with.sampling.reasoning_effort: the environment variable RACK is not set"}
	if diff := cmp.Diff(want, places(err)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	p = mustParse(t, measuring, plan.Options{Getenv: rack})
	if got := at(t, p.Resolved, "/env/RACK"); got != `"r7"` {
		t.Errorf("env.RACK is %s in the resolved plan", got)
	}
}

// One plan serves the embedded engine and a server: sim stands beside a
// base_url that a parameter gives, and counts only while that is null.
func TestEndpointIsWholeInTheConfiguration(t *testing.T) {
	p := mustParse(t, measuring, plan.Options{Getenv: rack})
	s := stageOf(t, p, "measure")
	for pointer, want := range map[string]string{
		"/endpoint/name": `"target"`, "/endpoint/sim/slots": "2", "/endpoint/sim/seed": "42", "/endpoint/sim/decode_tok_s": "100",
		"/endpoint/api": `"openai-chat"`, "/endpoint/tls/ca_file": "null", "/endpoint/model": `"anvil-sim"`, "/endpoint/headers": "{}",
	} {
		if got := at(t, s.With, pointer); got != want {
			t.Errorf("%s is %s, want %s", pointer, got, want)
		}
	}
	if s.Endpoint == nil || s.Endpoint.Name != "target" || s.Endpoint.BaseURL != "" || string(s.Endpoint.Config) != at(t, s.With, "/endpoint") {
		t.Errorf("endpoint of the stage is %+v", s.Endpoint)
	}
	p = mustParse(t, measuring, plan.Options{Getenv: rack, Set: map[string]string{"url": "http://127.0.0.1:9/v1"}})
	s = stageOf(t, p, "measure")
	if got := at(t, s.With, "/endpoint/sim"); got != "null" || s.Endpoint.BaseURL != "http://127.0.0.1:9/v1" {
		t.Errorf("with a server sim is %s and the URL %q", got, s.Endpoint.BaseURL)
	}
}

func TestDefaultsAreFilledAllTheWayDown(t *testing.T) {
	p := mustParse(t, measuring, plan.Options{Getenv: rack})
	with := stageOf(t, p, "measure").With
	for pointer, want := range map[string]string{
		"/max_tokens": "256", "/limits/first_output": `"10m"`, "/load/ramp": `"0s"`, "/load/duration": "null",
		"/workload/source": `"synthetic"`, "/workload/context_tokens": "512", "/objectives/ttft_ms": "null", "/search": "null",
		"/workload/seed": "42", // by the kind, from the plan's seed
		"/load/pacing":   "absent",
	} {
		if got := at(t, with, pointer); got != want {
			t.Errorf("%s is %s, want %s", pointer, got, want)
		}
	}
}

func TestNumbersKeepTheirSpellingAndTheKeyDoesNotDependOnIt(t *testing.T) {
	a := stageOf(t, mustParse(t, measuring, plan.Options{Getenv: rack}), "measure")
	b := stageOf(t, mustParse(t, strings.ReplaceAll(measuring, "0.50", "0.5"), plan.Options{Getenv: rack}), "measure")
	if at(t, a.With, "/gate/min_ok") != "0.50" || at(t, b.With, "/gate/min_ok") != "0.5" {
		t.Errorf("min_ok is spelt %s and %s", at(t, a.With, "/gate/min_ok"), at(t, b.With, "/gate/min_ok"))
	}
	if string(a.KeyConfig) != string(b.KeyConfig) {
		t.Errorf("keys differ:\n%s\n%s", a.KeyConfig, b.KeyConfig)
	}
}

const filing = `schema: anvil.plan/v1
name: filing
endpoints: {target: {base_url: null, tls: {ca_file: rows.jsonl}}}
stages:
  - id: measure
    uses: measure
    timeout: 90s
    retries: 2
    on_failure: continue
    with:
      endpoint: target
      drain: 5s
      load: {mode: open, arrival: constant, rate: 2, requests: 8, pacing: precise}
      workload: {source: dataset, file: rows.jsonl}
  - {id: old, uses: import, with: {file: ./rows.jsonl, schema: anvil.attempts/v1}}
  - {id: scored, uses: score, needs: [old]}
`

func TestKeyLeavesOutPolicyAndPaths(t *testing.T) {
	s := stageOf(t, mustParse(t, filing, plan.Options{}), "measure")
	for pointer, want := range map[string][2]string{ // in With, in KeyConfig
		"/drain":                {`"5s"`, "absent"},
		"/load/pacing":          {`"precise"`, "absent"},
		"/load/rate":            {"2", "2"},
		"/workload/file":        {`"rows.jsonl"`, "absent"},
		"/workload/format":      {`"anvil"`, `"anvil"`},
		"/endpoint/tls/ca_file": {`"rows.jsonl"`, "absent"},
		"/endpoint/api":         {`"openai-chat"`, `"openai-chat"`},
	} {
		if got := [2]string{at(t, s.With, pointer), at(t, s.KeyConfig, pointer)}; got != want {
			t.Errorf("%s is %v, want %v", pointer, got, want)
		}
	}
}

func TestFilesAreListedByPointer(t *testing.T) {
	p := mustParse(t, filing, plan.Options{})
	want := []plan.File{
		{Pointer: "/endpoint/tls/ca_file", Path: "testdata/rows.jsonl", Written: "rows.jsonl"},
		{Pointer: "/workload/file", Path: "testdata/rows.jsonl", Written: "rows.jsonl"},
	}
	if diff := cmp.Diff(want, stageOf(t, p, "measure").Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	want = []plan.File{{Pointer: "/file", Path: "testdata/rows.jsonl", Written: "./rows.jsonl"}}
	if diff := cmp.Diff(want, stageOf(t, p, "old").Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestPolicyOfAStageStandsBesideItsConfiguration(t *testing.T) {
	s := stageOf(t, mustParse(t, filing, plan.Options{}), "measure")
	if s.Timeout != 90*time.Second || s.Retries != 2 || !s.ContinueOnFailure || s.Pos != (plan.Pos{File: "testdata/p.yaml", Line: 5, Column: 5}) {
		t.Errorf("stage is %+v", s)
	}
	if s := stageOf(t, mustParse(t, filing, plan.Options{}), "old"); s.Timeout != 0 || s.Retries != 0 || s.ContinueOnFailure {
		t.Errorf("defaults are %+v", s)
	}
}

// The name of an imported artifact is its file's, and its schema the one that
// its configuration says.
func TestImportedArtifactBindsBySchemaAndName(t *testing.T) {
	for _, src := range []string{filing, strings.ReplaceAll(filing, ", schema: anvil.attempts/v1", "")} {
		s := stageOf(t, mustParse(t, src, plan.Options{}), "scored")
		want := []plan.Binding{{Port: "attempts", From: []plan.Source{{Stage: "old", Output: "rows.jsonl"}}}}
		if diff := cmp.Diff(want, s.Inputs); diff != "" {
			t.Errorf("inputs (-want +got):\n%s", diff)
		}
	}
}

func TestResolvedPlanDependsOnWhatThePlanMeansAlone(t *testing.T) {
	p := mustParse(t, filing, plan.Options{})
	var doc any
	if err := json.Unmarshal(p.Resolved, &doc); err != nil {
		t.Fatal(err)
	}
	if err := schemas.Check(plan.ResolvedSchema, doc); err != nil {
		t.Error(err)
	}
	edited := "# a comment\n" + strings.ReplaceAll(filing, "    timeout: 90s", "\n    timeout:   \"90s\"   # long enough")
	q := mustParse(t, edited, plan.Options{})
	if diff := cmp.Diff(string(p.Resolved), string(q.Resolved)); diff != "" {
		t.Errorf("resolved plan after an edit of no meaning (-want +got):\n%s", diff)
	}
	if p.Digest == q.Digest || p.ResolvedDigest != q.ResolvedDigest {
		t.Errorf("digests: plan %s and %s, resolved %s and %s", p.Digest.Short(), q.Digest.Short(), p.ResolvedDigest.Short(), q.ResolvedDigest.Short())
	}
	if q := mustParse(t, strings.ReplaceAll(filing, "90s", "91s"), plan.Options{}); q.ResolvedDigest == p.ResolvedDigest {
		t.Error("another timeout gives the same resolved plan")
	}
}

func TestShowAndCheckFitTheirSchemas(t *testing.T) {
	_, bad := parse("name: x\n", plan.Options{Set: map[string]string{"a": "b"}})
	for id, v := range map[schemas.ID]any{
		plan.ShowSchema:  mustParse(t, filing, plan.Options{}).Show(),
		plan.CheckSchema: plan.CheckOf(bad),
	} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := json.Unmarshal(b, &doc); err != nil {
			t.Fatal(err)
		}
		if err := schemas.Check(id, doc); err != nil {
			t.Errorf("%s: %v\n%.400s", id, err, b)
		}
	}
	if c := plan.CheckOf(bad); c.OK || len(c.Problems) != 3 {
		t.Errorf("check of a bad plan is %+v", c)
	}
	if c := plan.CheckOf(nil); !c.OK || c.Problems == nil {
		t.Errorf("check of a good plan is %+v", c)
	}
}

func TestPlanLimitationsAreASet(t *testing.T) {
	p := mustParse(t, good+`limitations:
  - Second.
  - {text: First., code: plan.pilot, severity: note, applies_to: [ttft_p50_ms, e2e_p50_ms]}
  - Second.
`, plan.Options{})
	want := stage.LimitationSet{
		{Code: "plan.pilot", Severity: stage.Note, Origin: "plan", AppliesTo: []string{"e2e_p50_ms", "ttft_p50_ms"}, Text: "First."},
		{Code: "plan.stated", Severity: stage.Caveat, Origin: "plan", AppliesTo: []string{"*"}, Text: "Second."},
	}
	if diff := cmp.Diff(want, p.Limitations); diff != "" {
		t.Errorf("limitations (-want +got):\n%s", diff)
	}
}

func TestAliasesAndMergeKeysAreShownResolved(t *testing.T) {
	p := mustParse(t, `schema: anvil.plan/v1
name: merging
stages:
  - &first {id: a, uses: import, with: &w {file: rows.jsonl, schema: anvil.attempts/v1}}
  - {<<: *first, id: b}
  - {<<: [{uses: score, needs: [b]}, *first], id: c, with: {model: m}}
  - id: d
    uses: import
    with: {<<: *w, schema: null}
`, plan.Options{})
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, ids(p)); diff != "" {
		t.Fatalf("stages (-want +got):\n%s", diff)
	}
	if got := at(t, p.Resolved, "/stages/1/with/schema"); got != `"anvil.attempts/v1"` {
		t.Errorf("merged schema is %s", got)
	}
	if got := at(t, p.Resolved, "/stages/3/with/schema"); got != "null" {
		t.Errorf("overridden schema is %s", got)
	}
	if s := stageOf(t, p, "c"); s.Kind.Spec().Name != "score" || s.Needs[0] != "b" {
		t.Errorf("the first merged mapping does not win: %+v", s)
	}
}

// Names of secrets stand in the resolved plan; their values stand nowhere.
func TestNoValueOfASecretIsLookedUp(t *testing.T) {
	src := strings.ReplaceAll(measuring, "sim: {slots: 2}", "api_key_env: MY_KEY, headers_env: {X-Token: MY_TOKEN}, sim: {slots: 2}")
	p := mustParse(t, src, plan.Options{Getenv: func(name string) (string, bool) {
		if strings.HasPrefix(name, "MY_") {
			t.Errorf("the value of %s was asked for", name)
		}
		return rack(name)
	}})
	if got := at(t, stageOf(t, p, "measure").With, "/endpoint/api_key_env"); got != `"MY_KEY"` {
		t.Errorf("api_key_env is %s", got)
	}
	_, err := parse(strings.ReplaceAll(measuring, `"${params.url}"`, `"http://u:hunter2@h/v1"`), plan.Options{Getenv: rack})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a password in a URL gives %v", err)
	}
}

// Off is a word that several keys take; sizes are keys of a distribution. Both
// are written without quotes.
func TestPlainWordsAndSizesNeedNoQuotes(t *testing.T) {
	p := mustParse(t, `schema: anvil.plan/v1
name: plain
endpoints: {target: {base_url: null, metrics: off}}
stages:
  - id: scout
    uses: scout
    with: {endpoint: target, canary: off, cache_reset: off, workload: {source: synthetic, context_tokens: {choices: {128: 1, 512: 2.5}}}}
`, plan.Options{})
	with := stageOf(t, p, "scout").With
	for pointer, want := range map[string]string{
		"/canary": `"off"`, "/cache_reset": `"off"`, "/endpoint/metrics": `"off"`, "/workload/context_tokens/choices/512": "2.5",
	} {
		if got := at(t, with, pointer); got != want {
			t.Errorf("%s is %s, want %s", pointer, got, want)
		}
	}
	_, err := parse(strings.ReplaceAll(measuring, `"${params.keep}"`, "off"), plan.Options{Getenv: rack})
	want := []string{"14:19 stages[0].with.store_text: must be true or false, not text"}
	if diff := cmp.Diff(want, places(err)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
