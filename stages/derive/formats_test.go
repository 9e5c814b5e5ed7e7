package derive_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"anvil/pipeline/stage"
	"anvil/stages/derive"
	"anvil/stages/record"
	"anvil/stages/validate"
)

// servingLab is a graded cell of eight requests whose record comes with a
// serving cell; change alters its configuration and its rows.
func servingLab(t *testing.T, change func(config map[string]any, rows []record.Attempt)) (*lab, published, record.Final) {
	t.Helper()
	l := newLab(t)
	rows, dataset := goldenRows()
	config := map[string]any{
		"serving_cell": map[string]any{"public_id": "lab-4k-c2", "suite_version": "suite-v1"},
		"deployment":   map[string]any{"model": "Claimed 1", "profile": "a pilot", "revision": "abc", "node_count": 2},
	}
	if change != nil {
		change(config, rows)
	}
	attempts := l.attempts("measure", header(len(rows)), rows, userStamps)
	doc := l.document("measure", "measurement.json", record.MeasurementSchema, measurement(4000, rows), attempts.LimitationSet()...)
	graded, err := l.grade(attempts, dataset, map[string]any{"graders": []any{map[string]any{"id": "fields", "type": "evidence_fields"}}})
	if err != nil {
		t.Fatal(err)
	}
	p, f := l.summarize(config, map[string][]stage.Artifact{
		"attempts": {attempts}, "measurement": {doc}, "grades": {graded.artifacts["grades.jsonl"]},
	})
	return l, p, f
}

// A cell is what the tests read of a serving cell.
type servingCell struct {
	RunID        string  `json:"run_id"`
	Status       string  `json:"status"`
	EvidenceMode string  `json:"evidence_mode"`
	CompletedAt  *string `json:"completed_at"`
	Deployment   struct {
		ID, Model, Profile, Revision string
		WeightsVerified              bool `json:"weights_verified"`
		NodeCount                    *int `json:"node_count"`
	} `json:"deployment"`
	Performance struct {
		Target     int    `json:"target_input_tokens"`
		Limit      int    `json:"client_concurrency_limit"`
		Peak       *int   `json:"observed_peak_inflight"`
		Transport  int    `json:"transport_successes"`
		Accounting string `json:"token_accounting"`
		Least      *int64 `json:"actual_input_tokens_min"`
	} `json:"performance"`
	Counts struct {
		Declared int            `json:"declared"`
		Outcomes map[string]int `json:"outcomes"`
		Primary  int            `json:"primary_passes"`
	} `json:"counts"`
	Metrics []struct {
		ID      string   `json:"id"`
		Value   *float64 `json:"value"`
		Samples int      `json:"samples"`
	} `json:"metrics"`
	Limitations []string `json:"limitations"`
}

