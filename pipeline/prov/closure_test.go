package prov_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/pipeline/digest"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

// bound is what a stage of a built run made, as another would be given it.
func (b built) bound(t *testing.T, i int) (stage.Artifact, *prov.From, *prov.Reader) {
	t.Helper()
	r := prov.NewReader(b.store)
	res, err := r.Result(context.Background(), b.results[i])
	must(t, err)
	from := &prov.From{Run: res.Run, Stage: res.Stage, Name: res.Outputs[0].Name, Result: b.results[i]}
	return stage.NewArtifact(res.Outputs[0].Ref, res.Stage, from.Name, b.store, res.Limitations), from, r
}

func members(c stage.Closure) []string {
	var out []string
	for a := range c.All() {
		out = append(out, a.Stage+"/"+a.Name)
	}
	return out
}

func TestClosureHoldsEverythingThatAnArtifactStandsOn(t *testing.T) {
	b := build(t, demo())
	a, from, r := b.bound(t, 4)
	c, err := prov.NewClosure(context.Background(), r, a, from)
	must(t, err)
	want := []string{"summarize/doc.json", "weights/doc.json", "measure/doc.json", "grade/doc.json", "/data.jsonl", "/data.jsonl"}
	if diff := cmp.Diff(want, members(c)); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	for m := range c.All() {
		if _, err := m.Bytes(context.Background()); err != nil {
			t.Errorf("%s/%s: %v", m.Stage, m.Name, err)
		}
		if _, d := m.LimitationSet().Canonical(); d != m.Limitations {
			t.Errorf("%s/%s comes without its own limitation set", m.Stage, m.Name)
		}
		got, ok := c.Get(m.SHA256)
		if !ok || got.Ref != m.Ref {
			t.Errorf("%s/%s is not found by its digest", m.Stage, m.Name)
		}
		p, made := c.Made(m.SHA256)
		if made != (m.Stage != "") || made && p.Stage != m.Stage {
			t.Errorf("%s/%s was made by %+v, %v", m.Stage, m.Name, p, made)
		}
	}
	p, ok := c.Made(a.SHA256)
	if !ok || p.Kind != "validate" || len(p.Inputs["in"]) != 1 || p.Inputs["in"][0].Stage != "summarize" {
		t.Errorf("the bound artifact was made by %+v, %v", p, ok)
	}
	grade, _ := c.Made(p.Inputs["in"][0].SHA256)
	if len(grade.Inputs["in"]) != 3 || len(grade.Raised) != 5 {
		t.Errorf("summarize is %+v, want three inputs and all limitations", grade)
	}
	if len(c.Absent()) != 0 {
		t.Errorf("absent: %v", c.Absent())
	}
}

func TestClosureCostsNoHashingOfArtifacts(t *testing.T) {
	b := build(t, demo())
	a, from, r := b.bound(t, 4)
	res, err := r.Result(context.Background(), b.results[1])
	must(t, err)
	flip(t, b.store.Path(res.Outputs[0].SHA256), 0, 1)
	c, err := prov.NewClosure(context.Background(), r, a, from)
	must(t, err)
	m, _ := c.Get(res.Outputs[0].SHA256)
	if _, err := m.Bytes(context.Background()); err == nil {
		t.Error("damaged bytes were read")
	}
}

func TestClosureOfAChainOfTenThousandStages(t *testing.T) {
	b := build(t, blueprint{lean: true, nodes: []node{{id: "a", kind: "grade"}}})
	ctx := context.Background()
	a, from, _ := b.bound(t, 0)
	r := prov.NewReader(b.store)
	for i := range 10_000 {
		res := prov.Result{
			Run: thisRun, Stage: fmt.Sprint("s", i), Kind: "grade", Contract: 1, Attempt: 1, Status: prov.OK, Config: json.RawMessage("{}"),
			Inputs:  []prov.Input{{Port: "in", Ref: a.Ref, From: from, Name: "doc.json"}},
			Outputs: []prov.Output{{Name: "doc.json", MediaType: "application/json", Ref: stage.Ref{Schema: "anvil.demo/v1", SHA256: digest.FromBytes([]byte(fmt.Sprint(i))), Size: 1, Limitations: a.Limitations}}},
		}
		sum := r.Remember(&res)
		from = &prov.From{Run: thisRun, Stage: res.Stage, Name: "doc.json", Result: sum}
		a = stage.NewArtifact(res.Outputs[0].Ref, res.Stage, "doc.json", b.store, nil)
	}
	c, err := prov.NewClosure(ctx, r, a, from)
	must(t, err)
	if n := len(members(c)); n != 10_000 {
		t.Errorf("closure has %d members, want 10,000", n)
	}
}

