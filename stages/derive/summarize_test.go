package derive_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"anvil/pipeline/stage"
	"anvil/stages/derive"
	"anvil/stages/record"
)

// golden is a small measured and graded cell: eight requests of which six
// answered, one cut at the cap with an answer and one refused.
func golden(tb testing.TB) (*lab, published, record.Final) {
	tb.Helper()
	l := newLab(tb)
	rows, dataset := goldenRows()
	m := measurement(4000, rows)
	attempts := l.attempts("measure", header(len(rows)), rows, userStamps)
	doc := l.document("measure", "measurement.json", record.MeasurementSchema, m, attempts.LimitationSet()...)
	graded, err := l.grade(attempts, dataset, map[string]any{"graders": []any{map[string]any{"id": "fields", "type": "evidence_fields"}}})
	if err != nil {
		tb.Fatal(err)
	}
	p, f := l.summarize(map[string]any{
		"conditions":  []any{map[string]any{"label": "Parsers", "value": "none"}},
		"limitations": []any{map[string]any{"code": "plan.stated", "severity": "caveat", "origin": "plan", "applies_to": []any{"*"}, "text": "A pilot."}},
		"objectives":  map[string]any{"ttft_ms": 250, "tpot_ms": nil, "e2e_ms": 400},
	}, map[string][]stage.Artifact{
		"attempts": {attempts}, "measurement": {doc}, "grades": {graded.artifacts["grades.jsonl"]},
	})
	return l, p, f
}

func goldenRows() ([]record.Attempt, string) {
	var rows []record.Attempt
	var dataset strings.Builder
	for i := range 8 {
		item := fmt.Sprintf("case-%02d", i)
		fmt.Fprintf(&dataset, `{"id":%q,"prompt":"p","expected":{"fields":{"owner":"Mara","limit":%d}},"tags":["t"]}`+"\n", item, i)
		text := fmt.Sprintf(`The record says {"owner": "mara", "limit": "%d.0"}.`, i)
		if i == 3 {
			text = `{"owner": "Otto", "limit": 3}`
		}
		rows = append(rows, answered(i, item, text, int64(i/2)*1000*ms, int64(5+i)))
	}
	rows[4].Outcome, rows[4].FinishReasons = record.OutcomeTruncated, []string{"length"}
	rows[6] = failed(6, "case-06", 3000*ms, record.OutcomeRefusedLoad)
	// In order of completion, which is not that of index.
	slices.SortFunc(rows, func(a, b record.Attempt) int { return int(*a.T.End - *b.T.End) })
	return rows, dataset.String()
}

func TestRecordAddsUp(t *testing.T) {
	_, _, f := golden(t)
	c := f.Cells[0]
	if got := c.Accounting; got.Planned != 8 || got.Outcomes["ok"] != 6 || got.Outcomes["truncated"] != 1 || got.Outcomes["refused_load"] != 1 {
		t.Errorf("accounting %+v", got)
	}
	sum := 0
	for _, n := range c.Accounting.Verdicts {
		sum += n
	}
	if sum != 8 || c.Accounting.Verdicts["pass"] != 6 || c.Accounting.Verdicts["fail"] != 1 || c.Accounting.Verdicts["unscorable"] != 1 {
		t.Errorf("verdicts %v, want 6 pass, 1 fail, 1 unscorable", c.Accounting.Verdicts)
	}
	for _, m := range c.Metrics {
		if m.Samples+m.Excluded != 8 {
			t.Errorf("%s: %d samples and %d excluded, want 8 in all", m.ID, m.Samples, m.Excluded)
		}
		if (m.Value == nil) != (m.Reason != nil) {
			t.Errorf("%s: value %v with reason %v", m.ID, m.Value, m.Reason)
		}
		if m.Interval == nil && m.IntervalReason == nil {
			t.Errorf("%s: no interval and no reason", m.ID)
		}
	}
	if len(c.Metrics) != len(derive.Metrics()) {
		t.Errorf("%d metrics, the closed list has %d", len(c.Metrics), len(derive.Metrics()))
	}
}

