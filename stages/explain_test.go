package stages_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"anvil/pipeline"
	"anvil/pipeline/digest"
	"anvil/pipeline/plan"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
	"anvil/schemas"
	"anvil/stages"
)

// Plans in which together every field of every configuration is there to be
// changed.
var explained = map[string]string{
	"weights": `{"stages": [{"id": "weights", "uses": "verify-weights", "with": {"replicas": [{"name": "a", "path": "."}]}}]}`,
	"import":  `{"stages": [{"id": "old", "uses": "import", "with": {"file": "a.jsonl", "schema": "anvil.dataset/v1"}}]}`,
	"scout":   `{"endpoints": {"t": {}}, "stages": [{"id": "scout", "uses": "scout", "with": {"endpoint": "t", "canary": {}, "workload": {"source": "synthetic"}}}]}`,
	"scout as measure": `{"endpoints": {"t": {}}, "stages": [
		{"id": "scout", "uses": "scout", "with": {"endpoint": "t", "same_as": "measure"}},
		{"id": "measure", "uses": "measure", "with": {"endpoint": "t", "load": {"mode": "closed", "concurrency": 1, "requests": 4}}},
		{"id": "changed", "uses": "measure", "with": {"endpoint": "t", "load": {"mode": "closed", "concurrency": 1, "requests": 4}}}]}`,
	"closed": `{"endpoints": {"t": {}}, "stages": [
		{"id": "measure", "uses": "measure", "with": {"endpoint": "t", "load": {"mode": "closed", "concurrency": 1, "requests": 4}, "workload": {"source": "dataset", "file": "a.jsonl", "epochs": 9}}}]}`,
	"constant": `{"endpoints": {"t": {"base_url": "http://127.0.0.1:9/v1", "model": "m"}}, "stages": [
		{"id": "measure", "uses": "measure", "with": {"endpoint": "t", "load": {"mode": "open", "arrival": "constant", "rate": 1, "duration": "1s"}}}]}`,
	"gamma": `{"endpoints": {"t": {}}, "stages": [
		{"id": "measure", "uses": "measure", "with": {"endpoint": "t", "load": {"mode": "open", "arrival": "gamma", "rate": 1, "cv": 2, "requests": 3}, "workload": {"source": "synthetic", "context_tokens": {"uniform": [1, 2]}}}}]}`,
	"burst": `{"endpoints": {"t": {}}, "stages": [
		{"id": "measure", "uses": "measure", "with": {"endpoint": "t", "load": {"mode": "open", "arrival": "burst", "rate": 1, "size": 2, "requests": 3}, "workload": {"source": "synthetic", "context_tokens": {"normal": [9, 2, 1, 90]}}}}]}`,
	"ramp": `{"endpoints": {"t": {}}, "stages": [
		{"id": "measure", "uses": "measure", "with": {"endpoint": "t", "load": {"mode": "open", "arrival": "ramp", "rate_from": 1, "rate_to": 2, "duration": "3s"}, "workload": {"source": "synthetic", "context_tokens": {"choices": {"8": 1}}}}}]}`,
	"step": `{"endpoints": {"t": {}}, "stages": [
		{"id": "measure", "uses": "measure", "with": {"endpoint": "t", "load": {"mode": "open", "arrival": "step", "steps": [{"rate": 9, "duration": "1s"}], "requests": 3}, "workload": {"source": "synthetic", "cache_mode": "shared", "shared_prefix_tokens": 5}}}]}`,
	"trace": `{"endpoints": {"t": {}}, "stages": [
		{"id": "measure", "uses": "measure", "with": {"endpoint": "t", "load": {"mode": "open", "arrival": "trace", "trace": {"file": "a.csv", "format": "csv", "columns": {"time": "time"}}, "requests": 2}}}]}`,
	"graders": graded(`"reducer": "none", "gate": {"tags": {"x": {"min_pass_rate": 0.5}}}, "graders": [
		{"id": "a", "type": "equals", "value": "x", "extract": {"last_line": true}}, {"id": "b", "type": "contains", "any": ["x"]}, {"id": "c", "type": "starts_with"}, {"id": "d", "type": "regex", "pattern": "x"},
		{"id": "e", "type": "choice"}, {"id": "f", "type": "number", "value": 1}, {"id": "g", "type": "json", "schema": "a.json"}, {"id": "h", "type": "evidence_fields"}]`),
	"more graders": graded(`"dataset": "a.jsonl", "reducer": "pass_at_k", "k": 1, "graders": [{"id": "a", "type": "equals", "extract": {"regex": "x(y)", "group": 1}}, {"id": "b", "type": "contains", "all": ["x"]}, {"id": "g", "type": "json", "pointers": {"/p": 1}},
		{"id": "i", "type": "tool_call", "name": "x"}, {"id": "j", "type": "finish_reason", "in": ["stop"]}, {"id": "k", "type": "length", "min": 1, "max": 9}, {"id": "l", "type": "words", "requested": 3},
		{"id": "m", "type": "latency", "metric": "ttft_ms", "at_most": 9}, {"id": "n", "type": "at_least", "n": 1, "of": [{"id": "o", "type": "equals", "value": "x"}, {"id": "p", "type": "equals", "extract": {"regex": "x(y)"}}, {"id": "q", "type": "equals", "extract": {"last_line": true}}]}]`),
	"summary": `{"endpoints": {"t": {}}, "stages": [
		{"id": "measure", "uses": "measure", "with": {"endpoint": "t", "load": {"mode": "closed", "concurrency": 1, "requests": 4}}},
		{"id": "sum", "uses": "summarize", "needs": ["measure"], "with": {"serving_cell": {"public_id": "a", "suite_version": "b"}, "derived_summary": {"cache_caveat": "c"}, "objectives": {}}},
		{"id": "validate", "uses": "validate", "needs": ["sum"], "with": {}}]}`,
}

