package derive_test

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/schemas"
	"anvil/stages/derive"
	"anvil/stages/internal/kindtest"
	"anvil/stages/measure"
	"anvil/stages/record"
)

// A measuredPhase is what the kind measure itself wrote, in a lab.
type measuredPhase struct {
	*lab
	artifacts map[string]stage.Artifact
}

var phaseSchemas = map[string]schemas.ID{
	"attempts.jsonl.zst": record.AttemptsSchema, "measurement.json": record.MeasurementSchema, "schedule.json": "anvil.schedule/v1",
	"benchmark.json": record.BenchmarkSchema, "live-http-run.json": record.LiveRunSchema,
}

var phasePorts = map[string]string{
	"attempts.jsonl.zst": "attempts", "measurement.json": "measurement", "schedule.json": "schedule", "benchmark.json": "benchmark", "live-http-run.json": "live",
}

func measured(t *testing.T, with map[string]any) measuredPhase {
	t.Helper()
	b := kindtest.New(t, measure.Kind, nil, with)
	b.Env.Plan, b.Env.Tool = labPlan, stage.Tool{Version: "1.2.3", RevisionReason: new("a test"), BinarySHA256: digest.FromBytes([]byte("tool"))}
	config, problems := b.Resolve()
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	out, err := b.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := measuredPhase{newLab(t), map[string]stage.Artifact{}}
	set := stage.NewLimitationSet(out.Raised...)
	made := stage.Production{Stage: "measure", Kind: "measure", Contract: measure.Kind.Spec().Contract, Config: config, Raised: set, Inputs: map[string][]stage.Artifact{}}
	for _, files := range []map[string][]byte{out.Documents, out.Streams} {
		for name, src := range files {
			a := p.artifact("measure", name, phaseSchemas[name], src, set)
			p.artifacts[name], p.made[a.SHA256] = a, made
		}
	}
	return p
}

// validated makes a record of the phase with one document replaced, as a forger
// would who also mends every digest, and validates it.
func (p measuredPhase) validated(name string, src []byte) record.Validation {
	p.t.Helper()
	ports := map[string][]stage.Artifact{}
	for have, a := range p.artifacts {
		if have == name && src != nil {
			forged := p.artifact(a.Stage, a.Name, a.Schema, src, a.LimitationSet())
			p.made[forged.SHA256] = p.made[a.SHA256]
			a = forged
		}
		ports[phasePorts[have]] = []stage.Artifact{a}
	}
	made, _ := p.summarize(map[string]any{"steady_state": false}, ports)
	return p.validate(made.artifacts["record.json"])
}

func closedPhase() map[string]any {
	return map[string]any{
		"load": map[string]any{"mode": "closed", "concurrency": 2, "requests": 4, "ramp": "10ms"}, "max_tokens": 6,
		"workload":        map[string]any{"source": "synthetic", "context_tokens": 64, "canaries": true, "response_words": 3},
		"sampling":        map[string]any{"top_p": 0.9, "reasoning_effort": "low"},
		"clock_domain_id": "rack-1", "cache": map[string]any{"state": "cold_engine"}, "objectives": map[string]any{"ttft_ms": 250},
	}
}

func openPhase() map[string]any {
	return map[string]any{
		"load":     map[string]any{"mode": "open", "arrival": "poisson", "rate": 200.0, "requests": 4},
		"workload": map[string]any{"source": "synthetic", "context_tokens": 64}, "max_tokens": 4, "objectives": map[string]any{"ttft_ms": 250},
	}
}

func TestAMeasuredPhaseIsDerivedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		with map[string]any
		want []string
	}{
		"closed": {closedPhase(), []string{"measure/benchmark.json", "measure/schedule.json", "summarize/record.json"}},
		"open":   {openPhase(), []string{"measure/live-http-run.json", "measure/schedule.json", "summarize/record.json"}},
		"closed, by time": {map[string]any{
			"load": map[string]any{"mode": "closed", "concurrency": 2, "duration": "60ms"}, "max_tokens": 4,
			"workload": map[string]any{"source": "synthetic", "context_tokens": map[string]any{"uniform": []int{32, 96}}},
		}, []string{"measure/benchmark.json", "measure/schedule.json", "summarize/record.json"}},
		"open, shed": {map[string]any{
			"load":     map[string]any{"mode": "open", "arrival": "burst", "rate": 400.0, "size": 4, "duration": "40ms", "max_in_flight": 1, "shed": true},
			"workload": map[string]any{"source": "synthetic", "context_tokens": 64}, "max_tokens": 8, "store_text": false,
		}, []string{"measure/live-http-run.json", "measure/schedule.json", "summarize/record.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := measured(t, c.with).validated("", nil)
			if !v.OK || !slices.Equal(v.Rederived, c.want) {
				t.Errorf("derived again %v, want %v; problems %+v", v.Rederived, c.want, v.Problems)
			}
		})
	}
}

