package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gowebpki/jcs"
	"github.com/rs/zerolog"

	"anvil/pipeline/digest"
	"anvil/pipeline/event"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/plan"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
	"anvil/schemas"
)

// A lab is a workspace with an executor and kinds whose behaviour a test sets.
type lab struct {
	t    testing.TB
	dir  string
	x    *Executor
	seen *recorder

	// do is what stages do, by stage id; a stage without an entry writes its
	// outputs from its inputs.
	do map[string]func(ctx context.Context, env stage.Env, in stage.Inputs, out *stage.Outputs) error

	mu   sync.Mutex
	runs map[string]int // how often each stage's Run was called
}

// kinds of the lab: "see" observes, "look" observes alone and drains, "make" is
// pure, "sum" is pure and takes many, "prove" is pure and reads a closure.
func newLab(t *testing.T) *lab {
	t.Helper()
	return newLabIn(t, quickDir(t))
}

func newLabIn(tb testing.TB, dir string) *lab {
	tb.Helper()
	l := &lab{t: tb, dir: dir, seen: &recorder{}, do: map[string]func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error{}, runs: map[string]int{}}
	l.reopen(nil)
	return l
}

// quickDir is a folder in memory where there is one: these tests run thousands
// of stages, and a disk would spend their time on syncs.
func quickDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "anvil-test-") //nolint:usetesting // t.TempDir is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// reopen makes the executor that a new process would have.
func (l *lab) reopen(hook disk.Hook) {
	l.t.Helper()
	s, err := store.OpenHooked(filepath.Join(l.dir, store.Folder), hook)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { s.Close() })
	var ticks atomic.Int64
	start := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	if l.x != nil {
		start = l.x.now().Add(time.Hour)
	}
	env := map[string]string{"XDG_RUNTIME_DIR": l.dir}
	l.x = &Executor{
		Workspace: l.dir, Store: s, Events: l.seen, Log: zerolog.Nop(), Jobs: 2, hook: hook,
		Now:       func() time.Time { return start.Add(time.Duration(ticks.Add(1)) * time.Millisecond) },
		Tool:      func() (stage.Tool, error) { return stage.Tool{Version: "test"}, nil },
		LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	}
}

const (
	seeSchema  schemas.ID = "test.seen/v1"
	makeSchema schemas.ID = "test.made/v1"
)

func (l *lab) kinds() map[string]stage.Kind {
	seen := []stage.Port{{Name: "seen.json", Schema: seeSchema}}
	made := []stage.Port{{Name: "made.json", Schema: makeSchema}}
	specs := []stage.Spec{
		{Name: "see", Contract: 1, Class: stage.Observational, Out: seen, In: []stage.Port{{Name: "scout", Schema: seeSchema, Optional: true}}},
		{Name: "gate", Contract: 1, Class: stage.Observational, Out: seen, Gates: true},
		{Name: "look", Contract: 1, Class: stage.Observational, Exclusive: true, Drains: true, Out: seen, In: []stage.Port{{Name: "scout", Schema: seeSchema, Optional: true}}},
		{Name: "pair", Contract: 1, Class: stage.Observational, Out: append(slices.Clone(seen), stage.Port{Name: "more.jsonl", Schema: "test.more/v1"})},
		{Name: "make", Contract: 1, Class: stage.Pure, Out: made, In: []stage.Port{{Name: "seen", Schema: seeSchema, Optional: true}, {Name: "made", Schema: makeSchema, Optional: true}}},
		{Name: "need", Contract: 1, Class: stage.Pure, Out: made, In: []stage.Port{{Name: "seen", Schema: seeSchema}}},
		{Name: "sum", Contract: 1, Class: stage.Pure, Out: made, In: []stage.Port{{Name: "seen", Schema: seeSchema, Optional: true, Many: true}, {Name: "made", Schema: makeSchema, Optional: true, Many: true}}},
		{Name: "prove", Contract: 1, Class: stage.Pure, Out: made, In: []stage.Port{{Name: "made", Schema: makeSchema, Closure: true}}},
	}
	out := map[string]stage.Kind{}
	for _, spec := range specs {
		out[spec.Name] = labKind{l, spec}
	}
	return out
}

