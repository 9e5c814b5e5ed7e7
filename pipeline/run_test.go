package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/pipeline/digest"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

func TestAPlainRunExecutesEveryStageAndProves(t *testing.T) {
	l := newLab(t)
	r := l.run(l.plan("scout look", "measure look scout", "grade make measure", "sum sum grade measure", "prove prove sum"), Options{})
	wantStates(t, r, "scout=ok/executed measure=ok/executed grade=ok/executed sum=ok/executed prove=ok/executed")
	if r.Status != prov.OK || r.Exit != 0 {
		t.Errorf("run is %s, exit %d", r.Status, r.Exit)
	}
	for _, name := range []string{
		"run.json", "statement.json", "plan.yaml", "plan.resolved.json", "journal.jsonl",
		"stages/grade/1/claim.json", "stages/grade/1/result.json", "stages/grade/1/statement.json", "stages/grade/1/log", "artifacts/grade/made.json",
	} {
		if _, err := os.Stat(filepath.Join(r.Dir, name)); err != nil {
			t.Errorf("%v", err)
		}
	}
	l.verify(r)
}

func TestARestoredStageLeavesOneLineAndNoAttempt(t *testing.T) {
	l := newLab(t)
	p := l.plan("import make", "grade make import").file("import", "data.txt", "a\nb\n")
	first := l.run(p, Options{})
	second := l.run(p, Options{})
	wantStates(t, first, "import=ok/executed grade=ok/executed")
	wantStates(t, second, "import=ok/restored grade=ok/restored")
	if first.stage("grade").Result != second.stage("grade").Result {
		t.Error("the restored stage stands on another result")
	}
	if _, err := os.Stat(filepath.Join(second.Dir, "stages")); !os.IsNotExist(err) {
		t.Errorf("a run that restored everything has attempts: %v", err)
	}
	var lines []string
	for _, line := range journal(t, second) {
		lines = append(lines, line.Event+" "+line.Stage)
	}
	want := []string{"run.started ", "stage.restored import", "stage.restored grade", "run.finished "}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	l.verify(second)
}

func TestAnObservationIsMadeAgainInEveryNewRun(t *testing.T) {
	l := newLab(t)
	p := l.plan("measure look", "grade make measure")
	first, second := l.run(p, Options{}), l.run(p, Options{})
	wantStates(t, second, "measure=ok/executed grade=ok/executed")
	one, two := result(t, l, first, "measure"), result(t, l, second, "measure")
	if one.Key != two.Key {
		t.Errorf("the keys of an unchanged observation differ: %s and %s", one.Key.Short(), two.Key.Short())
	}
}

func TestAPureStageIsRestoredBehindAnObservationThatGaveTheSame(t *testing.T) {
	l := newLab(t)
	l.do["measure"] = func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		return out.JSON("seen.json", map[string]any{"tokens": 37})
	}
	p := l.plan("measure look", "grade make measure")
	l.run(p, Options{})
	wantStates(t, l.run(p, Options{}), "measure=ok/executed grade=ok/restored")
}

func TestTouchingOrMovingAFileRunsNothingAgain(t *testing.T) {
	l := newLab(t)
	l.run(l.plan("grade make").file("grade", "a.txt", "same"), Options{})
	if err := os.Mkdir(filepath.Join(l.dir, "elsewhere"), 0o777); err != nil {
		t.Fatal(err)
	}
	wantStates(t, l.run(l.plan("grade make").file("grade", "elsewhere/b.txt", "same"), Options{}), "grade=ok/restored")
	wantStates(t, l.run(l.plan("grade make").file("grade", "a.txt", "other"), Options{}), "grade=ok/executed")
}

func TestTheConfigurationTheSaltAndTheContractEnterTheKey(t *testing.T) {
	l := newLab(t)
	l.run(l.plan("grade make").with("grade", `{"level": 1}`), Options{})
	wantStates(t, l.run(l.plan("grade make").with("grade", `{"level": 1.0}`), Options{}), "grade=ok/restored")
	wantStates(t, l.run(l.plan("grade make").with("grade", `{"level": 2}`), Options{}), "grade=ok/executed")
	salted := l.plan("grade make").with("grade", `{"level": 1}`)
	salted.Salt = "new"
	wantStates(t, l.run(salted, Options{}), "grade=ok/executed")
	raised := l.plan("grade make").with("grade", `{"level": 1}`)
	k := raised.stage("grade").Kind.(labKind)
	k.spec.Contract = 2
	raised.stage("grade").Kind = k
	wantStates(t, l.run(raised, Options{}), "grade=ok/executed")
}

func TestForceExecutesWhatIsKnown(t *testing.T) {
	l := newLab(t)
	p := l.plan("a make", "b make a")
	l.run(p, Options{})
	wantStates(t, l.run(p, Options{Force: []string{"b"}}), "a=ok/restored b=ok/executed")
}

