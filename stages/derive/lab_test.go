package derive_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/schemas"

	"anvil/stages/derive"
	"anvil/stages/grade"
	"anvil/stages/record"
	"anvil/stages/summarize"
	"anvil/stages/validate"
)

// A lab runs kinds on artifacts in memory: as much of the executor as they see.
type lab struct {
	t       testing.TB
	objects map[digest.Digest][]byte
	made    map[digest.Digest]stage.Production
	files   map[string]string // that graders name, by pointer
}

func newLab(tb testing.TB) *lab {
	tb.Helper()
	return &lab{t: tb, objects: map[digest.Digest][]byte{}, made: map[digest.Digest]stage.Production{}}
}

// Open gives verified bytes, as the store does.
func (l *lab) Open(_ context.Context, d digest.Digest, size int64) (io.ReadCloser, error) {
	b, ok := l.objects[d]
	if !ok {
		return nil, fmt.Errorf("object %s is not here", d.Short())
	}
	return digest.Verify(io.NopCloser(bytes.NewReader(b)), d, size), nil
}

// artifact stores bytes under their digest.
func (l *lab) artifact(stageID, name string, schema schemas.ID, b []byte, set stage.LimitationSet) stage.Artifact {
	d := digest.FromBytes(b)
	l.objects[d] = b
	_, limits := set.Canonical()
	ref := stage.Ref{Schema: schema, SHA256: d, Size: int64(len(b)), Limitations: limits}
	return stage.NewArtifact(ref, stageID, name, l, set)
}

// document stores v as the executor writes documents.
func (l *lab) document(stageID, name string, schema schemas.ID, v any, limits ...stage.Limitation) stage.Artifact {
	l.t.Helper()
	set := stage.NewLimitationSet(limits...)
	b, err := stage.MarshalDocument(v, set)
	if err != nil {
		l.t.Fatal(err)
	}
	return l.artifact(stageID, name, schema, b, set)
}

// attempts stores attempts as measure writes them.
func (l *lab) attempts(stageID string, h record.AttemptsHeader, rows []record.Attempt, limits ...stage.Limitation) stage.Artifact {
	l.t.Helper()
	var b bytes.Buffer
	w, err := record.NewAttemptsWriter(&b, h)
	if err != nil {
		l.t.Fatal(err)
	}
	for i := range rows {
		if err := w.Write(&rows[i]); err != nil {
			l.t.Fatal(err)
		}
	}
	if err := w.Close("completed"); err != nil {
		l.t.Fatal(err)
	}
	return l.artifact(stageID, "attempts.jsonl.zst", record.AttemptsSchema, b.Bytes(), stage.NewLimitationSet(limits...))
}

// A run is one stage attempt as the executor does it.
type run struct {
	kind     stage.Kind
	id       string
	config   map[string]any
	ports    map[string][]stage.Artifact
	files    map[string]stage.Artifact
	closures map[string]stage.Closure
}

type published struct {
	artifacts map[string]stage.Artifact
	raw       map[string][]byte
	findings  []stage.Finding
	set       stage.LimitationSet
}

var labPlan = stage.PlanIdentity{Name: "lab", SHA256: digest.FromBytes([]byte("plan")), ResolvedSHA256: digest.FromBytes([]byte("resolved"))}

func (l *lab) run(r run) (published, error) {
	l.t.Helper()
	spec := r.kind.Spec()
	if err := schemas.Fill(spec.Config, r.config); err != nil {
		l.t.Fatal(err)
	}
	raw, err := json.Marshal(r.config)
	if err != nil {
		l.t.Fatal(err)
	}
	s, err := r.kind.New(raw)
	if err != nil {
		return published{}, err
	}
	streams := map[string]*stream{}
	out := stage.NewOutputs(spec, func(name string, _ schemas.ID) (io.WriteCloser, error) {
		streams[name] = &stream{}
		return streams[name], nil
	})
	env := stage.Env{Plan: labPlan, Stage: r.id}
	if err := s.Run(l.t.Context(), env, stage.NewInputs(r.ports, r.files, r.closures), out); err != nil {
		return published{}, err
	}
	return l.publish(r, raw, out.Collect(), streams), nil
}

type stream struct {
	bytes.Buffer
	closed bool
}

func (s *stream) Close() error { s.closed = true; return nil }