// unwitnessed are, for each document of a phase, the members that nothing in the
// evidence determines, by the start of their pointers: what only the client or the
// server saw, and what the operator claims.
var unwitnessed = map[string]map[string]string{
	"schedule.json":      {},
	"benchmark.json":     {},
	"live-http-run.json": {},
	"measurement.json": {
		"/client/gc":                       "observed",
		"/client/scheduler":                "observed; a p99 above the limit makes the client bound",
		"/client/cpu":                      "observed; a share above the limit makes the client bound",
		"/client/limits/capture_waits":     "observed; one makes the client marginal",
		"/connections/replaced":            "observed",
		"/connections/reused":              "observed",
		"/connections/opened":              "observed; local_ports repeat it where the system tells of them",
		"/connections/protocol":            "observed",
		"/connections/tls":                 "observed",
		"/connections/compression/answers": "observed",
		"/connections/local_ports":         "observed; null where the system does not tell",
		"/counters":                        "of the server",
		"/phase/finished_at_unix_ns":       "its own clock, spelt again beside it",
		"/tokens":                          "of the server's tokenizer, which nothing here can ask",
		"/tool":                            "the client's own word; record and run state it too",
	},
}

func TestEveryScalarOfAPhaseIsWitnessed(t *testing.T) {
	for phase, with := range map[string]map[string]any{"closed": closedPhase(), "open": openPhase()} {
		p := measured(t, with)
		for name, a := range p.artifacts {
			if !strings.HasSuffix(name, ".json") {
				continue
			}
			t.Run(phase+"/"+name, func(t *testing.T) {
				p.t = t
				p.surviving(t, name, p.objects[a.SHA256])
			})
		}
	}
}

func (p measuredPhase) surviving(t *testing.T, name string, doc []byte) {
	t.Helper()
	seen := map[string]int{}
	changed, caught := 0, 0
	for _, m := range mutations(t, doc) {
		kind := digits.ReplaceAllString(m.pointer, "/#")
		if seen[kind]++; seen[kind] > 2 && !*every || strings.HasPrefix(m.pointer, "/limitations") {
			continue
		}
		changed++
		forged := slices.Concat(doc[:m.from], []byte(m.text), doc[m.to:])
		a := p.artifacts[name]
		if alone := p.artifact(a.Stage, name, a.Schema, forged, a.LimitationSet()); len(derive.CheckAlone(t.Context(), alone)) > 0 || !p.validated(name, forged).OK {
			caught++
			continue
		}
		explained := false
		for start := range unwitnessed[name] {
			explained = explained || m.pointer == start || strings.HasPrefix(m.pointer, start+"/")
		}
		if !explained {
			t.Errorf("%s: %s to %s survives", m.pointer, doc[m.from:m.to], m.text)
		}
	}
	t.Logf("%d scalars changed, %d caught", changed, caught)
}