func TestOnlyExecutesTheNamedStageAndLeavesTheRestAlone(t *testing.T) {
	l := newLab(t)
	p := l.plan("weights see", "measure look", "grade make measure", "sum sum weights grade", "prove prove sum").file("grade", "data.txt", "expected: 4")
	first := l.run(p, Options{})
	l.do["measure"] = func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error {
		t.Error("the measurement ran again")
		return errBroken
	}
	before, _ := os.Stat(l.x.Store.Path(first.stage("measure").Outputs[0].SHA256))

	p.file("grade", "data.txt", "expected: 5")
	r := l.run(p, Options{Only: []string{"grade"}})
	wantStates(t, r, "weights=ok/taken_over measure=ok/taken_over grade=ok/executed sum=stale prove=stale")
	if r.Exit != 0 || r.Status != prov.OK || r.Base != first.ID {
		t.Errorf("run is %s, exit %d, base %s", r.Status, r.Exit, r.Base)
	}
	if got := r.stage("measure").Attempt; got != 1 {
		t.Errorf("measure has attempt %d", got)
	}
	after, _ := os.Stat(l.x.Store.Path(first.stage("measure").Outputs[0].SHA256))
	if !before.ModTime().Equal(after.ModTime()) || !os.SameFile(before, after) {
		t.Error("the measurement's artifact was touched")
	}
	want := []string{"plan", "run", p.File, "--from", "sum", "--base", r.ID}
	if diff := cmp.Diff(want, r.Refresh); diff != "" {
		t.Errorf("refresh (-want +got):\n%s", diff)
	}
	l.verify(r)

	// The named stage is executed also when its key is known.
	again := l.run(p, Options{Only: []string{"grade"}})
	wantStates(t, again, "weights=ok/taken_over measure=ok/taken_over grade=ok/executed sum=stale prove=stale")
	if again.Base != r.ID {
		t.Errorf("base is %s, want the newest that serves: %s", again.Base, r.ID)
	}

	fresh := l.run(p, Options{From: []string{"sum"}, Base: r.ID})
	wantStates(t, fresh, "weights=ok/taken_over measure=ok/taken_over grade=ok/taken_over sum=ok/executed prove=ok/executed")
	l.verify(fresh)
}

func TestFromRestoresWhatIsKnown(t *testing.T) {
	l := newLab(t)
	p := l.plan("measure look", "grade make measure", "sum sum grade")
	l.run(p, Options{})
	r := l.run(p, Options{From: []string{"grade"}})
	wantStates(t, r, "measure=ok/taken_over grade=ok/restored sum=ok/restored")
	l.verify(r)
	wantStates(t, l.run(p, Options{From: []string{"grade"}, Force: []string{"sum"}}), "measure=ok/taken_over grade=ok/restored sum=ok/executed")
	wantStates(t, l.run(p, Options{From: []string{"measure"}}), "measure=ok/executed grade=ok/executed sum=ok/executed")
}

func TestAChildCanBeNamedAndItsSiblingsAreTakenOver(t *testing.T) {
	l := newLab(t)
	p := l.plan("m[c=1] look", "m[c=2] look", "g[c=1] make m[c=1]", "g[c=2] make m[c=2]", "sum sum g[c=1] g[c=2]")
	l.run(p, Options{})
	r := l.run(p, Options{Only: []string{"g[c=2]"}})
	wantStates(t, r, "m[c=1]=ok/taken_over m[c=2]=ok/taken_over g[c=1]=ok/taken_over g[c=2]=ok/executed sum=stale")
	r = l.run(p, Options{Only: []string{"g"}})
	wantStates(t, r, "m[c=1]=ok/taken_over m[c=2]=ok/taken_over g[c=1]=ok/executed g[c=2]=ok/executed sum=stale")
}

func TestAnUnknownStageIsNamedWithThoseThatExist(t *testing.T) {
	l := newLab(t)
	p := l.plan("measure look", "grade make measure")
	for _, opt := range []Options{{Only: []string{"grde"}}, {From: []string{"grde"}}, {Force: []string{"grde"}}, {Only: []string{"grade"}, From: []string{"grade"}}} {
		_, err := l.x.Run(t.Context(), p.Plan, opt)
		if _, ok := errors.AsType[*SelectionError](err); !ok {
			t.Errorf("%+v gives %v, want a *SelectionError", opt, err)
		}
	}
	if got := l.runFolders(); len(got) > 0 {
		t.Errorf("a refused run left %v", got)
	}
}

func TestWithoutABaseThereIsNothingToBuildOn(t *testing.T) {
	l := newLab(t)
	p := l.plan("measure look", "grade make measure")
	_, err := l.x.Run(t.Context(), p.Plan, Options{Only: []string{"grade"}})
	var base *BaseError
	if !errors.As(err, &base) || !strings.Contains(err.Error(), "measure") {
		t.Errorf("got %v, want a *BaseError that names measure", err)
	}
	if got := l.runFolders(); len(got) > 0 {
		t.Errorf("a refused run left %v", got)
	}
	// A stage that needs nothing needs no base, but a named one must exist.
	if _, err := l.x.Run(t.Context(), p.Plan, Options{Only: []string{"grade"}, Base: "nonesuch"}); !errors.As(err, &base) {
		t.Errorf("got %v, want a *BaseError", err)
	}
}