func readServingCell(t *testing.T, p published) (c servingCell) {
	t.Helper()
	doc, ok := p.raw["serving-cell.json"]
	if !ok {
		t.Fatalf("no serving-cell.json; findings %+v", p.findings)
	}
	report := record.CheckReader("serving-cell.json", bytes.NewReader(doc), record.Options{})
	if report.Status != "ok" {
		t.Errorf("status %s: %+v", report.Status, report.Problems)
	}
	if err := json.Unmarshal(doc, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestServingCellKeepsEveryRequestInTheDenominator(t *testing.T) {
	_, p, f := servingLab(t, nil)
	c := readServingCell(t, p)
	if n := c.Counts; n.Declared != 8 || n.Outcomes["pass"] != 6 || n.Outcomes["fail"] != 1 || n.Outcomes["error"] != 1 || n.Primary != 6 {
		t.Errorf("counts %+v, want 6 pass, 1 fail, 1 error of 8", n)
	}
	if c.Status != "invalid" || c.CompletedAt == nil {
		t.Errorf("status %s with a request that was refused, want invalid", c.Status)
	}
	if d := c.Deployment; d.ID != "lab-4k-c2" || d.Model != "Claimed 1" || d.Profile != "a pilot" || *d.NodeCount != 2 || d.WeightsVerified {
		t.Errorf("deployment %+v", d)
	}
	if q := c.Performance; q.Limit != 2 || q.Peak == nil || *q.Peak != 2 || q.Transport != 7 || q.Target != 100 || q.Accounting != "unknown" {
		t.Errorf("performance %+v", q)
	}
	for _, m := range c.Metrics {
		switch {
		case m.ID == "completion_throughput_tps" && (m.Value != nil || m.Samples != 7):
			t.Errorf("throughput %v of %d samples: a refused request has no usage", m.Value, m.Samples)
		case m.ID == "batch_duration_seconds" && *m.Value != 4:
			t.Errorf("batch of %v s, want 4", *m.Value)
		case m.ID == "stream_chunk_interval_median_ms" && *m.Value != 20:
			t.Errorf("interval %v ms, want 20", *m.Value)
		}
	}
	fixed := record.ServingCellLimitations()
	if len(c.Limitations) != len(fixed)+len(f.Limitations) || !slices.Equal(c.Limitations[:8], fixed) {
		t.Errorf("%d limitations, want the 8 fixed ones and the record's %d", len(c.Limitations), len(f.Limitations))
	}
}

func TestServingCellIsCompletedWhenAllWasGraded(t *testing.T) {
	_, p, _ := servingLab(t, func(_ map[string]any, rows []record.Attempt) {
		for i := range rows {
			if rows[i].Index == 6 {
				text := `{"owner": "Mara", "limit": 6}`
				rows[i] = answered(6, "case-06", text, 3000*ms, 7)
			}
		}
	})
	c := readServingCell(t, p)
	if c.Status != "completed" || c.EvidenceMode != "actual_inference" || c.Counts.Primary != 7 {
		t.Errorf("%+v", c)
	}
	tokens := 5 + 6 + 7 + 8 + 9 + 10 + 7 + 12
	if m := c.Metrics[0]; m.Value == nil || *m.Value != float64(tokens)/4 {
		t.Errorf("throughput %v, want %d tokens in 4 s", m.Value, tokens)
	}
}

// A request that was begun and lacks its usage may have made tokens; one that
// never began made none.
func TestOnlyRequestsThatBeganCanLackUsage(t *testing.T) {
	for outcome, known := range map[record.Outcome]bool{record.OutcomeClientAbort: false, record.OutcomeClientShed: true, record.OutcomeNotStarted: true} {
		_, p, _ := servingLab(t, func(_ map[string]any, rows []record.Attempt) {
			for i := range rows {
				if rows[i].Index == 6 {
					rows[i] = failed(6, "case-06", 3000*ms, outcome)
					if known {
						rows[i].T = record.Stamps{Due: rows[i].T.Due}
					}
				}
			}
		})
		c := readServingCell(t, p)
		if got := c.Metrics[0].Value != nil; got != known || c.Metrics[0].Samples != 7 {
			t.Errorf("%s: a throughput is stated: %v, of %d samples", outcome, got, c.Metrics[0].Samples)
		}
		if got := c.Performance.Least != nil; got != known {
			t.Errorf("%s: input tokens are stated: %v", outcome, got)
		}
	}
}

func TestAnswersOfAnotherModelAreUnverified(t *testing.T) {
	_, p, _ := servingLab(t, func(_ map[string]any, rows []record.Attempt) {
		for i := range rows {
			rows[i].Model = new("another")
		}
	})
	if c := readServingCell(t, p); c.Counts.Primary != 0 || c.Counts.Outcomes["pass"] != 6 {
		t.Errorf("counts %+v, want no primary pass", c.Counts)
	}
}

func TestUngradedAnswersAreNeitherRightNorWrong(t *testing.T) {
	l := newLab(t)
	rows, _ := goldenRows()
	attempts := l.attempts("measure", header(len(rows)), rows, userStamps)
	p, _ := l.summarize(map[string]any{"serving_cell": map[string]any{"public_id": "x", "suite_version": "y", "target_input_tokens": 128}},
		map[string][]stage.Artifact{"attempts": {attempts}})
	c := readServingCell(t, p)
	if c.Counts.Outcomes["error"] != 8 || c.Performance.Transport != 7 || c.Performance.Target != 128 || c.Status != "invalid" {
		t.Errorf("%+v", c)
	}
}

func TestWhatTheEvidenceForbidsIsWithheldAndSaid(t *testing.T) {
	twice := func(_ map[string]any, rows []record.Attempt) { rows[1].PromptSHA256 = rows[0].PromptSHA256 }
	source := func(c map[string]any, _ []record.Attempt) {
		c["deployment"].(map[string]any)["source_url"] = "https://elsewhere.example/x"
	}
	summary := func(c map[string]any, _ []record.Attempt) {
		c["derived_summary"] = map[string]any{"cache_caveat": "cold"}
	}
	for why, c := range map[string]struct {
		change func(map[string]any, []record.Attempt)
		name   string
	}{"send one prompt": {twice, "serving-cell.json"}, "huggingface.co": {source, "serving-cell.json"}, "no benchmark record": {summary, "derived-summary.json"}} {
		_, p, f := servingLab(t, c.change)
		if _, ok := p.raw[c.name]; ok || len(p.findings) != 1 || !strings.Contains(p.findings[0].Text, why) {
			t.Errorf("%s: written %v, findings %+v", why, ok, p.findings)
		}
		if !slices.ContainsFunc(f.NotComputed, func(n record.NotComputed) bool { return n.What == c.name && strings.Contains(n.Reason, why) }) {
			t.Errorf("%s: the record does not say it: %+v", why, f.NotComputed)
		}
	}
}

// benchmarkLab has a benchmark record of the newest shape beside its attempts.
func benchmarkLab(t *testing.T) (*lab, published, stage.Artifact) {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("..", "..", "testdata", "seeds", "benchmark-v1.json"))
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t)
	rows, _ := goldenRows()
	attempts := l.attempts("measure", header(len(rows)), rows, userStamps)
	benchmark := l.artifact("measure", "benchmark.json", record.BenchmarkSchema, src, attempts.LimitationSet())
	p, _ := l.summarize(map[string]any{
		"serving_cell":    map[string]any{"public_id": "x", "suite_version": "y"},
		"derived_summary": map[string]any{"cache_caveat": "The scout shared the seed."},
	}, map[string][]stage.Artifact{"attempts": {attempts}, "benchmark": {benchmark}})
	return l, p, benchmark
}

