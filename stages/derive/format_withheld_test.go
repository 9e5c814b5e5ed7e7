package derive_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// voidOf is a limitation of the measurement that withholds metrics.
func voidOf(ids ...string) stage.Limitation {
	return stage.Limitation{Code: "clock.stepped", Severity: stage.Void, Origin: "measure", AppliesTo: ids, Text: "The clock stepped."}
}

// voidedCell is a whole cell with a benchmark record beside it, under a void
// limitation.
func voidedCell(t *testing.T, void ...stage.Limitation) (published, record.Final) {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("..", "..", "testdata", "seeds", "benchmark-v1.json"))
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t)
	var rows []record.Attempt
	for i, item := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		rows = append(rows, answered(i, item, "x", int64(i)*1000*ms, int64(5+i)))
	}
	h := header(len(rows))
	h.Request.Workload = map[string]any{"source": "synthetic", "context_tokens": 64}
	attempts := l.attempts("measure", h, rows, append(void, userStamps)...)
	doc := l.document("measure", "measurement.json", record.MeasurementSchema, measurement(9000, rows), attempts.LimitationSet()...)
	benchmark := l.artifact("measure", "benchmark.json", record.BenchmarkSchema, src, attempts.LimitationSet())
	return l.summarize(map[string]any{
		"serving_cell": map[string]any{"public_id": "x", "suite_version": "y"}, "derived_summary": map[string]any{"cache_caveat": "cold"},
	}, map[string][]stage.Artifact{"attempts": {attempts}, "measurement": {doc}, "benchmark": {benchmark}})
}

func TestVoidWithholdsTheServingCellsTwinOfAMetric(t *testing.T) {
	all := []string{
		"completion_throughput_tps", "first_generated_median_ms", "first_final_content_median_ms", "completion_median_ms", "completion_p95_ms",
		"stream_chunk_interval_median_ms", "batch_duration_seconds",
	}
	for name, c := range map[string]struct {
		void []stage.Limitation
		want []string // ids that are null
	}{
		"nothing":           {nil, nil},
		"another metric":    {[]stage.Limitation{voidOf("error_rate")}, nil},
		"a caveat":          {[]stage.Limitation{{Code: "clock.stepped", Severity: stage.Caveat, Origin: "measure", AppliesTo: []string{"*"}, Text: "x"}}, nil},
		"throughput":        {[]stage.Limitation{voidOf("output_tokens_per_s")}, []string{"completion_throughput_tps"}},
		"first output":      {[]stage.Limitation{voidOf("time_to_first_output_p50_ms")}, []string{"first_generated_median_ms"}},
		"first content":     {[]stage.Limitation{voidOf("ttft_p50_ms")}, []string{"first_final_content_median_ms"}},
		"median completion": {[]stage.Limitation{voidOf("e2e_p50_ms")}, []string{"completion_median_ms", "completion_p95_ms"}}, // the durations say both
		"gaps":              {[]stage.Limitation{voidOf("chunk_gap_p50_ms")}, []string{"stream_chunk_interval_median_ms"}},
		"duration":          {[]stage.Limitation{voidOf("duration_s")}, []string{"batch_duration_seconds"}},
		"everything":        {[]stage.Limitation{voidOf("*")}, all},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := voidedCell(t, c.void...)
			cell := readServingCell(t, p)
			for _, m := range cell.Metrics {
				if null := m.Value == nil; null != slices.Contains(c.want, m.ID) {
					t.Errorf("%s = %v of %d samples", m.ID, m.Value, m.Samples)
				}
			}
			if name == "everything" && (cell.Performance.Peak != nil || bytes.Contains(p.raw["serving-cell.json"], []byte(`"actual_input_tokens_max": 1`))) {
				t.Errorf("performance %+v", cell.Performance)
			}
			if len(c.want) > 0 && !bytes.Contains(p.raw["serving-cell.json"], []byte("Withheld by limitation clock.stepped of measure")) {
				t.Error("no condition says why")
			}
		})
	}
}