func TestABaseThatObservedSomethingElseIsRefusedFieldByField(t *testing.T) {
	l := newLab(t)
	lines := []string{"measure look", "grade make measure"}
	first := l.run(l.plan(lines...).with("measure", `{"load": {"concurrency": 1, "mode": "closed"}, "stop": [1]}`).file("measure", "d.txt", "one"), Options{})
	p := l.plan(lines...).with("measure", `{"load": {"concurrency": 4, "mode": "closed"}, "stop": [1, 2]}`).file("measure", "d.txt", "two")
	_, err := l.x.Run(t.Context(), p.Plan, Options{Only: []string{"grade"}})
	var base *BaseError
	if !errors.As(err, &base) {
		t.Fatalf("got %v, want a *BaseError", err)
	}
	want := []Difference{
		{"with.load.concurrency", json.Number("1"), json.Number("4")},
		{"with.stop[1]", nil, json.Number("2")},
		{"with.file.sha256", digest.FromBytes([]byte("one")).String(), digest.FromBytes([]byte("two")).String()},
	}
	if diff := cmp.Diff(want, base.Differences); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	if base.Base != first.ID || base.Stage != "measure" {
		t.Errorf("the error names run %q and stage %q", base.Base, base.Stage)
	}
	if len(l.runFolders()) != 1 {
		t.Error("a refused run left a folder")
	}
}

func TestTheBaseIsTheNewestRunThatServes(t *testing.T) {
	l := newLab(t)
	p := l.plan("measure look", "grade make measure")
	good := l.run(p, Options{})
	l.do["measure"] = fails
	bad := l.run(p, Options{})
	wantStates(t, bad, "measure=failed/executed grade=blocked(measure)")
	r := l.run(p, Options{Only: []string{"grade"}})
	if r.Base != good.ID {
		t.Errorf("base is %s, want %s", r.Base, good.ID)
	}
	base, err := l.x.FindBase(t.Context(), "lab", map[string][]string{"measure": nil, "grade": {"measure"}}, Options{From: []string{"grade"}})
	if err != nil || base.Run != r.ID || base.Params["depth"] != json.Number("3") {
		t.Errorf("base is %+v, %v, want run %s with its parameters", base, err, r.ID)
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	l := newLab(t)
	p := l.plan("import make", "measure look", "grade make import measure")
	r := l.run(p, Options{DryRun: true})
	if len(r.Decisions) != 3 || r.Decisions[0].Will != WillExecute || r.Decisions[0].Reason != First || r.Decisions[2].Reason != Upstream {
		t.Errorf("decisions are %+v", r.Decisions)
	}
	entries, err := os.ReadDir(l.dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("a dry run left %v, %v", entries, err)
	}
	if len(l.seen.events) > 0 {
		t.Errorf("a dry run told %v", l.seen.events)
	}
}

func journal(tb testing.TB, r *Run) []prov.Line {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join(r.Dir, prov.JournalName))
	if err != nil {
		tb.Fatal(err)
	}
	chain, err := prov.ReadJournal(b)
	if err != nil {
		tb.Fatal(err)
	}
	return chain.Lines
}

func result(tb testing.TB, l *lab, r *Run, id string) *prov.Result {
	tb.Helper()
	res, err := prov.DecodeResult(l.object(r.stage(id).Result))
	if err != nil {
		tb.Fatal(err)
	}
	return res
}

// A flag that changes nothing is a mistake that nobody would notice.
func TestForceOutsideWhatIsExecutedIsRefused(t *testing.T) {
	l := newLab(t)
	p := l.plan("a make", "b make a", "c make b", "other make a")
	l.run(p, Options{})
	for _, opt := range []Options{
		{Only: []string{"c"}, Force: []string{"a"}},
		{Only: []string{"b"}, Force: []string{"c"}},
		{From: []string{"c"}, Force: []string{"c", "other"}},
	} {
		_, err := l.x.Run(t.Context(), p.Plan, opt)
		wrong, ok := errors.AsType[*SelectionError](err)
		if !ok || !strings.Contains(err.Error(), "--force: "+opt.Force[len(opt.Force)-1]) || wrong.Hint() == "" {
			t.Errorf("%+v: got %v, want a *SelectionError that names the stage", opt, err)
		}
	}
	wantStates(t, l.run(p, Options{From: []string{"b"}, Force: []string{"c"}}), "a=ok/taken_over b=ok/restored c=ok/executed other=ok/taken_over")
	wantStates(t, l.run(p, Options{Only: []string{"c"}, Force: []string{"c"}}), "a=ok/taken_over b=ok/taken_over c=ok/executed other=ok/taken_over")
}