func (l *lab) publish(r run, raw []byte, c stage.Collected, streams map[string]*stream) published {
	l.t.Helper()
	var set stage.LimitationSet
	inputs := map[string][]stage.Artifact{}
	for port, as := range r.ports {
		inputs[port] = as
		for _, a := range as {
			set = set.Union(a.LimitationSet())
		}
	}
	for pointer, a := range r.files {
		inputs["with."+pointer] = []stage.Artifact{a}
	}
	for _, lim := range c.Limitations {
		if lim.Origin != stage.OriginPlan {
			lim.Origin = r.id
		}
		set = set.Union(stage.NewLimitationSet(lim))
	}
	p := published{artifacts: map[string]stage.Artifact{}, raw: map[string][]byte{}, findings: c.Findings, set: set}
	for name, s := range streams {
		if !s.closed {
			l.t.Errorf("%s was not closed", name)
		}
		p.raw[name] = s.Bytes()
	}
	for name, build := range c.Documents {
		b, err := build(set)
		if err != nil {
			l.t.Fatalf("build %s: %v", name, err)
		}
		l.checkSchema(c.Schemas[name], b)
		p.raw[name] = b
	}
	// What enters the key: the configuration less its files.
	var config map[string]any
	if err := json.Unmarshal(raw, &config); err != nil {
		l.t.Fatal(err)
	}
	delete(config, "dataset")
	keyed, err := json.Marshal(config)
	if err != nil {
		l.t.Fatal(err)
	}
	for name, b := range p.raw {
		a := l.artifact(r.id, name, c.Schemas[name], b, set)
		p.artifacts[name] = a
		l.made[a.SHA256] = stage.Production{Stage: r.id, Kind: r.kind.Spec().Name, Contract: r.kind.Spec().Contract, Config: keyed, Inputs: inputs, Raised: set}
	}
	return p
}

func (l *lab) checkSchema(id schemas.ID, b []byte) {
	l.t.Helper()
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		l.t.Fatal(err)
	}
	if err := schemas.Check(id, v); err != nil {
		l.t.Errorf("%s: %v", id, err)
	}
}

// closure follows the inputs of an artifact, as the executor's does.
type closure struct {
	all  []stage.Artifact
	made map[digest.Digest]stage.Production
}

func (l *lab) closure(a stage.Artifact) *closure {
	c := &closure{made: map[digest.Digest]stage.Production{}}
	var follow func(digest.Digest)
	follow = func(d digest.Digest) {
		p, ok := l.made[d]
		if !ok {
			return
		}
		c.made[d] = p
		for _, port := range slices.Sorted(maps.Keys(p.Inputs)) {
			for _, in := range p.Inputs[port] {
				if _, seen := c.Get(in.SHA256); !seen {
					c.all = append(c.all, in)
					follow(in.SHA256)
				}
			}
		}
	}
	follow(a.SHA256)
	return c
}

func (c *closure) All() iter.Seq[stage.Artifact] { return slices.Values(c.all) }
func (c *closure) Absent() []stage.Ref           { return nil }

func (c *closure) Get(d digest.Digest) (stage.Artifact, bool) {
	i := slices.IndexFunc(c.all, func(a stage.Artifact) bool { return a.SHA256 == d })
	if i < 0 {
		return stage.Artifact{}, false
	}
	return c.all[i], true
}

func (c *closure) Made(d digest.Digest) (stage.Production, bool) {
	p, ok := c.made[d]
	return p, ok
}

// The stages that most tests go through.

func (l *lab) grade(attempts stage.Artifact, dataset string, config map[string]any) (published, error) {
	data := l.artifact("", "dataset.jsonl", "anvil.dataset/v1", []byte(dataset), stage.LimitationSet{})
	config["dataset"] = "dataset.jsonl"
	if config["reducer"] == nil {
		config["reducer"] = "none"
	}
	files := map[string]stage.Artifact{"/dataset": data}
	for pointer, content := range l.files {
		files[pointer] = l.artifact("", "file.json", "", []byte(content), stage.LimitationSet{})
	}
	id := "grade" + strings.TrimPrefix(attempts.Stage, "measure")
	return l.run(run{kind: grade.Kind, id: id, config: config, ports: map[string][]stage.Artifact{"attempts": {attempts}}, files: files})
}

func (l *lab) summarize(config map[string]any, ports map[string][]stage.Artifact) (published, record.Final) {
	l.t.Helper()
	for key, v := range map[string]any{
		"name": "lab", "deployment": map[string]any{"model": "claimed"}, "conditions": []any{}, "limitations": []any{},
		"objectives": map[string]any{"ttft_ms": nil, "tpot_ms": nil, "e2e_ms": nil}, "bootstrap": map[string]any{"seed": 1},
	} {
		if config[key] == nil {
			config[key] = v
		}
	}
	p, err := l.run(run{kind: summarize.Kind, id: "summarize", config: config, ports: ports})
	if err != nil {
		l.t.Fatalf("summarize: %v", err)
	}
	var f record.Final
	if err := json.Unmarshal(p.raw["record.json"], &f); err != nil {
		l.t.Fatal(err)
	}
	return p, f
}

func (l *lab) validate(rec stage.Artifact) record.Validation {
	l.t.Helper()
	p, err := l.run(run{
		kind: validate.Kind, id: "validate", config: map[string]any{},
		ports: map[string][]stage.Artifact{"record": {rec}}, closures: map[string]stage.Closure{"record": l.closure(rec)},
	})
	if err != nil {
		l.t.Fatalf("validate: %v", err)
	}
	var v record.Validation
	if err := json.Unmarshal(p.raw["validation.json"], &v); err != nil {
		l.t.Fatal(err)
	}
	if (len(p.findings) > 0) != (v.Level < 3) {
		l.t.Errorf("level %d gave findings %v", v.Level, p.findings)
	}
	return v
}

// Attempts.

const ms = int64(1e6)