func TestSummaryOfAWithheldFigureIsNotWritten(t *testing.T) {
	for _, id := range []string{"output_tokens_per_s", "ttft_p50_ms", "e2e_p50_ms", "ttft_mean_ms", "e2e_mean_ms", "tpot_mean_ms", "duration_s", "*"} {
		p, f := voidedCell(t, voidOf(id))
		if _, ok := p.raw["derived-summary.json"]; ok {
			t.Errorf("%s is withheld and the summary states it", id)
		}
		named := func(n record.NotComputed) bool {
			return n.What == "derived-summary.json" && strings.Contains(n.Reason, "clock.stepped of measure") && (id == "*" || strings.Contains(n.Reason, id))
		}
		if !slices.ContainsFunc(f.NotComputed, named) {
			t.Errorf("%s: the record does not say why: %+v", id, f.NotComputed)
		}
	}
	if p, _ := voidedCell(t, voidOf("e2e_p95_ms")); p.raw["derived-summary.json"] == nil {
		t.Error("a summary that copies nothing withheld is not written")
	}
}

// The set of an input that belongs to no cell reaches the record as well.
func TestVoidOfAnotherInputWithholdsTheSummary(t *testing.T) {
	l := newLab(t)
	src, err := os.ReadFile(filepath.Join("..", "..", "testdata", "seeds", "benchmark-v1.json"))
	if err != nil {
		t.Fatal(err)
	}
	rows, _ := goldenRows()
	attempts := l.attempts("measure", header(len(rows)), rows, userStamps)
	benchmark := l.artifact("measure", "benchmark.json", record.BenchmarkSchema, src, attempts.LimitationSet())
	void := voidOf("e2e_p50_ms")
	void.Origin = "scout"
	scout := l.document("scout", "scout.json", "anvil.scout/v1", map[string]any{"engine": map[string]any{"name": "e", "version": "1"}}, void)
	p, f := l.summarize(map[string]any{"derived_summary": map[string]any{"cache_caveat": "cold"}},
		map[string][]stage.Artifact{"attempts": {attempts}, "benchmark": {benchmark}, "scout": {scout}})
	if m := find(t, f.Cells[0].Metrics, "e2e_p50_ms"); m.Value != nil {
		t.Fatalf("the record states %v", *m.Value)
	}
	if p.raw["derived-summary.json"] != nil {
		t.Error("the summary states what the record withholds")
	}
}

func TestGateOfTheGradesWithholdsEveryThroughput(t *testing.T) {
	l := newLab(t)
	src, err := os.ReadFile(filepath.Join("..", "..", "testdata", "seeds", "benchmark-v1.json"))
	if err != nil {
		t.Fatal(err)
	}
	rows, dataset := goldenRows()
	for i := range rows {
		if rows[i].Index == 6 {
			rows[i] = answered(6, "case-06", "x", 3000*ms, 7)
		}
	}
	attempts := l.attempts("measure", header(len(rows)), rows, userStamps)
	doc := l.document("measure", "measurement.json", record.MeasurementSchema, measurement(4000, rows), attempts.LimitationSet()...)
	benchmark := l.artifact("measure", "benchmark.json", record.BenchmarkSchema, src, attempts.LimitationSet())
	graded, err := l.grade(attempts, dataset, map[string]any{
		"graders": []any{map[string]any{"id": "fields", "type": "evidence_fields"}},
		"gate":    map[string]any{"min_pass_rate": 0.99, "withhold_throughput": true},
	})
	if err != nil {
		t.Fatal(err)
	}
	p, f := l.summarize(map[string]any{
		"serving_cell": map[string]any{"public_id": "x", "suite_version": "y"}, "derived_summary": map[string]any{"cache_caveat": "cold"},
	}, map[string][]stage.Artifact{"attempts": {attempts}, "measurement": {doc}, "benchmark": {benchmark}, "grades": {graded.artifacts["grades.jsonl"]}})
	if m := find(t, f.Cells[0].Metrics, "output_tokens_per_s"); m.Value != nil {
		t.Fatalf("the record states %v", *m.Value)
	}
	for _, m := range readServingCell(t, p).Metrics {
		if m.ID == "completion_throughput_tps" && (m.Value != nil || m.Samples != 8) {
			t.Errorf("serving cell: throughput %v of %d", m.Value, m.Samples)
		}
	}
	if p.raw["derived-summary.json"] != nil || !slices.ContainsFunc(f.NotComputed, func(n record.NotComputed) bool {
		return n.What == "derived-summary.json" && strings.Contains(n.Reason, "gate of the grades")
	}) {
		t.Errorf("derived summary written or unsaid: %+v", f.NotComputed)
	}
}
