package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

// raise is a stage that raises what a test tells it to.
func (l *lab) raise(id, output string, ls ...stage.Limitation) {
	l.do[id] = func(_ context.Context, _ stage.Env, in stage.Inputs, out *stage.Outputs) error {
		out.Limit(ls...)
		return out.JSON(output, map[string]any{"stage": id})
	}
}

func TestAStageAddsLimitationsInItsOwnNameAndDropsNone(t *testing.T) {
	l := newLab(t)
	stated := stage.Limitation{Code: "plan.stated", Severity: stage.Caveat, Origin: stage.OriginPlan, AppliesTo: []string{stage.Every}, Text: "a pilot"}
	forged := stated
	forged.Text = "not in the plan"
	l.raise("measure", "seen.json", stage.Limitation{Code: "samples.few", Origin: "run", Text: "8 requests"})
	l.raise("sum", "made.json", stated, forged, stage.Limitation{Code: "tokens.estimated", AppliesTo: []string{"tpot_p50_ms"}, Text: "sized without a tokenizer"})
	p := l.plan("measure look", "grade make measure", "sum sum measure grade")
	p.Limitations = stage.NewLimitationSet(stated)
	r := l.run(p, Options{})
	want := stage.NewLimitationSet(
		stated,
		stage.Limitation{Code: "plan.stated", Severity: stage.Caveat, Origin: "sum", AppliesTo: []string{stage.Every}, Text: "not in the plan"},
		stage.Limitation{Code: "samples.few", Severity: stage.Caveat, Origin: "measure", AppliesTo: []string{stage.Every}, Text: "8 requests"},
		stage.Limitation{Code: "tokens.estimated", Severity: severityOf("tokens.estimated"), Origin: "sum", AppliesTo: []string{"tpot_p50_ms"}, Text: "sized without a tokenizer"},
	)
	if len(want.Missing(r.Limitations)) > 0 || len(r.Limitations.Missing(want)) > 0 {
		t.Errorf("limitations are\n%+v, want\n%+v", r.Limitations, want)
	}
	var doc struct{ Limitations stage.LimitationSet }
	if err := json.Unmarshal(l.object(r.stage("sum").Outputs[0].SHA256), &doc); err != nil || len(want.Missing(doc.Limitations)) > 0 {
		t.Errorf("the document holds %+v, %v", doc.Limitations, err)
	}
	l.verify(r)
}

func TestTheOutputsOfOneStageShareItsSetAndTheRunHoldsIt(t *testing.T) {
	l := newLab(t)
	few := stage.Limitation{Code: "samples.few", Severity: stage.Caveat, Origin: "measure", AppliesTo: []string{stage.Every}, Text: "8 requests"}
	l.do["measure"] = func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		out.Limit(few)
		w, err := out.Create("more.jsonl")
		if err != nil {
			return err
		}
		fmt.Fprintln(w, "{}")
		return errors.Join(w.Close(), out.JSON("seen.json", map[string]any{}))
	}
	r := l.run(l.plan("measure pair"), Options{})
	outs := r.stage("measure").Outputs
	if len(outs) != 2 || outs[0].Limitations != outs[1].Limitations || outs[0].Name != "seen.json" {
		t.Errorf("outputs are %+v", outs)
	}
	if len(r.Limitations) != 1 {
		t.Errorf("the run holds %+v", r.Limitations)
	}
	l.verify(r)
}

func TestALimitationOfAnInputChangesTheKey(t *testing.T) {
	l := newLab(t)
	p := l.plan("measure look", "grade make measure")
	l.raise("measure", "seen.json")
	l.run(p, Options{})
	// The document embeds its limitations; a stream does not, and then the set
	// alone differs.
	stream := func(ls ...stage.Limitation) {
		l.do["measure"] = func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
			out.Limit(ls...)
			w, err := out.Create("seen.json")
			if err != nil {
				return err
			}
			fmt.Fprintln(w, `{"same": true}`)
			return w.Close()
		}
	}
	stream()
	one := l.run(p, Options{})
	stream(stage.Limitation{Code: "client.lag", Text: "late"})
	two := l.run(p, Options{})
	a, b := one.stage("measure").Outputs[0], two.stage("measure").Outputs[0]
	if a.SHA256 != b.SHA256 || a.Limitations == b.Limitations {
		t.Fatalf("the observations are %+v and %+v, want equal bytes and other limitations", a, b)
	}
	if two.stage("grade").How != prov.Executed || result(t, l, one, "grade").Key == result(t, l, two, "grade").Key {
		t.Errorf("grade was %s although its input is weaker now", two.stage("grade").How)
	}
}