func graded(with string) string {
	return `{"endpoints": {"t": {}}, "stages": [
		{"id": "measure", "uses": "measure", "with": {"endpoint": "t", "load": {"mode": "closed", "concurrency": 1, "requests": 4}, "workload": {"source": "dataset", "file": "a.jsonl", "epochs": 9}}},
		{"id": "grade", "uses": "grade", "needs": ["measure"], "with": {` + with + `}}]}`
}

// A word that says which other fields there are is changed with those.
var together = map[string]any{
	"measure/load/mode":                   map[string]any{"mode": "open", "arrival": "poisson", "rate": 2, "requests": 4},
	"measure/workload/source":             map[string]any{"source": "synthetic"},
	"measure/workload/format":             map[string]any{"source": "dataset", "file": "c.jsonl", "format": "openai-evals", "epochs": 9},
	"measure/load/trace/format":           map[string]any{"file": "a.csv", "format": "burstgpt"},
	"scout/workload/source":               map[string]any{"source": "dataset", "file": "a.jsonl"},
	"scout/workload/shared_prefix_tokens": map[string]any{"source": "synthetic", "cache_mode": "shared", "shared_prefix_tokens": 5},
}

// Fields that no plan can change alone, or at all, and why.
var unchangeable = map[string]string{
	"measure/endpoint/sim":            "an endpoint with an address has no engine of its own",
	"scout/endpoint/base_url":         "needs a model beside it; measure's is changed",
	"measure/search":                  unbuilt,
	"summarize/conventions":           unbuilt,
	"summarize/per":                   unbuilt,
	"verify-weights/expect":           unbuilt,
	"verify-weights/rehash":           unbuilt,
	"verify-weights/replicas/command": unbuilt,
	"verify-weights/replicas/ssh":     unbuilt,
	"verify-weights/signature_key":    unbuilt,
	"verify-weights/path":             "short for one local replica, whose path is changed",
}

const unbuilt = "refused until it is built"

// notYet are the names of fields below such.
var notYet = []string{"axis", "range", "objective", "max_probes", "max_time", "think_time"}