type labKind struct {
	l    *lab
	spec stage.Spec
}

func (k labKind) Spec() stage.Spec { return k.spec }

func (k labKind) New(config json.RawMessage) (stage.Stage, error) { return labStage(k), nil }

type labStage labKind

func (s labStage) Run(ctx context.Context, env stage.Env, in stage.Inputs, out *stage.Outputs) error {
	s.l.mu.Lock()
	s.l.runs[env.Stage]++
	do := s.l.do[env.Stage]
	s.l.mu.Unlock()
	if do != nil {
		return do(ctx, env, in, out)
	}
	return s.l.ordinary(ctx, s.spec, env, in, out)
}

// ordinary writes a document that depends on everything that the stage reads.
func (l *lab) ordinary(ctx context.Context, spec stage.Spec, env stage.Env, in stage.Inputs, out *stage.Outputs) error {
	doc := map[string]any{"schema": spec.Out[0].Schema}
	for _, p := range spec.In {
		for _, a := range in.All(p.Name) {
			b, err := a.Bytes(ctx)
			if err != nil {
				return err
			}
			doc[p.Name] = fmt.Sprint(doc[p.Name], digest.FromBytes(b).Short())
		}
	}
	if f, ok := in.File("/file"); ok {
		b, err := f.Bytes(ctx)
		if err != nil {
			return err
		}
		doc["file"] = string(b)
	}
	if spec.Class == stage.Observational {
		doc["run"] = l.count(env.Stage)
	}
	return out.JSON(spec.Out[0].Name, doc)
}

func (l *lab) count(id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[id]
}

// A labPlan is written as "id kind [need…]" lines.
type labPlan struct {
	l *lab
	*plan.Plan
}

// plan builds a resolved plan. A need binds to the port that takes its output.
func (l *lab) plan(lines ...string) labPlan {
	l.t.Helper()
	kinds := l.kinds()
	p := &plan.Plan{File: filepath.Join(l.dir, "plan.yaml"), Name: "lab", Seed: 1, Source: []byte(strings.Join(lines, "\n") + "\n")}
	used := map[string]string{}
	for _, line := range lines {
		words := strings.Fields(line)
		k, ok := kinds[words[1]]
		if !ok {
			l.t.Fatalf("no kind %q", words[1])
		}
		used[words[0]] = words[1]
		of, _, _ := strings.Cut(words[0], "[")
		st := plan.Stage{ID: words[0], Of: of, Dir: words[0], Kind: k, With: json.RawMessage(`{}`), KeyConfig: json.RawMessage(`{}`), Needs: words[2:]}
		for _, port := range k.Spec().In {
			b := plan.Binding{Port: port.Name}
			for _, need := range words[2:] {
				if out := kinds[used[need]].Spec().Out[0]; out.Schema == port.Schema {
					b.From = append(b.From, plan.Source{Stage: need, Output: out.Name})
				}
			}
			if len(b.From) > 0 {
				st.Inputs = append(st.Inputs, b)
			}
		}
		p.Stages = append(p.Stages, st)
	}
	lp := labPlan{l, p}
	lp.seal()
	return lp
}

// seal brings the plan's digests up to date after a test changed it.
func (p labPlan) seal() {
	p.l.t.Helper()
	type st struct {
		ID   string
		With json.RawMessage
	}
	var list []st
	for _, s := range p.Stages {
		list = append(list, st{s.ID, s.With})
	}
	raw, err := json.Marshal(map[string]any{"name": p.Name, "params": map[string]any{"depth": 3}, "stages": list, "salt": p.Salt})
	if err != nil {
		p.l.t.Fatal(err)
	}
	p.Resolved, p.ResolvedDigest, p.Digest = raw, digest.FromBytes(raw), digest.FromBytes(p.Source)
}