func TestDerivedSummaryAgreesWithItsSource(t *testing.T) {
	l, p, benchmark := benchmarkLab(t)
	dir := t.TempDir()
	summary := filepath.Join(dir, "derived-summary.json")
	for path, doc := range map[string][]byte{summary: p.raw["derived-summary.json"], filepath.Join(dir, "benchmark.json"): l.objects[benchmark.SHA256]} {
		if err := os.WriteFile(path, doc, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	report := record.CheckFile(summary, record.Options{})
	if report.Status != "ok" {
		t.Errorf("status %s, problems %+v", report.Status, report.Problems)
	}
}

// validated runs the kind with what summarize wrote beside the record.
func (l *lab) validated(p published, beside ...stage.Artifact) record.Validation {
	l.t.Helper()
	rec := p.artifacts["record.json"]
	ports := map[string][]stage.Artifact{"record": {rec}}
	for _, a := range beside {
		ports[strings.ReplaceAll(strings.TrimSuffix(a.Name, ".json"), "-", "_")] = []stage.Artifact{a}
	}
	out, err := l.run(run{kind: validate.Kind, id: "validate", config: map[string]any{}, ports: ports, closures: map[string]stage.Closure{"record": l.closure(rec)}})
	if err != nil {
		l.t.Fatal(err)
	}
	var v record.Validation
	if err := json.Unmarshal(out.raw["validation.json"], &v); err != nil {
		l.t.Fatal(err)
	}
	return v
}

func TestDocumentsBesideTheRecordAreDerivedAgain(t *testing.T) {
	l, p, _ := servingAndSummary(t)
	cell, summary := p.artifacts["serving-cell.json"], p.artifacts["derived-summary.json"]
	v := l.validated(p, cell, summary)
	for _, problem := range v.Problems {
		t.Errorf("%s%s %s: %s", problem.Artifact, problem.Pointer, problem.Rule, problem.Text)
	}
	for _, name := range []string{"summarize/serving-cell.json", "summarize/derived-summary.json"} {
		if !slices.Contains(v.Rederived, name) {
			t.Errorf("%s was not derived again: %v", name, v.Rederived)
		}
	}
	forged := bytes.Replace(p.raw["serving-cell.json"], []byte(`"suite_version": "y"`), []byte(`"suite_version": "z"`), 1)
	v = l.validated(p, l.artifact(cell.Stage, cell.Name, cell.Schema, forged, cell.LimitationSet()))
	if !slices.ContainsFunc(v.Problems, func(q record.ValidationProblem) bool { return q.Rule == "rederive" && q.Pointer == "/suite_version" }) {
		t.Errorf("a changed serving cell passes: %+v", v.Problems)
	}
	// One of another stage stands beside nothing here.
	other := l.artifact("old", cell.Name, cell.Schema, forged, cell.LimitationSet())
	if v := l.validated(p, other); !v.OK {
		t.Errorf("a foreign serving cell: %+v", v.Problems)
	}
}

func servingAndSummary(t *testing.T) (*lab, published, stage.Artifact) {
	t.Helper()
	l, p, benchmark := benchmarkLab(t)
	for _, f := range derive.Formats() {
		if _, ok := p.raw[f.Name]; !ok {
			t.Fatalf("%s was not written: %+v", f.Name, p.findings)
		}
	}
	return l, p, benchmark
}

func TestWeightsAreVerifiedByTheirRevision(t *testing.T) {
	for _, c := range []struct {
		claimed, pinned any
		revision        string
		verified        bool
	}{
		{"r1", "r1", "r1", true},
		{"r1", nil, "r1", true},
		{nil, "r2", "r2", true},
		{"r1", "r2", "r1", false},
		{nil, nil, "", false},
	} {
		l := newLab(t)
		rows, _ := goldenRows()
		attempts := l.attempts("measure", header(len(rows)), rows, userStamps)
		sum := strings.Repeat("a", 64)
		weights := l.document("weights", "weights.json", "anvil.weights-verification/v1", map[string]any{
			"ok": true, "manifest_sha256": sum, "reference": map[string]any{"sha256": sum}, "revision": c.pinned, "replicas": []any{}, "bytes": 1,
		})
		p, _ := l.summarize(map[string]any{
			"serving_cell": map[string]any{"public_id": "x", "suite_version": "y"},
			"deployment":   map[string]any{"model": "m", "revision": c.claimed},
		}, map[string][]stage.Artifact{"attempts": {attempts}, "weights": {weights}})
		d := readServingCell(t, p).Deployment
		if d.WeightsVerified != c.verified || d.Revision != c.revision {
			t.Errorf("claimed %v, pinned %v: %q, verified %v", c.claimed, c.pinned, d.Revision, d.WeightsVerified)
		}
	}
}

// The last two columns of the table in streams.md 5.
func TestEveryOutcomeHasItsCase(t *testing.T) {
	type want struct {
		outcome  string
		answered int
	}
	table := map[record.Outcome]want{
		record.OutcomeOK: {"error", 1}, record.OutcomeTruncated: {"error", 1}, record.OutcomeEmpty: {"error", 1},
		record.OutcomeCanaryFailed: {"error", 1}, record.OutcomeLengthMismatch: {"error", 1},
		record.OutcomeInBandError: {"error", 0}, record.OutcomeMalformed: {"error", 0}, record.OutcomeCut: {"error", 0},
		record.OutcomeHTTPError: {"error", 0}, record.OutcomeRefusedLoad: {"error", 0}, record.OutcomeTransport: {"error", 0},
		record.OutcomeStalledFirst: {"timeout", 0}, record.OutcomeStalledMid: {"timeout", 0}, record.OutcomeTotalTimeout: {"timeout", 0},
		record.OutcomeClientShed: {"not_run", 0}, record.OutcomeClientAbort: {"not_run", 0}, record.OutcomeNotStarted: {"not_run", 0},
	}
	for _, o := range record.Outcomes() {
		l := newLab(t)
		rows := []record.Attempt{answered(0, "a", "x", 0, 3)}
		if o != record.OutcomeOK && o != record.OutcomeTruncated {
			rows = []record.Attempt{failed(0, "a", 0, o)}
		}
		rows[0].Outcome = o
		attempts := l.attempts("measure", header(1), rows, userStamps)
		p, _ := l.summarize(map[string]any{"serving_cell": map[string]any{"public_id": "x", "suite_version": "y", "target_input_tokens": 10}},
			map[string][]stage.Artifact{"attempts": {attempts}})
		c := readServingCell(t, p)
		if c.Counts.Outcomes[table[o].outcome] != 1 || c.Performance.Transport != table[o].answered {
			t.Errorf("%s: outcomes %v, %d answered, want %+v", o, c.Counts.Outcomes, c.Performance.Transport, table[o])
		}
	}
}
