package derive_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/derive"
	"anvil/stages/record"
)

// followed is a record over attempts with a record of another producer's kind
// beside them, as measure writes it; change is made to the rows that the latter is
// of, which then agrees with itself and not with the attempts.
func followed(t *testing.T, closed, imported bool, change func([]record.Attempt, *record.Measurement)) record.Validation {
	t.Helper()
	rowsOf := func() []record.Attempt {
		rows, _ := goldenRows()
		for i := range rows {
			rows[i].PlannedInputTokens = new(100)
		}
		return rows
	}
	rows := rowsOf()
	l := newLab(t)
	h := header(len(rows))
	h.Request.Workload.(map[string]any)["seed"] = h.Seed
	name, schema := "benchmark.json", record.BenchmarkSchema
	if !closed {
		h.Load = map[string]any{"mode": "open", "arrival": "constant"}
		name, schema = "live-http-run.json", record.LiveRunSchema
	}
	attempts := l.attempts("measure", h, rows, userStamps)
	m := measurement(4000, rows)
	m.Phase.FinishedAtUnixNS = m.Phase.StartedAtUnixNS + 4000*ms
	doc := l.document("measure", "measurement.json", record.MeasurementSchema, m, attempts.LimitationSet()...)

	changed := rowsOf()
	change(changed, &m)
	var f record.Following
	for i := range changed {
		f.Add(&changed[i], closed)
	}
	var src []byte
	var err error
	if closed {
		src, err = record.BuildBenchmark(record.BenchmarkInput{
			Protocol: h.Request.Protocol, StartedUnixNS: m.Phase.StartedAtUnixNS, FinishUnixNS: m.Phase.FinishedAtUnixNS, WallClockMS: m.Phase.WallClockMS,
			BaseURL: *h.Endpoint.BaseURL, Model: "m", Concurrency: 2, ContextSeed: 7, MaxTokens: 64, ControlledOutputPolicy: "observe", PromptCacheMode: "unique",
			Temperature: record.SamplingInput{Effective: new(0.0)}, ThinkingMode: "default", Rows: f.Rows, Failures: f.Failures,
		})
	} else {
		src, err = record.BuildLiveRun(record.LiveRunInput{
			DurationS: float64(f.LastEnd) / 1e9, TTFTSLOMS: new(250.0), Requests: f.Requests(), ClientShed: f.Shed,
			Context: record.LiveContext{
				Model: "m", Command: new("anvil plan run: stage measure of plan lab"), Sources: []record.NamedDigest{{Name: "anvil", SHA256: digest.FromBytes([]byte("tool")).String()}},
				Scope: "One open-loop phase of one plan; the run's record says what may be concluded.",
			},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	other := l.artifact("measure", name, schema, src, attempts.LimitationSet())
	made := stage.Production{Stage: "measure", Kind: "measure", Contract: derive.MeasureContract, Config: followedConfig(t, h)}
	if l.made[attempts.SHA256] = made; !imported {
		l.made[other.SHA256] = made
	}
	port := map[bool]string{true: "benchmark", false: "live"}[closed]
	p, _ := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {attempts}, "measurement": {doc}, port: {other}})
	return l.validate(p.artifacts["record.json"])
}

// followedConfig is the configuration of a phase with that header.
func followedConfig(t *testing.T, h record.AttemptsHeader) json.RawMessage {
	t.Helper()
	workload := maps.Clone(h.Request.Workload.(map[string]any))
	delete(workload, "file")
	raw, err := json.Marshal(map[string]any{
		"protocol": h.Request.Protocol, "load": h.Load, "workload": workload,
		"objectives": map[string]any{"ttft_ms": 250}, "sampling": map[string]any{"thinking": "default"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestRecordsOfOtherKindsFollowFromTheAttempts(t *testing.T) {
	same := func([]record.Attempt, *record.Measurement) {}
	of := func(index int, change func(*record.Attempt)) func([]record.Attempt, *record.Measurement) {
		return func(rows []record.Attempt, _ *record.Measurement) {
			change(&rows[slices.IndexFunc(rows, func(a record.Attempt) bool { return a.Index == index })])
		}
	}
	const refused = 6
	for name, c := range map[string]struct {
		closed  bool
		change  func([]record.Attempt, *record.Measurement)
		pointer string // of a problem; "" for none
	}{
		"benchmark as measured": {true, same, ""},
		"live run as measured":  {false, same, ""},
		"a faster answer":       {true, of(0, func(a *record.Attempt) { a.T.End = new(*a.T.End - ms) }), "/request_timings/0/e2e_ms"},
		"an earlier first token": {true, of(0, func(a *record.Attempt) {
			a.T.FirstContent, a.T.FirstOutput = new(*a.T.FirstOutput-ms), new(*a.T.FirstOutput-ms)
		}), "/metrics/ttft_mean_ms"},
		"more tokens":            {true, of(0, func(a *record.Attempt) { a.Usage.Output = new(*a.Usage.Output + 1) }), "/request_timings/0/output_tokens"},
		"another share of cache": {true, of(0, func(a *record.Attempt) { a.Usage.Cached = new(int64(0)) }), "/metrics/prefix_cache_hit_avg"},
		"a failure made a success": {true, of(refused, func(a *record.Attempt) {
			start := *a.T.Start
			*a = answered(refused, "case-06", "x", start, 5)
			a.PlannedInputTokens = new(100)
		}), "/completed"},
		"another kind of failure": {true, of(refused, func(a *record.Attempt) { a.Outcome = record.OutcomeCut }), "/failures/0/failure_class"},
		"a shorter phase":         {true, func(_ []record.Attempt, m *record.Measurement) { m.Phase.WallClockMS = 3999.5 }, "/wall_clock_ms"},
		"another text":            {false, of(0, func(a *record.Attempt) { a.Text = new("y") }), "/requests/0/text"},
		"a faster live answer":    {false, of(0, func(a *record.Attempt) { a.T.FirstContent = new(*a.T.FirstContent - ms) }), "/requests/0/ttft_ms"},
		"a request left out":      {false, of(0, func(a *record.Attempt) { a.Outcome = record.OutcomeClientShed }), "/client_shed_requests"},
	} {
		t.Run(name, func(t *testing.T) {
			v := followed(t, c.closed, false, c.change)
			document := map[bool]string{true: "measure/benchmark.json", false: "measure/live-http-run.json"}[c.closed]
			if !slices.Contains(v.Rederived, document) {
				t.Fatalf("derived again %v, problems %+v", v.Rederived, v.Problems)
			}
			var at []string
			for _, p := range v.Problems {
				if p.Artifact != document || p.Rule != "rederive" {
					t.Errorf("%s%s %s: %s", p.Artifact, p.Pointer, p.Rule, p.Text)
				}
				at = append(at, p.Pointer)
			}
			if c.pointer == "" && len(at) > 0 || c.pointer != "" && (!slices.Contains(at, c.pointer) || v.Level != 2) {
				t.Errorf("problems at %s, level %d, want one at %q", strings.Join(at, " "), v.Level, c.pointer)
			}
		})
	}
}

// Of an imported record nothing says which attempts it is of.
func TestImportedRecordsFollowFromNothing(t *testing.T) {
	v := followed(t, true, true, func(rows []record.Attempt, _ *record.Measurement) { rows[0].T.End = new(*rows[0].T.End - ms) })
	if !v.OK || slices.Contains(v.Rederived, "measure/benchmark.json") {
		t.Errorf("derived again %v, problems %+v", v.Rederived, v.Problems)
	}
}
