package prov_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
	"anvil/schemas"
)

// A blueprint is a run to be written: what the executor would have done, with a
// place for a forger between each result and its publication.
type blueprint struct {
	nodes []node
	// forge may change a result before it is written; everything downstream is
	// then built on the changed one, so that all digests agree.
	forge func(i int, res *prov.Result)
	// document may change the limitations that a stage's document holds.
	document func(i int, set stage.LimitationSet) stage.LimitationSet
	// reference may change what a stage is told of an input.
	reference func(i, input int, in *prov.Input, set stage.LimitationSet) stage.LimitationSet
	manifest  func(m *prov.Manifest)
	lean      bool // the papers alone: no claims, logs, rows and readable copies
}

type node struct {
	id, kind string
	from     []int // nodes whose document it reads
	leaf     string
	raised   []stage.Limitation
	base     bool // executed by the base run and taken over
	record   bool // its document is a final record
}

// A built run with its store.
type built struct {
	workspace string
	store     *store.Store
	id        string
	dir       string
	results   []digest.Digest
}

const (
	baseRun = "demo-20261130T080000Z-aaaaaa"
	thisRun = "demo-20261130T090000Z-bbbbbb"
)

var began = time.Date(2026, 11, 30, 9, 0, 0, 123456789, time.UTC)

var tool = stage.Tool{Version: "0.1.0", RevisionReason: new("built without version control"), BinarySHA256: digest.FromBytes([]byte("binary"))}

var reused = stage.NewLimitationSet(stage.Limitation{
	Code: "run.reused-evidence", Severity: stage.Caveat, Origin: stage.OriginRun, AppliesTo: []string{"*"}, Text: "taken over",
})

type work struct {
	tb  testing.TB
	ctx context.Context
	s   *store.Store
	run *disk.Disk
	j   *prov.Journal
	bp  blueprint

	doc   []prov.Output // of each node, as its result has it
	sets  []stage.LimitationSet
	inRun []stage.LimitationSet // with what was added
	from  []prov.From
	mst   []prov.ManifestStage
}

// build writes the run of a blueprint.
func build(tb testing.TB, bp blueprint) built {
	tb.Helper()
	ws := quickDir(tb)
	s, err := store.OpenHooked(filepath.Join(ws, store.Folder), disk.Unsynced)
	must(tb, err)
	tb.Cleanup(func() { must(tb, s.Close()) })
	dir := filepath.Join(ws, prov.RunsFolder, thisRun)
	run, err := disk.Make(dir, disk.Unsynced)
	must(tb, err)
	defer run.Close()
	tick := began
	now := func() time.Time { tick = tick.Add(time.Millisecond); return tick }
	j, err := prov.CreateJournal(run, now)
	must(tb, err)
	w := &work{tb: tb, ctx: context.Background(), s: s, run: run, j: j, bp: bp}
	must(tb, j.Append(prov.Line{Event: prov.RunStarted, Run: thisRun, Plan: "demo", Base: baseRun}))
	w.file(prov.LockName, "{}\n")
	w.file(prov.LogName, "started\n")
	w.file(prov.PlanName, "name: demo\n")
	w.file(prov.ResolvedPlanName, "{\"name\": \"demo\"}\n")
	for i := range bp.nodes {
		w.node(i)
	}
	must(tb, j.Append(prov.Line{Event: prov.RunFinished, Status: prov.OK, Exit: new(0)}))
	must(tb, j.Close())
	w.finish()
	b := built{workspace: ws, store: s, id: thisRun, dir: dir}
	for _, f := range w.from {
		b.results = append(b.results, f.Result)
	}
	return b
}

// quickDir is a folder in memory where there is one: these tests make thousands
// of files, and a disk would spend their time.
func quickDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "anvil-test-") //nolint:usetesting // TempDir cannot choose the file system
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func (w *work) file(name, content string) {
	w.tb.Helper()
	must(w.tb, w.run.MkdirLoose(filepath.Dir(name)))
	must(w.tb, w.run.WriteLoose(name, []byte(content)))
}

func (w *work) put(b []byte) digest.Digest {
	w.tb.Helper()
	d, err := w.s.PutBytes(w.ctx, b)
	must(w.tb, err)
	return d
}

func (w *work) putSet(s stage.LimitationSet) digest.Digest {
	b, _ := s.Canonical()
	return w.put(b)
}