// A plan of random stages, each of which raises some limitations: whatever the
// shape, the end of every path holds all that was raised on it, and nobody can
// take one away from what is stored without being named.
func TestNoLimitationIsLostOnAnyGraph(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLab(t)
		n := rapid.IntRange(2, 7).Draw(rt, "stages")
		var lines []string
		raised := map[string]stage.LimitationSet{}
		needs := map[string][]string{}
		for i := range n {
			id := fmt.Sprintf("s%d", i)
			kind, output := "sum", "made.json"
			if i == 0 || rapid.Bool().Draw(rt, "observes") {
				kind, output = "see", "seen.json"
			}
			line := id + " " + kind
			if kind == "sum" {
				for j := range i {
					if rapid.Bool().Draw(rt, "needs") {
						line += fmt.Sprintf(" s%d", j)
						needs[id] = append(needs[id], fmt.Sprintf("s%d", j))
					}
				}
			}
			lines = append(lines, line)
			var ls []stage.Limitation
			for k := range rapid.IntRange(0, 3).Draw(rt, "raises") {
				lim := stage.Limitation{Code: "samples.few", Severity: stage.Caveat, Origin: id, AppliesTo: []string{stage.Every}, Text: fmt.Sprintf("reason %d", k)}
				ls = append(ls, lim)
			}
			raised[id] = stage.NewLimitationSet(ls...)
			l.raise(id, output, ls...)
		}
		p := l.plan(lines...)
		for i := range n { // what a stage does is a function of its key
			p.with(fmt.Sprintf("s%d", i), fmt.Sprintf(`{"n": %d}`, i))
		}
		r := l.run(p, Options{})
		var whole stage.LimitationSet
		sets := map[string]stage.LimitationSet{}
		for i := range n { // the slow, obvious version
			id := fmt.Sprintf("s%d", i)
			set := slices.Clone(raised[id])
			for _, need := range needs[id] {
				set = append(set, sets[need]...)
			}
			sets[id] = stage.NewLimitationSet(set...)
			whole = append(whole, set...)
			_, want := sets[id].Canonical()
			if got := r.stage(id).Outputs[0].Limitations; got != want {
				rt.Fatalf("%s: the output's set is %s, want that of %+v", id, got.Short(), sets[id])
			}
		}
		_, want := stage.NewLimitationSet(whole...).Canonical()
		if _, got := r.Limitations.Canonical(); got != want {
			rt.Fatalf("the run holds %+v, want %+v", r.Limitations, stage.NewLimitationSet(whole...))
		}
		if problems := l.problems(r); len(problems) > 0 {
			rt.Fatalf("an honest run has problems: %+v", problems)
		}
		l.dropOne(rt, r)
	})
}

// dropOne takes a limitation out of one stage's result, or edits it, and makes
// everything that names the result by digest agree again, as a forger would.
func (l *lab) dropOne(rt *rapid.T, r *Run) {
	var victims []string
	for _, s := range r.Stages {
		if len(result(l.t, l, r, s.ID).Limitations) > 0 {
			victims = append(victims, s.ID)
		}
	}
	if len(victims) == 0 {
		return
	}
	id := rapid.SampledFrom(victims).Draw(rt, "victim")
	res := result(l.t, l, r, id)
	at := rapid.IntRange(0, len(res.Limitations)-1).Draw(rt, "limitation")
	set := slices.Clone(res.Limitations)
	if rapid.Bool().Draw(rt, "edit") {
		set[at].Text = "nothing to see"
	} else {
		set = slices.Delete(set, at, at+1)
	}
	res.Limitations = stage.NewLimitationSet(set...)
	raw, d := res.Limitations.Canonical()
	for i := range res.Outputs {
		res.Outputs[i].Limitations = d
	}
	if _, err := l.x.Store.PutBytes(l.t.Context(), raw); err != nil {
		l.t.Fatal(err)
	}
	text, err := prov.EncodeResult(*res)
	if err != nil {
		l.t.Fatal(err)
	}
	sum, err := l.x.Store.PutBytes(l.t.Context(), text)
	if err != nil {
		l.t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(r.Dir, prov.ManifestName))
	if err != nil {
		l.t.Fatal(err)
	}
	m, err := prov.DecodeManifest(b)
	if err != nil {
		l.t.Fatal(err)
	}
	for i := range m.Stages {
		if m.Stages[i].ID == id {
			m.Stages[i].ResultSHA256 = &sum
		}
	}
	path := fmt.Sprintf("stages/%s/1/result.json", id)
	m.Files[path] = sum
	if err := os.WriteFile(filepath.Join(r.Dir, path), text, 0o666); err != nil {
		l.t.Fatal(err)
	}
	if b, err = prov.EncodeManifest(*m); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.Dir, prov.ManifestName), b, 0o666); err != nil {
		l.t.Fatal(err)
	}
	if problems := l.problems(r); len(problems) == 0 {
		rt.Fatalf("nobody noticed that %s lost a limitation", id)
	}
}

func TestAResultOfAnotherStageServesOnlyIfThatStageRaisedNothing(t *testing.T) {
	l := newLab(t)
	raises := func(_ context.Context, env stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		out.Limit(stage.Limitation{Code: "samples.few", Text: "few"})
		return out.JSON("made.json", map[string]any{})
	}
	l.do["old"], l.do["new"] = raises, raises
	l.run(l.plan("old make"), Options{})
	r := l.run(l.plan("new make"), Options{})
	wantStates(t, r, "new=ok/executed")
	if r.Limitations[0].Origin != "new" {
		t.Errorf("the limitation is raised in the name of %s", r.Limitations[0].Origin)
	}
	// Without limitations of its own a result speaks for any stage of its key.
	l.run(l.plan("plain make").with("plain", `{"n": 1}`), Options{})
	wantStates(t, l.run(l.plan("other make").with("other", `{"n": 1}`), Options{}), "other=ok/restored")
}

func TestEqualBytesWithDifferentLimitationsGiveBothSetsOn(t *testing.T) {
	l := newLab(t)
	stream := func(text string) func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error {
		return func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
			out.Limit(stage.Limitation{Code: "samples.few", Text: text})
			w, err := out.Create("seen.json")
			if err != nil {
				return err
			}
			fmt.Fprintln(w, "{}")
			return w.Close()
		}
	}
	l.do["a"], l.do["b"] = stream("one"), stream("two")
	r := l.run(l.plan("a see", "b see", "sum sum a b"), Options{})
	if got := len(result(t, l, r, "sum").Limitations); got != 2 {
		t.Errorf("sum has %d limitations, want those of both inputs", got)
	}
	l.verify(r)
}