// What a forger would rather say, each with the place at which it is named.
func TestForgedDocumentsOfAPhaseAreCaught(t *testing.T) {
	closed, open := measured(t, closedPhase()), measured(t, openPhase())
	for name, c := range map[string]struct {
		p       measuredPhase
		file    string
		from    string
		to      string
		pointer string
	}{
		"a real device":         {open, "live-http-run.json", `"device": "simulated"`, `"device": "H100"`, "/run_context/device"},
		"no word of simulation": {open, "live-http-run.json", `Simulated engine\. `, ``, "/limits"},
		"a kinder objective":    {open, "live-http-run.json", `"ttft_slo_ms": 250`, `"ttft_slo_ms": 251`, "/ttft_slo_ms"},
		"another plan":          {open, "live-http-run.json", `of plan lab`, `of plan other`, "/run_context/command"},
		"a real accelerator":    {closed, "benchmark.json", `none \(simulated\)`, `H100`, "/gpu"},
		"a real engine":         {closed, "benchmark.json", `anvil-sim 1\.2\.3`, `vllm`, "/engine"},
		"unasked canaries":      {closed, "benchmark.json", `"request_canaries": true`, `"request_canaries": false`, "/request_canaries"},
		"a closed loop":         {open, "schedule.json", `"mode": "open"`, `"mode": "closed"`, "/mode"},
		"fewer requests":        {open, "schedule.json", `"planned": 4`, `"planned": 3`, "/planned"},
		"other gaps":            {open, "schedule.json", `"mean_ns": `, `"mean_ns": 1`, "/gaps/mean_ns"},
		"no ramp":               {closed, "schedule.json", `5000000`, `0`, "/workers/1"},
		"a real engine said":    {closed, "measurement.json", `"simulated": true`, `"simulated": false`, "/simulated"},
		"a longer phase":        {open, "measurement.json", `"wall_clock_ms": `, `"wall_clock_ms": 1`, "/phase/wall_clock_ms"},
		"fewer lags":            {closed, "measurement.json", `"samples": 4`, `"samples": 3`, "/client/send_lag/samples"},
	} {
		t.Run(name, func(t *testing.T) {
			c.p.t = t
			doc := c.p.objects[c.p.artifacts[c.file].SHA256]
			forged := regexp.MustCompile(c.from).ReplaceAllLiteral(doc, []byte(c.to))
			if bytes.Equal(doc, forged) {
				t.Fatalf("%s does not say %s", c.file, c.from)
			}
			v := c.p.validated(c.file, forged)
			i := slices.IndexFunc(v.Problems, func(p record.ValidationProblem) bool {
				return p.Artifact == "measure/"+c.file && p.Pointer == c.pointer
			})
			if i < 0 || v.Level >= record.LevelRederived {
				t.Fatalf("level %d, problems %+v, want one at %s", v.Level, v.Problems, c.pointer)
			}
			if p := v.Problems[i]; p.Rule == "" || p.Stored == nil && p.Computed == nil {
				t.Errorf("it says neither what is stored nor what is computed: %+v", p)
			}
		})
	}
}

// A limitation that a phase must raise is missed also where every set agrees.
func TestALimitationThatThePhaseCallsForIsMissed(t *testing.T) {
	for _, code := range []string{"engine.simulated", "stamps.user-space", "client.uncalibrated", "samples.none"} {
		p := measured(t, openPhase())
		for name, a := range p.artifacts {
			set := slices.DeleteFunc(slices.Clone(a.LimitationSet()), func(l stage.Limitation) bool { return l.Code == code })
			src := p.objects[a.SHA256]
			if strings.Contains(string(a.Schema), "anvil.") && strings.HasSuffix(name, ".json") && a.Schema != record.LiveRunSchema {
				src = relimited(t, src, set)
			}
			made := p.made[a.SHA256]
			made.Raised = set
			forged := p.artifact(a.Stage, name, a.Schema, src, set)
			p.artifacts[name], p.made[forged.SHA256] = forged, made
		}
		v := p.validated("", nil)
		missed := slices.ContainsFunc(v.Problems, func(p record.ValidationProblem) bool { return p.Rule == "limitation-missing" && p.Computed == code })
		if missed != (code != "samples.none") {
			t.Errorf("%s: missed %v, problems %+v", code, missed, v.Problems)
		}
	}
}

// relimited is a document with another set.
func relimited(t *testing.T, src []byte, set stage.LimitationSet) []byte {
	t.Helper()
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(src, &doc); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	doc["limitations"] = raw
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A forged count of workers is named, and no room is made for them.
func TestALoadOfAbsurdManyWorkersIsAProblem(t *testing.T) {
	p := measured(t, closedPhase())
	doc := p.objects[p.artifacts["attempts.jsonl.zst"].SHA256]
	plain, err := record.Decompress(bytes.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	text, err := io.ReadAll(plain)
	if err != nil {
		t.Fatal(err)
	}
	forged := regexp.MustCompile(`"concurrency":[0-9]+`).ReplaceAll(text, []byte(`"concurrency":900000000000`))
	if bytes.Equal(text, forged) {
		t.Fatal("nothing was forged")
	}
	p.t = t
	v := p.validated("attempts.jsonl.zst", forged)
	if v.OK || !slices.ContainsFunc(v.Problems, func(x record.ValidationProblem) bool { return strings.Contains(x.Text, "900000000000 workers") }) {
		t.Errorf("problems %+v", v.Problems)
	}
}