// nextflow#4106, dvc#3918, lm-eval#3881: a changed field silently reuses the
// cache. A semantic field that is changed is named by explain, with its path and both
// values; one that is cosmetic or policy is not, and changes no key. The plans
// are as a user writes them, and every field of every configuration is changed
// in turn to a value that the plan accepts.
func TestExplainNamesEveryFieldThatChanges(t *testing.T) {
	tried := map[string]bool{} // by kind and pointer: whether a plan could change it
	for _, name := range slices.Sorted(maps.Keys(explained)) {
		t.Run(name, func(t *testing.T) { newChanger(t, explained[name], tried).changeAll() })
	}
	names := map[string]bool{}
	for field, changed := range tried {
		for token := range strings.SplitSeq(field, "/") {
			names[token] = true
		}
		if why := unchangeable[field]; changed != (why == "") {
			t.Errorf("%s was changed: %v; why it cannot be: %q", field, changed, why)
		}
	}
	for name, k := range stages.All() {
		for field := range fieldsOf(t, k.Spec().Config.FileName()) {
			if !names[field] && !slices.Contains(notYet, field) {
				t.Errorf("%s: no plan of this test holds the field %q", name, field)
			}
		}
	}
}

// fieldOf is a place in a configuration without the places of list items.
func fieldOf(kind, pointer string) string { return kind + itemPlace.ReplaceAllString(pointer, "") }

var itemPlace = regexp.MustCompile(`/[0-9]+`)