func (p labPlan) stage(id string) *plan.Stage {
	i := slices.IndexFunc(p.Stages, func(s plan.Stage) bool { return s.ID == id })
	return &p.Stages[i]
}

// with sets a stage's configuration, all of it semantic.
func (p labPlan) with(id, config string) labPlan {
	p.l.t.Helper()
	s := p.stage(id)
	canonical, err := jcs.Transform([]byte(config))
	if err != nil {
		p.l.t.Fatal(err)
	}
	s.With, s.KeyConfig = json.RawMessage(config), canonical
	p.seal()
	return p
}

// file makes a stage read a file under the key "file".
func (p labPlan) file(id, name, content string) labPlan {
	p.l.t.Helper()
	path := filepath.Join(p.l.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		p.l.t.Fatal(err)
	}
	p.stage(id).Files = []plan.File{{Pointer: "/file", Path: path, Written: name}}
	return p
}

// run runs the plan and fails the test on an error.
func (l *lab) run(p labPlan, opt Options) *Run {
	l.t.Helper()
	r, err := l.x.Run(l.t.Context(), p.Plan, opt)
	if err != nil {
		l.t.Fatalf("run: %v", err)
	}
	return r
}

// states writes what became of each stage: "see=ok/executed".
func states(r *Run) string {
	var out []string
	for _, s := range r.Stages {
		text := s.ID + "=" + string(s.Status)
		if s.How != "" {
			text += "/" + string(s.How)
		}
		if s.BlockedBy != "" {
			text += "(" + s.BlockedBy + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func wantStates(t *testing.T, r *Run, want string) {
	t.Helper()
	if got := states(r); got != want {
		t.Errorf("stages are\n  %s, want\n  %s", got, want)
	}
}

func (r *Run) stage(id string) StageResult {
	for _, s := range r.Stages {
		if s.ID == id {
			return s
		}
	}
	return StageResult{}
}

// object reads an output's bytes from the store.
func (l *lab) object(d digest.Digest) []byte {
	l.t.Helper()
	b, err := l.x.Store.Bytes(l.t.Context(), d, 1<<30)
	if err != nil {
		l.t.Fatal(err)
	}
	return b
}

// damage flips a byte of an object.
func (l *lab) damage(d digest.Digest) {
	l.t.Helper()
	path := l.x.Store.Path(d)
	b, err := os.ReadFile(path)
	if err != nil {
		l.t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.Chmod(path, 0o644); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		l.t.Fatal(err)
	}
}

// runFolders lists the runs that left a folder.
func (l *lab) runFolders() []string {
	l.t.Helper()
	ids, err := prov.RunIDs(l.dir)
	if err != nil {
		l.t.Fatal(err)
	}
	return ids
}

// verify proves a run and fails the test on any problem.
func (l *lab) verify(r *Run) {
	l.t.Helper()
	for _, p := range l.problems(r) {
		l.t.Errorf("provenance verify %s: %+v", r.ID, p)
	}
}

func (l *lab) problems(r *Run) []prov.Problem {
	l.t.Helper()
	run, err := prov.OpenRun(l.dir, r.ID)
	if err != nil {
		l.t.Fatal(err)
	}
	defer run.Close()
	report, err := prov.Verify(l.t.Context(), run, l.x.Store, prov.VerifyOptions{})
	if err != nil {
		l.t.Fatalf("verify: %v", err)
	}
	return report.Problems
}

// A recorder keeps the events.
type recorder struct {
	mu     sync.Mutex
	events []event.Event
	on     func(event.Event)
}

func (r *recorder) Emit(e event.Event) {
	r.mu.Lock()
	r.events = append(r.events, e)
	on := r.on
	r.mu.Unlock()
	if on != nil {
		on(e)
	}
}

func (r *recorder) texts(name string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, e := range r.events {
		if e.Event == name {
			out = append(out, e.Text)
		}
	}
	return out
}

var errBroken = errors.New("the server is gone")

func fails(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error { return errBroken }