func TestFiguresOfKnownAttempts(t *testing.T) {
	_, _, f := golden(t)
	c := f.Cells[0]
	// Requests 0 to 7 but 6 have 5+i tokens, 20 ms apart, after 199 ms.
	for id, want := range map[string]float64{
		"ttft_p50_ms":                 199,
		"ttft_mean_ms":                199,
		"time_to_first_output_p50_ms": 199,
		"e2e_p50_ms":                  199 + 7*20 + 1, // the 4th of 4, 5, 6, 7, 8, 9, 11 gaps
		"e2e_min_ms":                  199 + 4*20 + 1,
		"e2e_max_ms":                  199 + 11*20 + 1,
		"response_latency_min_ms":     200 + 4*20 + 1,
		"send_lag_p50_ms":             1,
		"write_p50_ms":                1,
		"chunk_gap_p50_ms":            20,
		"output_tokens_total":         5 + 6 + 7 + 8 + 9 + 10 + 12,
		"error_rate":                  1.0 / 8,
		"truncated_share":             1.0 / 8,
		"cached_input_share":          0.25,
		"coalesced_share":             0,
		"in_flight_peak":              2,
		"duration_s":                  4,
		// Both objectives: ttft of all seven, e2e of those with at most 10 gaps.
		"goodput_per_s":      6 / 4.0,
		"goodput_ttft_per_s": 7 / 4.0,
	} {
		m := find(t, c.Metrics, id)
		if m.Value == nil {
			t.Errorf("%s is withheld: %s", id, *m.Reason)
		} else if math.Abs(*m.Value-want) > 1e-12*math.Abs(want) {
			t.Errorf("%s = %v, want %v", id, *m.Value, want)
		}
	}
	if m := find(t, c.Metrics, "chunk_gap_p50_ms"); m.Samples != 7 || *m.Observations != 50 {
		t.Errorf("chunk gaps: %d samples, %v observations, want 7 and 50", m.Samples, *m.Observations)
	}
}

func TestThroughputIsWithheldUnlessAllSucceeded(t *testing.T) {
	_, _, f := golden(t)
	for _, id := range []string{"output_tokens_per_s", "requests_per_s", "prompt_tokens_per_s"} {
		m := find(t, f.Cells[0].Metrics, id)
		if m.Value != nil || !strings.Contains(*m.Reason, "1 of 8") {
			t.Errorf("%s = %v, reason %v", id, m.Value, m.Reason)
		}
	}
}

func TestQuantilesAreWithheldBelowTheirNeed(t *testing.T) {
	for percent, want := range map[int]int{50: 5, 90: 29, 95: 59, 99: 299} {
		if got := derive.Need(percent); got != want {
			t.Errorf("Need(%d) = %d, want %d", percent, got, want)
		}
	}
	_, _, f := golden(t)
	m := find(t, f.Cells[0].Metrics, "e2e_p95_ms")
	if m.Value != nil || !strings.Contains(*m.Reason, "59") {
		t.Errorf("e2e_p95_ms = %v, reason %v, want it withheld below 59", m.Value, m.Reason)
	}
	i := slices.IndexFunc(f.Limitations, func(l stage.Limitation) bool { return l.Code == "samples.few" })
	if i < 0 || !slices.Contains(f.Limitations[i].AppliesTo, "e2e_p95_ms") || slices.Contains(f.Limitations[i].AppliesTo, "e2e_p50_ms") {
		t.Errorf("samples.few does not apply to e2e_p95_ms alone of the two")
	}
}

func TestRecordCarriesEveryLimitation(t *testing.T) {
	_, p, f := golden(t)
	want := []string{"outputs.truncated", "plan.stated", "requests.failed", "samples.few", "samples.one-repetition", "stamps.user-space", "weights.unverified"}
	if got := codes(f.Limitations); !slices.Equal(got, want) {
		t.Errorf("codes %v, want %v", got, want)
	}
	if _, sum := p.set.Canonical(); f.Count != len(p.set) || f.SetSHA256 != sum {
		t.Errorf("count %d and digest %s are not those of the set", f.Count, f.SetSHA256)
	}
	for _, l := range f.Limitations {
		if (l.Origin == stage.OriginPlan) != (l.Code == "plan.stated") {
			t.Errorf("%s has origin %s", l.Code, l.Origin)
		}
	}
}