// What a plan says of a stage beside its configuration, and what only people
// read, re-runs nothing and is no difference.
func TestExplainNamesNothingOfWhatIsCosmeticOrPolicy(t *testing.T) {
	c := newChanger(t, explained["import"], nil)
	for key, v := range map[string]any{"timeout": "7s", "retries": 2, "on_failure": "continue", "resources": map[string]any{"cpus": 2}, "title": "another"} {
		doc := c.doc()
		if key == "title" {
			doc[key] = v
		} else {
			doc["stages"].([]any)[0].(map[string]any)[key] = v
		}
		after, err := c.parse(doc)
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.x.Run(t.Context(), after, pipeline.Options{DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(after.Resolved, c.before.Resolved) {
			t.Errorf("%s changed nothing of the plan: the test shows nothing", key)
		}
		if d := r.Decisions[0]; d.Will != pipeline.WillRestore || d.Reason != pipeline.Cached || len(d.Differences) > 0 {
			t.Errorf("%s is changed: %+v", key, d)
		}
	}
}

// A changer writes one plan with one field changed after the other.
type changer struct {
	t      *testing.T
	x      *pipeline.Executor
	file   string
	source string
	kinds  stage.Set
	words  []any // what strings may be changed to
	before *plan.Plan
	tried  map[string]bool
}

func newChanger(t *testing.T, source string, tried map[string]bool) *changer {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a.jsonl": `{"id": "a", "prompt": "one", "expected": "x"}`, "b.jsonl": `{"id": "a", "prompt": "two", "expected": "y"}`, "c.jsonl": `{"input": [{"role": "user", "content": "three"}], "ideal": "z"}`, "a.csv": "time,at,Timestamp\n1,1,1\n2,3,4\n", "b.csv": "time\n1\n3\n", "a.json": `{}`, "b.json": `{"type": "object"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := store.Open(filepath.Join(dir, store.Folder))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c := &changer{
		t: t, file: filepath.Join(dir, "plan.yaml"), source: source, kinds: stage.Set{}, words: words(t), tried: tried,
		x: &pipeline.Executor{
			Workspace: dir, Store: s, Tool: func() (stage.Tool, error) { return stage.Tool{Version: "test"}, nil },
			// The locks of endpoints lie here too: another run of these tests beside this one is no concern.
			LookupEnv: func(name string) (string, bool) { return dir, name == "XDG_RUNTIME_DIR" },
		},
	}
	for name, k := range stages.All() {
		c.kinds[name] = standIn{k}
	}
	if c.before, err = c.parse(c.doc()); err != nil {
		t.Fatal(err)
	}
	r, err := c.x.Run(t.Context(), c.before, pipeline.Options{})
	if err != nil || r.Exit != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	return c
}

func (c *changer) doc() map[string]any {
	doc := decoded(c.t, []byte(c.source))
	doc["schema"], doc["name"], doc["seed"] = "anvil.plan/v1", "explained", 1
	return doc
}

func (c *changer) parse(doc map[string]any) (*plan.Plan, error) {
	src, err := json.Marshal(doc)
	if err != nil {
		c.t.Fatal(err)
	}
	return plan.Parse(c.file, src, c.kinds, plan.Options{})
}

func (c *changer) changeAll() {
	for i := range c.before.Stages {
		st := &c.before.Stages[i]
		with := decoded(c.t, st.With)
		marks := c.marks(st, with)
		for _, at := range changeable(with, "") {
			if under(at, marks, func(m schemas.Marks) bool { return m.Resolved }) || at == "/endpoint/name" {
				continue
			}
			field := fieldOf(st.Kind.Spec().Name, at)
			if !c.tried[field] {
				c.tried[field] = c.change(i, at, valueAt(with, at), marks)
			}
		}
	}
}

func (c *changer) marks(st *plan.Stage, with map[string]any) map[string]schemas.Marks {
	out := map[string]schemas.Marks{}
	add := func(id schemas.ID, doc any, under string) {
		list, err := schemas.Marked(id, doc)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, m := range list {
			out[under+m.Pointer] = m.Marks
		}
	}
	add(st.Kind.Spec().Config, with, "")
	delete(out, "/endpoint")
	if e, ok := with["endpoint"]; ok {
		add("anvil.endpoint/v1", e, "/endpoint")
	}
	return out
}

// change changes one field of one stage to the first value that the plan takes,
// and asks what a run would do.
func (c *changer) change(i int, at string, old any, marks map[string]schemas.Marks) bool {
	values := c.alternatives(old)
	whole, joint := together[fieldOf(c.before.Stages[i].Kind.Spec().Name, at)]
	if joint {
		values = []any{whole}
	}
	for _, v := range values {
		doc := c.doc()
		root := doc["stages"].([]any)[i].(map[string]any)["with"]
		written := at
		if rest, ok := strings.CutPrefix(at, "/endpoint/"); ok {
			root, written = doc["endpoints"].(map[string]any)["t"], "/"+rest
		}
		tokens := schemas.Split(written)
		if joint {
			tokens = tokens[:len(tokens)-1]
		}
		if !put(root, tokens, v) {
			continue
		}
		after, err := c.parse(doc)
		if err != nil || len(after.Stages) != len(c.before.Stages) {
			continue
		}
		if equal(valueAt(decoded(c.t, after.Stages[i].With), at), old) {
			continue
		}
		c.check(i, at, after, marks)
		return true
	}
	return false
}

func (c *changer) check(i int, at string, after *plan.Plan, marks map[string]schemas.Marks) {
	c.t.Helper()
	before, now := &c.before.Stages[i], &after.Stages[i]
	r, err := c.x.Run(c.t.Context(), after, pipeline.Options{DryRun: true})
	if err != nil {
		c.t.Fatalf("%s%s: %v", now.ID, at, err)
	}
	d := r.Decisions[slices.IndexFunc(r.Decisions, func(d pipeline.Decision) bool { return d.ID == now.ID })]
	if under(at, marks, func(m schemas.Marks) bool { return m.Key != schemas.Semantic }) {
		if !bytes.Equal(before.KeyConfig, now.KeyConfig) || len(d.Differences) > 0 {
			c.t.Errorf("%s%s stays out of the key: %+v", now.ID, at, d)
		}
		return
	}
	path := dotted(decoded(c.t, now.With), at)
	want := [2]any{valueAt(decoded(c.t, before.KeyConfig), at), valueAt(decoded(c.t, now.KeyConfig), at)}
	if marks[at].File {
		path, want = path+".sha256", [2]any{c.fileDigest(before, at), c.fileDigest(now, at)}
	}
	named := slices.ContainsFunc(d.Differences, func(diff pipeline.Difference) bool {
		if scalar(want[0]) && scalar(want[1]) {
			return diff.Path == path && equal(diff.Before, want[0]) && equal(diff.After, want[1])
		}
		return strings.HasPrefix(diff.Path, path) && !equal(diff.Before, diff.After)
	})
	if !named || equal(want[0], want[1]) {
		c.t.Errorf("%s: %s from %v to %v is not named: %+v", now.ID, path, want[0], want[1], d)
	}
	wantReason := []pipeline.Reason{pipeline.ConfigChanged, pipeline.InputChanged}
	if now.Kind.Spec().Class == stage.Observational {
		wantReason = []pipeline.Reason{pipeline.IsObservational}
	}
	if d.Will != pipeline.WillExecute || !slices.Contains(wantReason, d.Reason) {
		c.t.Errorf("%s: %s is changed: will %s, reason %s", now.ID, path, d.Will, d.Reason)
	}
}

// fileDigest is what explain says of a file, nil for none.
func (c *changer) fileDigest(st *plan.Stage, pointer string) any {
	i := slices.IndexFunc(st.Files, func(f plan.File) bool { return f.Pointer == pointer })
	if i < 0 {
		return nil
	}
	b, err := os.ReadFile(st.Files[i].Path)
	if err != nil {
		c.t.Fatal(err)
	}
	if p := st.Kind.Spec().Project; p != nil {
		var projected bytes.Buffer
		if _, ok, err := p(st.With, pointer, bytes.NewReader(b), &projected); err != nil {
			c.t.Fatal(err)
		} else if ok {
			b = projected.Bytes()
		}
	}
	return digest.FromBytes(b).String()
}

// alternatives are values that a field might be changed to, the likely first.
func (c *changer) alternatives(old any) []any {
	switch v := old.(type) {
	case bool:
		return []any{!v}
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			c.t.Fatal(err)
		}
		return []any{f + 1, f / 2, f - 1, f * 0.9, 1, 2}
	case string:
		return c.words
	case []any:
		out := []any{v[:max(0, len(v)-1)]}
		for _, w := range append([]any{1}, c.words...) {
			out = append(out, append(slices.Clone(v), w))
		}
		if len(v) > 0 {
			for _, w := range c.alternatives(v[len(v)-1]) {
				out = append(out, append(slices.Clone(v[:len(v)-1]), w))
			}
		}
		return out
	case map[string]any:
		return append(changedMaps(c.words), map[string]any{"/p": 2}, map[string]any{"changed": 1}, map[string]any{"changed": map[string]any{}})
	}
	out := append([]any{1, 0.5, true}, c.words...)
	return append(append(out, []any{"changed"}, map[string]any{"regex": "x"}, map[string]any{"/p": 2}), changedMaps(c.words[:1])...)
}

