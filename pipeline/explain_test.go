package pipeline

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/pipeline/digest"
	"anvil/pipeline/plan"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

// explained maps each stage to its decision.
func explained(t *testing.T, l *lab, p labPlan, opt Options) map[string]Decision {
	t.Helper()
	opt.DryRun = true
	r, err := l.x.Run(t.Context(), p.Plan, opt)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]Decision{}
	for _, d := range r.Decisions {
		out[d.ID] = d
	}
	return out
}

func wantDecision(t *testing.T, got Decision, will Will, reason Reason, diffs ...Difference) {
	t.Helper()
	if diffs == nil {
		diffs = []Difference{}
	}
	want := Decision{ID: got.ID, Will: will, Reason: reason, Differences: diffs}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
}

func TestExplainNamesWhatChangedWithBothValues(t *testing.T) {
	lines := []string{"measure look", "grade make measure", "sum sum grade"}
	l := newLab(t)
	first := func() labPlan {
		return l.plan(lines...).with("grade", `{"graders": [{"id": "a", "any": ["blue"]}]}`).file("grade", "d.txt", "one")
	}
	l.run(first(), Options{})
	from := Options{From: []string{"grade"}}

	t.Run("nothing", func(t *testing.T) {
		got := explained(t, l, first(), from)
		wantDecision(t, got["measure"], WillTakeOver, FromBase)
		wantDecision(t, got["grade"], WillRestore, Cached)
		wantDecision(t, got["sum"], WillRestore, Cached)
	})
	t.Run("a field", func(t *testing.T) {
		p := first().with("grade", `{"graders": [{"id": "a", "any": ["red"]}]}`)
		change := Difference{"with.graders[0].any[0]", "blue", "red"}
		got := explained(t, l, p, from)
		wantDecision(t, got["grade"], WillExecute, ConfigChanged, change)
		wantDecision(t, got["sum"], WillExecute, Upstream)
		// Also where the measurement runs anew and no input is known.
		got = explained(t, l, p, Options{})
		wantDecision(t, got["measure"], WillExecute, IsObservational)
		wantDecision(t, got["grade"], WillExecute, ConfigChanged, change)
	})
	t.Run("a file", func(t *testing.T) {
		p := first().file("grade", "d.txt", "two")
		wantDecision(t, explained(t, l, p, from)["grade"], WillExecute, InputChanged,
			Difference{"with.file.sha256", digest.FromBytes([]byte("one")).String(), digest.FromBytes([]byte("two")).String()})
	})
	t.Run("the contract", func(t *testing.T) {
		p := first()
		k := p.stage("grade").Kind.(labKind)
		k.spec.Contract = 2
		p.stage("grade").Kind = k
		wantDecision(t, explained(t, l, p, from)["grade"], WillExecute, ContractChanged, Difference{"contract", 1, 2})
	})
	t.Run("forced", func(t *testing.T) {
		wantDecision(t, explained(t, l, first(), Options{From: []string{"grade"}, Force: []string{"grade"}})["grade"], WillExecute, IsForced)
	})
	t.Run("only", func(t *testing.T) {
		got := explained(t, l, first(), Options{Only: []string{"grade"}})
		wantDecision(t, got["grade"], WillExecute, IsForced)
		if _, ok := got["sum"]; ok {
			t.Error("a stage that was not asked for is explained")
		}
	})
	t.Run("a missing object", func(t *testing.T) {
		r := l.run(first(), from)
		path := l.x.Store.Path(r.stage("grade").Outputs[0].SHA256)
		kept, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		wantDecision(t, explained(t, l, first(), from)["grade"], WillExecute, MissingObject)
		if err := os.WriteFile(path, kept, 0o444); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a damaged object stays where it is", func(t *testing.T) {
		r := l.run(first(), from)
		d := r.stage("grade").Outputs[0].SHA256
		l.damage(d)
		wantDecision(t, explained(t, l, first(), from)["grade"], WillExecute, MissingObject)
		if _, err := os.Stat(l.x.Store.Path(d)); err != nil {
			t.Errorf("explain moved it: %v", err)
		}
		if kept, err := os.ReadDir(filepath.Join(l.dir, ".anvil", "trash")); err != nil || len(kept) > 0 {
			t.Errorf("the trash holds %v, %v", kept, err)
		}
	})
}