func TestClosureOfAnImportedDocumentIsWhatTheStoreHoldsOfIt(t *testing.T) {
	b := build(t, demo())
	ctx := context.Background()
	held, _, r := b.bound(t, 1)
	inner, err := json.Marshal(map[string]any{"schema": "anvil.demo/v1", "sha256": held.SHA256, "size": held.Size, "limitations": held.Limitations, "stage": "measure", "name": "attempts.jsonl"})
	must(t, err)
	missing := fmt.Sprintf(`{"schema":"anvil.demo/v1","sha256":%q,"size":3,"limitations":%q}`, digest.FromBytes([]byte("away")), digest.FromBytes([]byte("[]")))
	unknownSet := fmt.Sprintf(`{"schema":"anvil.other/v1","sha256":%q,"size":%d,"limitations":%q}`, held.SHA256, held.Size, digest.FromBytes([]byte("no set")))
	noReference := fmt.Sprintf(`{"schema":"anvil.other/v1","sha256":%q,"size":"3","limitations":"none"}`, held.SHA256)
	text := fmt.Sprintf(`{"schema":"anvil.record/v1","evidence":[%s,{"deeper":%s},%s,%s],"again":%s}`, inner, missing, unknownSet, noReference, inner)
	sum, err := b.store.PutBytes(ctx, []byte(text))
	must(t, err)
	doc := stage.NewArtifact(stage.Ref{Schema: "anvil.record/v1", SHA256: sum, Size: int64(len(text)), Limitations: held.Limitations}, "import", "record.json", b.store, nil)

	for name, from := range map[string]*prov.From{"a leaf": nil, "an import": b.importOf(t, r, doc)} {
		t.Run(name, func(t *testing.T) {
			c, err := prov.NewClosure(ctx, r, doc, from)
			must(t, err)
			got := members(c)
			if !slices.Contains(got, "measure/attempts.jsonl") {
				t.Errorf("members %v, want what the document refers to", got)
			}
			if len(c.Absent()) != 2 {
				t.Errorf("absent %v, want the object that is away and the one without its set", c.Absent())
			}
			_, made := c.Made(doc.SHA256)
			if made != (from != nil) {
				t.Errorf("made: %v", made)
			}
		})
	}
}

func (b built) importOf(t *testing.T, r *prov.Reader, doc stage.Artifact) *prov.From {
	t.Helper()
	_, empty := stage.LimitationSet{}.Canonical()
	leaf := doc.Ref
	leaf.Schema, leaf.Limitations = "anvil.file/v1", empty
	sum := r.Remember(&prov.Result{
		Run: thisRun, Stage: "import", Kind: prov.KindImport, Contract: 1, Attempt: 1, Status: prov.OK, Config: json.RawMessage("{}"),
		Inputs:  []prov.Input{{Port: "with./path", Ref: leaf, Name: "record.json"}},
		Outputs: []prov.Output{{Name: "record.json", MediaType: "application/json", Ref: doc.Ref}},
	})
	return &prov.From{Run: thisRun, Stage: "import", Name: "record.json", Result: sum}
}

func TestClosureOfWhatIsNoDocumentIsEmpty(t *testing.T) {
	b := build(t, demo())
	for _, text := range []string{"", "[1,2]", "{\"a\":1}\n{\"b\":2}\n", "{\"a\":", "\x28\xb5\x2f\xfd", "null"} {
		sum, err := b.store.PutBytes(context.Background(), []byte(text))
		must(t, err)
		a := stage.NewArtifact(stage.Ref{Schema: "x/v1", SHA256: sum, Size: int64(len(text))}, "", "f", b.store, nil)
		c, err := prov.NewClosure(context.Background(), prov.NewReader(b.store), a, nil)
		if err != nil || len(members(c)) != 0 {
			t.Errorf("%q: got %v, %v, want an empty closure", text, members(c), err)
		}
	}
}