func (w *work) inputs(i int) ([]prov.Input, stage.LimitationSet) {
	n := w.bp.nodes[i]
	ins := []prov.Input{}
	union := stage.LimitationSet{}
	for _, f := range n.from {
		o, set := w.doc[f], w.inRun[f]
		in := prov.Input{Port: "in", Ref: o.Ref, From: new(w.from[f]), Name: o.Name}
		if w.bp.reference != nil {
			set = w.bp.reference(i, len(ins), &in, set)
		}
		in.Limitations = w.putSet(set)
		ins = append(ins, in)
		union = union.Union(set)
	}
	if n.leaf != "" {
		d := w.put([]byte(n.leaf))
		ref := stage.Ref{Schema: "anvil.file/v1", SHA256: d, Size: int64(len(n.leaf)), Limitations: w.putSet(nil)}
		ins = append(ins, prov.Input{Port: "with./dataset", Ref: ref, Name: "data.jsonl"})
	}
	return ins, union
}

func (w *work) node(i int) {
	n := w.bp.nodes[i]
	run := thisRun
	if n.base {
		run = baseRun
	}
	ins, set := w.inputs(i)
	for _, l := range n.raised {
		if l.Origin == "" {
			l.Origin = n.id
		}
		set = set.Union(stage.LimitationSet{l})
	}
	res := prov.Result{
		Run: run, Stage: n.id, Kind: n.kind, Contract: 1, Class: stage.Pure, Attempt: 1, Status: prov.OK,
		Config: json.RawMessage(`{"of":"` + n.id + `"}`), Inputs: ins, Limitations: set,
		StartedAt: stage.Time{Time: began}, FinishedAt: stage.Time{Time: began.Add(time.Second)},
	}
	own := set
	if w.bp.document != nil {
		own = w.bp.document(i, set)
	}
	schema := schemas.ID("anvil.demo/v1")
	if n.record {
		schema = prov.RecordSchema
	}
	body, err := stage.MarshalDocument(map[string]any{"schema": schema, "of": n.id}, own)
	must(w.tb, err)
	setDigest := w.putSet(set)
	for name, b := range map[string][]byte{"doc.json": body} {
		res.Outputs = append(res.Outputs, prov.Output{
			Name: name, MediaType: "application/json",
			Ref: stage.Ref{Schema: schema, SHA256: w.put(b), Size: int64(len(b)), Limitations: setDigest},
		})
	}
	rows := []byte(fmt.Sprintf("{\"rows of\": %q}\n", n.id))
	if !w.bp.lean {
		res.Outputs = append(res.Outputs, prov.Output{
			Name: "rows.jsonl", MediaType: "application/jsonl",
			Ref: stage.Ref{Schema: "demo.rows/v1", SHA256: w.put(rows), Size: int64(len(rows)), Limitations: setDigest},
		})
	}
	if res.Key, err = prov.KeyOf(&res); err != nil {
		w.tb.Fatal(err)
	}
	if w.bp.forge != nil {
		w.bp.forge(i, &res)
		for k := range res.Outputs { // a forger makes the papers agree
			res.Outputs[k].Limitations = w.putSet(res.Limitations)
		}
		res.Key, err = prov.KeyOf(&res)
		must(w.tb, err)
	}
	w.publish(n, res, body, rows)
}

func (w *work) publish(n node, res prov.Result, body, rows []byte) {
	b, err := prov.EncodeResult(res)
	must(w.tb, err)
	sum := w.put(b)
	st := prov.ManifestStage{ID: n.id, Kind: n.kind, Status: prov.OK, How: new(prov.Executed), Attempt: new(1), ResultSHA256: &sum}
	inRun := res.Limitations
	line := prov.Line{Event: prov.StageFinished, Stage: n.id, Kind: n.kind, Attempt: 1, Status: prov.OK, Result: &sum}
	if n.base {
		st.How, line.Event = new(prov.TakenOver), prov.StageTakenOver
		st.Added = new(w.putSet(reused))
		line.Added = st.Added
		inRun = inRun.Union(reused)
	} else {
		dir := "stages/" + n.id + "/1/"
		s, err := prov.StageStatement(b, tool)
		must(w.tb, err)
		sb, err := s.Encode()
		must(w.tb, err)
		w.file(dir+prov.StatementName, string(sb))
		w.file(dir+prov.ResultName, string(b))
		if !w.bp.lean {
			w.file(dir+"claim.json", "{\"token\": \""+n.id+"\"}\n")
			w.file(dir+prov.LogName, "worked\n")
			w.file("artifacts/"+n.id+"/doc.json", string(body))
			w.file("artifacts/"+n.id+"/rows.jsonl", string(rows))
		}
	}
	must(w.tb, w.j.Append(line))
	w.doc = append(w.doc, res.Outputs[0])
	w.sets = append(w.sets, res.Limitations)
	w.inRun = append(w.inRun, inRun)
	w.putSet(inRun)
	w.from = append(w.from, prov.From{Run: res.Run, Stage: n.id, Name: "doc.json", Result: sum})
	w.mst = append(w.mst, st)
}