func changedMaps(words []any) (out []any) {
	for _, w := range words {
		out = append(out, map[string]any{"changed": w}, map[string]any{fmt.Sprint(w): 0.5})
	}
	return out
}

// words are strings of every form that a configuration asks for, and every word
// that a schema lists.
func words(t *testing.T) []any {
	t.Helper()
	out := []any{"changed", "7s", "7KiB", "b.jsonl", "b.json", "b.csv", "at", "/changed", "http://127.0.0.1:10/v1", "anvil.attempts/v1", "EF", "http_error", "e2e_ms", digest.FromBytes(nil).String(), "measure"}
	quoted := regexp.MustCompile(`"enum": \[([^\]]*)\]`)
	for _, file := range schemaFiles(t) {
		src, err := schemas.Table(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range quoted.FindAllSubmatch(src, -1) {
			for w := range strings.SplitSeq(string(m[1]), ",") {
				if text := strings.Trim(strings.TrimSpace(w), `"`); !slices.Contains(out, any(text)) {
					out = append(out, text)
				}
			}
		}
	}
	return out
}

func schemaFiles(t *testing.T) []string {
	t.Helper()
	files := []string{"defs.schema.json", "workload.schema.json", schemas.ID("anvil.endpoint/v1").FileName(), schemas.ID("anvil.sim-config/v1").FileName()}
	for _, k := range stages.All() {
		files = append(files, k.Spec().Config.FileName())
	}
	slices.Sort(files)
	return files
}

// fieldsOf are the names of all fields that a plan may write by a schema.
func fieldsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	src, err := schemas.Table(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if p, ok := v["properties"].(map[string]any); ok {
				for name, s := range p {
					if s, ok := s.(map[string]any); ok && s["x-anvil-resolved"] != true && s["x-anvil-endpoint"] != true && s["properties"] == nil && s["$ref"] == nil {
						out[name] = true
					}
				}
			}
			for key, e := range v {
				if m, ok := e.(map[string]any); ok && m["x-anvil-resolved"] == true {
					continue
				}
				if key != "if" {
					walk(e)
				}
				if ref, ok := e.(string); ok && key == "$ref" && strings.HasPrefix(ref, "workload") {
					maps.Copy(out, fieldsOf(t, ref))
				}
			}
		}
	}
	walk(decoded(t, src))
	for name := range out {
		if name == "endpoint" {
			maps.Copy(out, fieldsOf(t, schemas.ID("anvil.endpoint/v1").FileName()))
		}
	}
	return out
}