func TestRecordIDIsThatOfItsBytes(t *testing.T) {
	_, p, f := golden(t)
	want, ok, err := record.CheckID(p.raw["record.json"])
	if err != nil || !ok {
		t.Fatalf("id %s, want %s (%v)", f.ID, want, err)
	}
	changed := strings.Replace(string(p.raw["record.json"]), `"completed"`, `"aborted"`, 1)
	if _, ok, _ := record.CheckID([]byte(changed)); ok {
		t.Error("a changed record still has its id")
	}
}

func TestSameInputsGiveTheSameBytes(t *testing.T) {
	_, a, _ := golden(t)
	_, b, _ := golden(t)
	if string(a.raw["record.json"]) != string(b.raw["record.json"]) {
		t.Error("two runs over equal inputs differ")
	}
}

func TestVoidWithholdsAMetric(t *testing.T) {
	l := newLab(t)
	rows, _ := goldenRows()
	void := stage.Limitation{Code: "clock.stepped", Severity: stage.Void, Origin: "measure", AppliesTo: []string{"e2e_p50_ms"}, Text: "x"}
	attempts := l.attempts("measure", header(len(rows)), rows, void)
	_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {attempts}})
	if m := find(t, f.Cells[0].Metrics, "e2e_p50_ms"); m.Value != nil || !strings.Contains(*m.Reason, "clock.stepped") {
		t.Errorf("e2e_p50_ms = %v, reason %v", m.Value, m.Reason)
	}
	if m := find(t, f.Cells[0].Metrics, "e2e_mean_ms"); m.Value == nil {
		t.Error("a void limitation of e2e_p50_ms withheld e2e_mean_ms too")
	}
}

func TestVoidOfOneCellLeavesTheOthers(t *testing.T) {
	l := newLab(t)
	ports := map[string][]stage.Artifact{}
	for i, id := range []string{"measure[rep=1]", "measure[rep=2]"} {
		rows, _ := goldenRows()
		h := header(len(rows))
		h.Cell = map[string]any{"rep": i + 1}
		var limits []stage.Limitation
		if i == 0 {
			limits = append(limits, stage.Limitation{Code: "clock.stepped", Severity: stage.Void, Origin: id, AppliesTo: []string{"*"}, Text: "x"})
		}
		ports["attempts"] = append(ports["attempts"], l.attempts(id, h, rows, limits...))
	}
	_, f := l.summarize(map[string]any{}, ports)
	if find(t, f.Cells[0].Metrics, "e2e_p50_ms").Value != nil || find(t, f.Cells[1].Metrics, "e2e_p50_ms").Value == nil {
		t.Error("the void limitation of the first cell withholds in the wrong cells")
	}
	if len(f.Groups) != 1 || !slices.Equal(f.Groups[0].Cells, []string{"measure[rep=1]", "measure[rep=2]"}) {
		t.Fatalf("groups %+v", f.Groups)
	}
	for _, m := range f.Groups[0].Metrics {
		if m.ID == "e2e_p50_ms" && (m.Value != nil || m.Samples != 1 || m.Excluded != 1) {
			t.Errorf("group %s = %v of %d: a repetition that cannot state it must withhold it", m.ID, m.Value, m.Samples)
		}
	}
	if slices.Contains(codes(f.Limitations), "samples.one-repetition") {
		t.Error("two repetitions carry samples.one-repetition")
	}
}

func TestWithoutGradesVerdictsAreNullWithTheReason(t *testing.T) {
	l := newLab(t)
	rows, _ := goldenRows()
	_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {l.attempts("measure", header(8), rows)}})
	c := f.Cells[0]
	if c.Accounting.Verdicts != nil || c.Correctness != nil || *c.CorrectnessReason != "not graded" || *c.Accounting.VerdictsReason != "not graded" {
		t.Errorf("accounting %+v, correctness %+v", c.Accounting, c.Correctness)
	}
}