func (w *work) finish() {
	all := stage.LimitationSet(nil).Union(w.inRun...)
	m := prov.Manifest{
		Run: thisRun, Base: new(baseRun), Tool: tool, Status: prov.OK, StartedAt: stage.Time{Time: began}, FinishedAt: stage.Time{Time: began.Add(2 * time.Second)}, Stages: w.mst,
		Plan: prov.ManifestPlan{
			Name: "demo", Path: "plans/demo.yaml", SHA256: digest.FromBytes([]byte("name: demo\n")),
			ResolvedSHA256: digest.FromBytes([]byte("{\"name\": \"demo\"}\n")),
		},
		Limitations:   prov.ManifestLimitations{Count: len(all), SHA256: w.putSet(all)},
		JournalSHA256: w.j.Head(),
	}
	last := len(w.bp.nodes) - 1
	m.Record = &prov.ManifestRecord{Stage: w.bp.nodes[last].id, Name: "doc.json", SHA256: w.doc[last].SHA256}
	var err error
	m.Files, err = prov.Files(w.run.Root())
	must(w.tb, err)
	if w.bp.manifest != nil {
		w.bp.manifest(&m)
	}
	b, err := prov.EncodeManifest(m)
	must(w.tb, err)
	w.file(prov.ManifestName, string(b))
	s, err := prov.RunStatement(w.ctx, b, prov.NewReader(w.s))
	must(w.tb, err)
	sb, err := s.Encode()
	must(w.tb, err)
	w.file(prov.StatementName, string(sb))
}

func (b built) open(tb testing.TB) *prov.Run {
	tb.Helper()
	run, err := prov.OpenRun(b.workspace, b.id)
	must(tb, err)
	tb.Cleanup(func() { run.Close() })
	return run
}

func (b built) verify(tb testing.TB) *prov.Report {
	tb.Helper()
	run, err := prov.OpenRun(b.workspace, b.id)
	must(tb, err)
	defer run.Close()
	rep, err := prov.Verify(context.Background(), run, b.store, prov.VerifyOptions{})
	must(tb, err)
	return rep
}

func limitation(code string) stage.Limitation {
	return stage.Limitation{Code: code, Severity: stage.Note, AppliesTo: []string{"*"}, Text: "of " + code}
}

// demo is a small run with everything: a leaf, a stage that was taken over, a
// fan-in, limitations on the way.
func demo() blueprint {
	return blueprint{nodes: []node{
		{id: "weights", kind: "verify-weights", base: true, raised: []stage.Limitation{limitation("weights.unbound")}},
		{id: "measure", kind: "measure", leaf: "{\"id\": 1}\n", raised: []stage.Limitation{limitation("samples.few"), limitation("stamps.user-space")}},
		{id: "grade", kind: "grade", from: []int{1}, leaf: "{\"expect\": 2}\n"},
		{id: "summarize", kind: "summarize", from: []int{0, 1, 2}, raised: []stage.Limitation{{Code: "plan.stated", Severity: stage.Note, Origin: "plan", AppliesTo: []string{"*"}, Text: "a pilot"}}},
		{id: "validate", kind: "validate", from: []int{3}},
	}}
}

func flip(tb testing.TB, name string, at int, bit byte) (restore func()) {
	tb.Helper()
	b, err := os.ReadFile(name)
	must(tb, err)
	changed := bytes.Clone(b)
	changed[at] ^= bit
	must(tb, os.Chmod(name, 0o644))
	must(tb, os.WriteFile(name, changed, 0o644))
	return func() { must(tb, os.WriteFile(name, b, 0o644)) }
}