// answered is a request that began at start and had a token every 20 ms after
// a first one at 200 ms.
func answered(index int, item, text string, start int64, tokens int64) record.Attempt {
	a := record.Attempt{
		Index: index, Client: "c0", Item: &item, PromptSHA256: digest.FromBytes([]byte(item)), MaxOutputTokens: 64,
		Outcome: record.OutcomeOK, FinishReasons: []string{"stop"}, DoneMarker: true, Model: new("m"),
		Usage: record.Usage{Input: new(int64(100)), Output: &tokens, Cached: new(int64(25)), Source: "final"},
		Text:  &text, TextSHA256: digest.FromBytes([]byte(text)), Choices: 1,
	}
	if item == "" {
		a.Item = nil
	}
	first := start + 200*ms
	last := first + (tokens-1)*20*ms
	a.T = record.Stamps{
		Due: new(start), Start: new(start + ms), Sent: new(start + ms), Written: new(start + 2*ms), Headers: new(first), FirstByte: new(first),
		FirstOutput: new(first), FirstContent: new(first), LastOutput: new(last), End: new(last + ms),
	}
	for i := range tokens {
		arrival := 20 * ms
		if i == 0 {
			arrival = first
		}
		a.Arrivals = append(a.Arrivals, arrival)
		a.ArrivalKinds += "c"
		a.Coalesced += "0"
		a.SeenEmpty = append(a.SeenEmpty, nil)
	}
	return a
}

// failed is a request that came to nothing.
func failed(index int, item string, start int64, outcome record.Outcome) record.Attempt {
	a := record.Attempt{
		Index: index, Client: "c0", Item: &item, PromptSHA256: digest.FromBytes([]byte(item)), MaxOutputTokens: 64,
		Outcome: outcome, Error: &record.AttemptError{Class: string(outcome), Message: "no"},
		Usage: record.Usage{Source: "none", Reason: new("no answer")}, TextSHA256: digest.FromBytes(nil),
	}
	a.T = record.Stamps{Due: new(start), Start: new(start), End: new(start + 3*ms)}
	return a
}

func header(planned int) record.AttemptsHeader {
	return record.AttemptsHeader{
		Client: "c0", Cell: map[string]any{}, Endpoint: record.AttemptsEndpoint{API: "openai-chat", Model: "m", BaseURL: new("http://127.0.0.1:9/v1")},
		Load: map[string]any{"mode": "closed", "concurrency": 2}, Planned: &planned, Stamps: "user",
		Clock: record.AttemptsClock{WallStartAt: "2026-01-02T03:04:05.000000006Z", WallStartUnixNS: 1767323045000000006}, Seed: 7,
		Request: record.AttemptsRequest{
			Protocol: "capacity-v4-reasoning", MaxTokens: 64, Workload: map[string]any{"source": "dataset", "file": "d.jsonl"},
			Sampling: map[string]any{"temperature": 0},
		},
	}
}

func measurement(wallMS float64, rows []record.Attempt) record.Measurement {
	m := record.Measurement{
		Schema: record.MeasurementSchema,
		Phase: record.Phase{
			Status: "completed", WallClockMS: wallMS, StartedAt: "2026-01-02T03:04:05.000000006Z", FinishedAt: "2026-01-02T03:04:15.000000006Z",
			StartedAtUnixNS: 1767323045000000006, FinishedAtUnixNS: 1767323055000000006,
		},
		Tool:        stage.Tool{Version: "test", RevisionReason: new("a test"), BinarySHA256: digest.FromBytes([]byte("tool"))},
		Client:      record.MeasurementClient{Verdict: "ok"},
		Connections: record.Connections{Opened: 2, Protocol: "HTTP/1.1"},
		Cache:       record.CacheFacts{State: "unknown", Reset: "off"}, Sequence: "cold",
		Accounting: record.Accounting{Planned: len(rows), Outcomes: map[record.Outcome]int{}},
	}
	for _, a := range rows {
		m.Accounting.Outcomes[a.Outcome]++
	}
	return m
}

// find returns the metric of that id.
func find(tb testing.TB, ms []record.Metric, id string) record.Metric {
	tb.Helper()
	i := slices.IndexFunc(ms, func(m record.Metric) bool { return m.ID == id })
	if i < 0 {
		tb.Fatalf("there is no metric %s", id)
	}
	return ms[i]
}

func codes(ls []stage.Limitation) []string {
	var out []string
	for _, l := range ls {
		out = append(out, l.Code)
	}
	return out
}

var summarizeKind = summarize.Kind

func summarizeConfig() map[string]any {
	return map[string]any{
		"name": "lab", "deployment": map[string]any{}, "conditions": []any{}, "limitations": []any{},
		"objectives": map[string]any{"ttft_ms": nil, "tpot_ms": nil, "e2e_ms": nil}, "bootstrap": map[string]any{"seed": 1},
	}
}

var update = flag.Bool("update", false, "write golden files")

func validateWith(t *testing.T, rec stage.Artifact, c stage.Closure) record.Validation {
	t.Helper()
	v, err := derive.Validate(t.Context(), rec, c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
