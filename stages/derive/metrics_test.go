package derive_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"anvil/pipeline/stage"
	"anvil/schemas"
	"anvil/stages/derive"
	"anvil/stages/record"
)

// In a cell where two of four failed the word count the benchmark record reads
// 1.0, being of the completed requests (records.md 2.5).
func TestWordAdherenceIsSharedOverThePlan(t *testing.T) {
	checked := func(exact *bool) *record.ControlledOutput {
		return &record.ControlledOutput{Policy: "strict", RequestedWords: 8, ObservedCodeWords: 8, CaptureComplete: exact != nil, ExactAdherence: exact, Passed: true}
	}
	cell := func(change func([]record.Attempt, map[string]any)) record.Metric {
		l := newLab(t)
		rows := []record.Attempt{answered(0, "a", "x", 0, 5), answered(1, "b", "x", 0, 5), answered(2, "c", "x", 0, 5), failed(3, "d", 0, record.OutcomeCut)}
		h := header(len(rows))
		workload := map[string]any{"source": "synthetic", "context_tokens": 64, "response_words": 8}
		change(rows, workload)
		h.Request.Workload = workload
		_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {l.attempts("measure", h, rows, userStamps)}})
		return find(t, f.Cells[0].Metrics, "controlled_output_exact_share")
	}
	share := func(want float64) func(*testing.T, record.Metric) {
		return func(t *testing.T, m record.Metric) {
			t.Helper()
			if m.Value == nil || *m.Value != want || m.Samples != 4 || m.Excluded != 0 {
				t.Errorf("%+v, want %v of 4 planned", m, want)
			}
		}
	}
	for name, c := range map[string]struct {
		change func([]record.Attempt, map[string]any)
		check  func(*testing.T, record.Metric)
	}{
		"two of the completed three": {func(rows []record.Attempt, _ map[string]any) {
			rows[0].ControlledOutput, rows[1].ControlledOutput, rows[2].ControlledOutput = checked(new(true)), checked(new(true)), checked(new(false))
		}, share(0.5)},
		"what could not be captured adheres to nothing": {func(rows []record.Attempt, _ map[string]any) {
			rows[0].ControlledOutput, rows[1].ControlledOutput = checked(new(true)), checked(nil)
		}, share(0.25)},
		"exact words of a failed request": {func(rows []record.Attempt, _ map[string]any) {
			rows[0].ControlledOutput, rows[3].ControlledOutput = checked(new(true)), checked(new(true))
		}, share(0.25)},
		"asked for and never answered": {func([]record.Attempt, map[string]any) {}, share(0)},
		"not asked for": {func(_ []record.Attempt, w map[string]any) { w["response_words"] = 0 }, func(t *testing.T, m record.Metric) {
			t.Helper()
			if m.Value != nil || !strings.Contains(*m.Reason, "requested") {
				t.Errorf("%+v, want null with its reason", m)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) { c.check(t, cell(c.change)) })
	}
}

// The schema of the record lists every metric, once; a group's metric is the
// same with texts of its own.
func TestSchemaOfTheRecordListsTheMetricsOnce(t *testing.T) {
	src, err := schemas.Source(record.FinalSchema)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range derive.Metrics() {
		if n := bytes.Count(src, []byte(`"`+row.ID+`"`)); n != 1 {
			t.Errorf("%s stands there %d times", row.ID, n)
		}
	}
	if bytes.Contains(src, []byte(`"length_mismatch"`)) {
		t.Error("the outcomes are listed again; they are those of the attempts")
	}
	l := newLab(t)
	ports := map[string][]stage.Artifact{}
	for i, id := range []string{"measure[rep=1]", "measure[rep=2]"} {
		rows, _ := goldenRows()
		h := header(len(rows))
		h.Cell = map[string]any{"rep": i + 1}
		ports["attempts"] = append(ports["attempts"], l.attempts(id, h, rows))
	}
	p, _ := l.summarize(map[string]any{}, ports)
	for change, pointer := range map[[2]string]string{
		{`"method": "mean_of_cells"`, `"method": "mean"`}: "/groups/0/metrics/0/method",
		{}: "",
		{`"outcomes": {` + "\n", `"outcomes": {"lost": 1,` + "\n"}: "/cells/0/accounting/outcomes",
		{`"outcome": "ok"`, `"outcome": "lost"`}:                   "/cells/0/cases/0/outcome",
		{`"id": "ttft_p50_ms"`, `"id": "ttft_p51_ms"`}:             "/cells/0/metrics",
	} {
		dec := json.NewDecoder(bytes.NewReader(bytes.Replace(p.raw["record.json"], []byte(change[0]), []byte(change[1]), 1)))
		dec.UseNumber()
		var doc any
		if err := dec.Decode(&doc); err != nil {
			t.Fatal(err)
		}
		vs, err := schemas.Validate(record.FinalSchema, doc)
		if err != nil {
			t.Fatal(err)
		}
		if pointer == "" && len(vs) > 0 || pointer != "" && (len(vs) == 0 || !strings.HasPrefix(vs[0].Pointer, pointer)) {
			t.Errorf("%s: %v, want a violation at %q", change[1], vs, pointer)
		}
	}
}

// The live run divides by what it states, the last end in three decimals; the
// record by the wall clock of the phase. The two are not one figure.
func TestNoMetricIsNamedAsTheLiveRunsGoodput(t *testing.T) {
	for _, row := range derive.Metrics() {
		for _, s := range row.Seeds {
			if s.Schema == record.LiveRunSchema {
				t.Errorf("%s is said to equal %s of %s", row.ID, s.Name, s.Schema)
			}
		}
	}
}