func TestNothingSucceeded(t *testing.T) {
	l := newLab(t)
	var rows []record.Attempt
	for i := range 3 {
		rows = append(rows, failed(i, "x", int64(i)*ms, record.OutcomeTransport))
	}
	_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {l.attempts("measure", header(3), rows)}})
	for _, m := range f.Cells[0].Metrics {
		if m.Value != nil && *m.Value == 0 && m.Samples == 0 {
			t.Errorf("%s is 0 of no samples", m.ID)
		}
	}
	if m := find(t, f.Cells[0].Metrics, "error_rate"); *m.Value != 1 {
		t.Errorf("error_rate = %v, want 1", *m.Value)
	}
}

func TestNothingPlanned(t *testing.T) {
	l := newLab(t)
	_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {l.attempts("measure", header(0), nil)}})
	for _, m := range f.Cells[0].Metrics {
		if m.Value != nil {
			t.Errorf("%s = %v of nothing", m.ID, *m.Value)
		}
	}
}

func TestSimulatedEvidenceSaysSo(t *testing.T) {
	l := newLab(t)
	rows, _ := goldenRows()
	h := header(len(rows))
	h.Endpoint.BaseURL = nil
	_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {l.attempts("measure", h, rows)}})
	if f.EvidenceMode != "controlled" || !slices.Contains(codes(f.Limitations), "engine.simulated") {
		t.Errorf("evidence mode %s, limitations %v", f.EvidenceMode, codes(f.Limitations))
	}
}

func TestMissingAttemptsAreAnError(t *testing.T) {
	l := newLab(t)
	rows, _ := goldenRows()
	for name, h := range map[string]record.AttemptsHeader{"planned": header(9)} {
		_, err := l.run(run{kind: summarizeKind, id: "summarize", config: summarizeConfig(), ports: map[string][]stage.Artifact{"attempts": {l.attempts("measure", h, rows)}}})
		if err == nil || !strings.Contains(err.Error(), "9 planned requests") {
			t.Errorf("%s: %v", name, err)
		}
	}
	rows[0].Index = rows[1].Index
	_, err := l.run(run{kind: summarizeKind, id: "summarize", config: summarizeConfig(), ports: map[string][]stage.Artifact{"attempts": {l.attempts("measure", header(8), rows)}}})
	if err == nil || !strings.Contains(err.Error(), "index") {
		t.Errorf("an index that stands twice: %v", err)
	}
}

// userStamps is what measure raises when it has no kernel stamps.
var userStamps = func() stage.Limitation {
	l := stage.Limit("stamps.user-space")
	l.Origin = "measure"
	return l
}()

// Above one request in a hundred whose first output came together with later
// output the client was late, and the record says so once.
func TestSharedFirstOutputsRaiseClientLag(t *testing.T) {
	lag := func(limits ...stage.Limitation) []stage.Limitation {
		l := newLab(t)
		rows, _ := goldenRows()
		rows[0].Coalesced = "11" + rows[0].Coalesced[2:]
		_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {l.attempts("measure", header(8), rows, limits...)}})
		if m := find(t, f.Cells[0].Metrics, "ttft_mean_ms"); m.Samples != 6 || m.Excluded != 2 {
			t.Errorf("ttft of %d with %d excluded, want 6 and 2", m.Samples, m.Excluded)
		}
		return slices.DeleteFunc(f.Limitations, func(l stage.Limitation) bool { return l.Code != "client.lag" })
	}
	if got := lag(); len(got) != 1 || got[0].Origin != "summarize" || !strings.Contains(got[0].Text, "1 of 7") {
		t.Errorf("limitations %+v", got)
	}
	said := stage.Limit("client.lag", "why", "measured")
	said.Origin = "measure"
	if got := lag(said); len(got) != 1 || got[0].Origin != "measure" {
		t.Errorf("said twice: %+v", got)
	}
}
