package derive_test

import (
	"encoding/json"
	"slices"
	"testing"

	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// compared is the comparison of a cell whose header, rows and measurement may
// be changed.
func compared(t *testing.T, change func(h *record.AttemptsHeader, rows []record.Attempt, m map[string]any)) record.Comparison {
	t.Helper()
	l := newLab(t)
	rows := []record.Attempt{answered(0, "a", "x", 0, 5), answered(1, "b", "x", 1000*ms, 5), answered(2, "c", "x", 2000*ms, 5)}
	h := header(len(rows))
	src, err := json.Marshal(measurement(9000, rows))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(src, &m); err != nil {
		t.Fatal(err)
	}
	change(&h, rows, m)
	attempts := l.attempts("measure", h, rows, userStamps)
	doc := l.document("measure", "measurement.json", record.MeasurementSchema, m, attempts.LimitationSet()...)
	_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {attempts}, "measurement": {doc}})
	return f.Cells[0].Comparison
}

// records.md 7: the measuring contract is held equal.
func TestMeasuringContractIsACondition(t *testing.T) {
	for name, c := range map[string]struct {
		contract any
		want     any
	}{"not named: there was but one": {nil, 1.0}, "named": {2, 2.0}} {
		got := compared(t, func(_ *record.AttemptsHeader, _ []record.Attempt, m map[string]any) {
			if c.contract != nil {
				m["contract"] = c.contract
			}
		})
		if got.Conditions["contract"] != c.want || slices.Contains(got.Unknown, "contract") {
			t.Errorf("%s: contract %v, unknown %v, want %v", name, got.Conditions["contract"], got.Unknown, c.want)
		}
	}
	l := newLab(t)
	rows, _ := goldenRows()
	_, f := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {l.attempts("measure", header(len(rows)), rows)}})
	if got := f.Cells[0].Comparison; got.Conditions["contract"] != nil || !slices.Contains(got.Unknown, "contract") {
		t.Errorf("without a measurement: contract %v, unknown %v", got.Conditions["contract"], got.Unknown)
	}
}

// records.md 7 and 8, number 3: so is the cache share, as measured.
func TestMeasuredCacheShareIsACondition(t *testing.T) {
	cached := func(n *int64) record.Comparison {
		return compared(t, func(_ *record.AttemptsHeader, rows []record.Attempt, _ map[string]any) {
			for i := range rows {
				rows[i].Usage.Cached = n
			}
		})
	}
	for n, want := range map[int64]float64{0: 0, 63: 0.63, 95: 0.95} {
		if got := cached(&n); got.Conditions["cache.measured_share"] != want || slices.Contains(got.Unknown, "cache.measured_share") {
			t.Errorf("%d of 100 tokens: %v, unknown %v", n, got.Conditions["cache.measured_share"], got.Unknown)
		}
	}
	if got := cached(nil); got.Conditions["cache.measured_share"] != nil || !slices.Contains(got.Unknown, "cache.measured_share") {
		t.Errorf("a server that does not say: %v, unknown %v", got.Conditions["cache.measured_share"], got.Unknown)
	}
}

// Two traces under one name are two loads; one trace under two names is one.
func TestArrivalsOfAnOpenLoopAreACondition(t *testing.T) {
	const name = "load.arrivals_sha256"
	open := func(file string, change func([]record.Attempt)) record.Comparison {
		return compared(t, func(h *record.AttemptsHeader, rows []record.Attempt, _ map[string]any) {
			h.Load = map[string]any{"mode": "open", "arrival": "trace", "trace": map[string]any{"file": file, "format": "anvil", "speed": 1}}
			change(rows)
		})
	}
	same := func([]record.Attempt) {}
	one := open("a.jsonl", same)
	if one.Conditions[name] == nil || one.Conditions["load.trace.file"] != nil {
		t.Fatalf("conditions %v", one.Conditions)
	}
	if other := open("b.jsonl", same); other.Conditions[name] != one.Conditions[name] {
		t.Error("the name of the trace makes a difference")
	}
	later := func(rows []record.Attempt) { rows[1].T.Due = new(*rows[1].T.Due - ms) }
	if other := open("a.jsonl", later); other.Conditions[name] == one.Conditions[name] {
		t.Error("other arrivals make no difference")
	}
	again := func(rows []record.Attempt) {
		first := rows[1].T
		rows[1].Tries = []record.Try{{T: first, Outcome: record.OutcomeTransport}, {T: first, Outcome: record.OutcomeOK}}
		rows[1].T.Due = new(*first.Due + ms)
	}
	if other := open("a.jsonl", again); other.Conditions[name] != one.Conditions[name] {
		t.Error("a request that was tried again was due at another time")
	}
	lost := func(rows []record.Attempt) { rows[2].T.Due = nil }
	if other := open("a.jsonl", lost); other.Conditions[name] != nil || !slices.Contains(other.Unknown, name) {
		t.Errorf("an unknown arrival: %v, unknown %v", other.Conditions[name], other.Unknown)
	}
	if closed := compared(t, func(*record.AttemptsHeader, []record.Attempt, map[string]any) {}); slices.Contains(closed.Unknown, name) {
		t.Error("a closed loop has no arrivals to know")
	}
}