func TestExplainSaysWhatWouldBeBlocked(t *testing.T) {
	l := newLab(t)
	l.do["scout"] = func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		out.Finding("min_ok", "2 of 4 answered")
		return out.JSON("seen.json", map[string]any{})
	}
	p := l.plan("scout gate", "after make scout", "more make after", "other make")
	first := l.run(p, Options{})
	got := explained(t, l, p, Options{Reuse: first.ID})
	wantDecision(t, got["scout"], WillReuse, IsReused)
	wantDecision(t, got["after"], WillBlock, Upstream)
	wantDecision(t, got["more"], WillBlock, Upstream)
	wantDecision(t, got["other"], WillRestore, Cached)
}

func TestExplainSaysSaltAndFirst(t *testing.T) {
	l := newLab(t)
	p := l.plan("a make", "b make a")
	wantDecision(t, explained(t, l, p, Options{})["a"], WillExecute, First)
	wantDecision(t, explained(t, l, p, Options{})["b"], WillExecute, Upstream)
	l.run(p, Options{})
	p.Salt = "new"
	wantDecision(t, explained(t, l, p, Options{})["a"], WillExecute, SaltChanged, Difference{"salt", "", "new"})
}

func TestReuseTakesOverEqualObservationsAndSaysSo(t *testing.T) {
	l := newLab(t)
	p := l.plan("scout look", "measure look scout", "grade make measure").with("scout", `{"n": 1}`)
	first := l.run(p, Options{})
	got := explained(t, l, p, Options{Reuse: first.ID})
	wantDecision(t, got["scout"], WillReuse, IsReused)
	wantDecision(t, got["grade"], WillExecute, LimitationsChanged, got["grade"].Differences...)

	r := l.run(p, Options{Reuse: first.ID})
	// The measurement's key holds the scout's set, which the reuse enlarged: it
	// stands on the scout as it was, and bears the same limitation itself.
	wantStates(t, r, "scout=ok/reused measure=ok/reused grade=ok/executed")
	if len(r.Limitations) != 1 || r.Limitations[0].Code != "run.reused-evidence" || r.Limitations[0].Origin != "run" {
		t.Errorf("limitations are %+v", r.Limitations)
	}
	l.verify(r)

	// What was reused serves as a base, and its limitation goes along.
	derived := l.run(p, Options{Only: []string{"grade"}})
	wantStates(t, derived, "scout=ok/taken_over measure=ok/taken_over grade=ok/executed")
	if derived.Base != r.ID || len(derived.Limitations) != 1 {
		t.Errorf("base %s, limitations %+v", derived.Base, derived.Limitations)
	}
	l.verify(derived)

	// Another question is asked anew.
	r = l.run(l.plan("scout look", "measure look scout", "grade make measure").with("scout", `{"n": 2}`), Options{Reuse: first.ID})
	wantStates(t, r, "scout=ok/executed measure=ok/executed grade=ok/executed")
}

// The key "sha256" of a configuration is no digest of a file.
func TestAConfigurationsOwnDigestIsConfiguration(t *testing.T) {
	n := &node{Stage: &plan.Stage{KeyConfig: []byte(`{"sha256":"ab"}`)}}
	c := compare(&prov.Result{Config: []byte(`{}`)}, n, &bound{}, "")
	if got := c.reason(); got != ConfigChanged || len(c.list()) != 1 {
		t.Errorf("got %s of %+v", got, c.list())
	}
}

// Where a run goes on, explain does: a damaged result explains nothing.
func TestExplainPassesOverADamagedResult(t *testing.T) {
	l := newLab(t)
	p := l.plan("a make", "b make a", "c make b")
	r := l.run(p, Options{})
	l.damage(r.stage("a").Result)
	l.reopen(nil)
	if _, err := l.x.Run(t.Context(), p.Plan, Options{From: []string{"c"}, DryRun: true}); err != nil {
		t.Error(err)
	}
	wantStates(t, l.run(p, Options{From: []string{"c"}}), "a=ok/executed b=ok/restored c=ok/restored")
}