// A standIn is a kind as it stands in a plan; it writes outputs of no schema
// from nothing.
type standIn struct{ stage.Kind }

func (k standIn) Spec() stage.Spec {
	s := k.Kind.Spec()
	s.Exclusive, s.Gates, s.Drains = false, false, false
	s.In, s.Out = anonymous(s.In), anonymous(s.Out)
	if outputs := s.Outputs; outputs != nil {
		s.Outputs = func(with map[string]any) []stage.Port { return anonymous(outputs(with)) }
	}
	return s
}

func anonymous(ports []stage.Port) []stage.Port {
	out := slices.Clone(ports)
	for i := range out {
		out[i].Closure = false
		out[i].Schema = schemas.ID(strings.Replace(string(out[i].Schema), "anvil", "test", 1))
	}
	return out
}

func (k standIn) New(config json.RawMessage) (stage.Stage, error) {
	spec := k.Spec()
	if spec.Outputs == nil {
		return idle{spec.Out}, nil
	}
	var with map[string]any
	if err := json.Unmarshal(config, &with); err != nil {
		return nil, err
	}
	return idle{spec.Outputs(with)}, nil
}

type idle struct{ out []stage.Port }

func (s idle) Run(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
	for _, p := range s.out {
		if p.Optional {
			continue
		}
		w, err := out.CreateAs(p.Name, p.Schema)
		if err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
	return nil
}

func decoded(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v map[string]any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// changeable lists what can be changed alone: scalars, and lists and objects
// whose members have no names of their own.
func changeable(v any, at string) []string {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return []string{at}
		}
		var out []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out = append(out, changeable(v[name], schemas.Join(at, name))...)
		}
		return out
	case []any:
		if len(v) == 0 || scalar(v[0]) {
			return []string{at}
		}
		var out []string
		for i, e := range v {
			out = append(out, changeable(e, schemas.Join(at, fmt.Sprint(i)))...)
		}
		return out
	}
	return []string{at}
}

func scalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

func under(at string, marks map[string]schemas.Marks, is func(schemas.Marks) bool) bool {
	for pointer, m := range marks {
		if is(m) && (at == pointer || strings.HasPrefix(at, pointer+"/")) {
			return true
		}
	}
	return false
}

func valueAt(v any, pointer string) any {
	for _, token := range schemas.Split(pointer) {
		switch x := v.(type) {
		case map[string]any:
			v = x[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// put writes a value below v and makes the objects on the way.
func put(v any, tokens []string, to any) bool {
	for i, token := range tokens {
		last := i == len(tokens)-1
		switch x := v.(type) {
		case map[string]any:
			if last {
				x[token] = to
				return true
			}
			if x[token] == nil {
				x[token] = map[string]any{}
			}
			v = x[token]
		case []any:
			at, err := strconv.Atoi(token)
			if err != nil || at >= len(x) || last {
				return false
			}
			v = x[at]
		default:
			return false
		}
	}
	return false
}

// dotted writes the pointer of a value below v as explain does:
// "with.graders[0].weight".
func dotted(v any, pointer string) string {
	path := "with"
	for _, token := range schemas.Split(pointer) {
		if _, ok := v.([]any); ok {
			path += "[" + token + "]"
		} else {
			path += "." + token
		}
		v = valueAt(v, "/"+token)
	}
	return path
}

func equal(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
