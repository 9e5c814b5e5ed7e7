package pipeline

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"anvil/pipeline/event"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
)

// What broke in other tools, row by row of the list of failures: the test of a
// row bears its name. Rows about schemas, weights and graders are tested where
// those are.
func TestRows(t *testing.T) {
	for row, test := range map[string]func(*testing.T){
		"go-task#1178: interrupted is not up to date":                 TestAKilledMeasurementIsLostUntilItsCaptureIsDecoded,
		"go-task 3.54.0: an edited configuration re-runs":             TestExplainNamesWhatChangedWithBothValues,
		"go-task#238: an output edited afterwards":                    rowEditedOutput,
		"nextflow#4894: every stage of explain has a reason":          rowEveryStageHasAReason,
		"dvc source: an earlier attempt's outputs stay":               rowEarlierOutputsStay,
		"dvc#11091: a later failure rolls nothing back":               TestResumeExecutesOnlyWhatIsNotDone,
		"dvc#9420: the surviving run is the base":                     rowSurvivingRunIsTheBase,
		"dvc#4551: always run is never restored":                      TestAnObservationIsMadeAgainInEveryNewRun,
		"dvc#4325: a live holder is named":                            TestALiveRunIsBusy,
		"snakemake#748: the plan is never written":                    rowPlanIsNeverWritten,
		"dvc#2822: of two that go on with one run one executes":       TestOfTwoProcessesThatResumeOneRunOneExecutesEachStage,
		"hecatomb#9: a full disk":                                     TestTheLimitOnAFilesSizeIsAFullDisk,
		"bazel#14543: success without outputs":                        TestOutputsAreHeldToWhatTheKindDeclares,
		"bazel#6126: a poisoned entry, and a salt against it":         rowPoisonedEntry,
		"bazel#3259: the environment re-executes nothing":             rowEnvironment,
		"argo#14796: a failure behind the measurement repeats it not": rowFailureBehindTheMeasurement,
		"argo#12490: the key points to the attempt that succeeded":    TestRetriesKeepEveryAttemptAndTheLastIsWhatTheKeyPointsTo,
		"argo#13161: collection takes nothing that a run needs":       TestADerivedRunOutlivesItsBase,
		"argo#13161: collection beside live runs":                     TestCollectionBesideRunningPlansRemovesNothingThatTheyNeed,
		"bazel#14723: a time stamp that was put back fools nothing":   rowFixedTimestamps,
		"nextflow#1285: killed is lost, never ok":                     TestAKilledMeasurementIsLostUntilItsCaptureIsDecoded,
		"nextflow#1644: a result is not trusted without its objects":  rowResultWithoutItsObjects,
	} {
		t.Run(row, test)
	}
}

func chain(l *lab) labPlan { return l.plan("measure look", "grade make measure", "sum sum grade") }

func rowEditedOutput(t *testing.T) { //nolint:thelper // a whole test
	l := newLab(t)
	p := chain(l)
	r := l.run(p, Options{})
	out := r.stage("grade").Outputs[0]
	l.damage(out.SHA256)
	if !named(l.problems(r), out.SHA256.String()) {
		t.Errorf("verify does not name the object: %+v", l.problems(r))
	}
	again := l.run(p, Options{From: []string{"grade"}})
	if got := again.stage("grade"); got.How != prov.Executed || got.Outputs[0].SHA256 != out.SHA256 {
		t.Errorf("grade was %s", got.How)
	}
	if texts := l.seen.texts(event.StageWarning); len(texts) != 1 || !strings.Contains(texts[0], "made.json of grade") {
		t.Errorf("the user was told %q", texts)
	}
	readable := filepath.Join(again.Dir, "artifacts/grade/made.json")
	b, err := os.ReadFile(readable)
	if err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if err := os.WriteFile(readable, b, 0o666); err != nil {
		t.Fatal(err)
	}
	if !named(l.problems(again), "artifacts/grade/made.json") {
		t.Errorf("verify does not name the copy: %+v", l.problems(again))
	}
}

func named(problems []prov.Problem, what string) bool {
	for _, p := range problems {
		if strings.Contains(p.Path+p.Expected+p.Name, what) {
			return true
		}
	}
	return false
}

func rowEveryStageHasAReason(t *testing.T) { //nolint:thelper // a whole test
	l := newLab(t)
	p := chain(l)
	for range 2 {
		for _, opt := range []Options{{}, {Force: []string{"grade"}}} {
			for id, d := range explained(t, l, p, opt) {
				if d.Will == "" || d.Reason == "" {
					t.Errorf("%s: %+v", id, d)
				}
			}
		}
		l.run(p, Options{})
	}
}

func rowEarlierOutputsStay(t *testing.T) { //nolint:thelper // a whole test
	l := newLab(t)
	p := chain(l)
	l.run(p, Options{})
	good := l.run(p, Options{Only: []string{"grade"}})
	l.do["grade"] = fails
	bad := l.run(p, Options{Only: []string{"grade"}})
	if bad.Exit != 4 {
		t.Errorf("exit %d, want 4", bad.Exit)
	}
	l.verify(good)
	if _, err := os.Stat(filepath.Join(good.Dir, "artifacts/grade/made.json")); err != nil {
		t.Error(err)
	}
}

func rowSurvivingRunIsTheBase(t *testing.T) { //nolint:thelper // a whole test
	l := newLab(t)
	p := chain(l)
	first, second := l.run(p, Options{}), l.run(p, Options{})
	if err := os.RemoveAll(second.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Collect(t.Context(), l.dir, l.x.Store, false, true); err != nil {
		t.Fatal(err)
	}
	l.reopen(nil)
	r := l.run(p, Options{Only: []string{"grade"}})
	if r.Base != first.ID {
		t.Errorf("base is %s, want %s", r.Base, first.ID)
	}
	l.verify(r)
}

func rowPlanIsNeverWritten(t *testing.T) { //nolint:thelper // a whole test
	l := newLab(t)
	p := chain(l)
	folder := t.TempDir()
	p.File = filepath.Join(folder, "plan.yaml")
	if err := os.WriteFile(p.File, p.Source, 0o444); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(p.File)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(folder, 0o755) })
	if r := l.run(p, Options{}); r.Exit != 0 {
		t.Errorf("%s", states(r))
	}
	after, err := os.Stat(p.File)
	if err != nil || !after.ModTime().Equal(before.ModTime()) || after.Size() != before.Size() {
		t.Errorf("the plan was touched: %v", err)
	}
}

func rowPoisonedEntry(t *testing.T) { //nolint:thelper // a whole test
	l := newLab(t)
	p := l.plan("a make", "b make a")
	first := l.run(p, Options{})
	l.damage(first.stage("b").Outputs[0].SHA256)
	wantDecision(t, explained(t, l, p, Options{})["b"], WillExecute, MissingObject)
	r := l.run(p, Options{})
	wantStates(t, r, "a=ok/restored b=ok/executed")
	if aside, err := os.ReadDir(filepath.Join(l.dir, store.Folder, "trash")); err != nil || len(aside) != 1 {
		t.Errorf("the trash holds %v, %v", aside, err)
	}
	p.Salt = "disowned"
	wantStates(t, l.run(p, Options{}), "a=ok/executed b=ok/executed")
}

func rowEnvironment(t *testing.T) { //nolint:thelper // a whole test
	l := newLab(t)
	p := chain(l)
	l.run(p, Options{})
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ", "USER"} {
		t.Setenv(name, "/elsewhere")
	}
	for id, d := range explained(t, l, p, Options{From: []string{"grade"}}) {
		if id != "measure" && d.Will != WillRestore {
			t.Errorf("%s would %s: %s", id, d.Will, d.Reason)
		}
	}
}

func rowFailureBehindTheMeasurement(t *testing.T) { //nolint:thelper // a whole test
	l := newLab(t)
	p := chain(l)
	l.do["grade"] = fails
	l.run(p, Options{})
	l.do["grade"] = nil
	l.do["measure"] = func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error {
		t.Error("the endpoint was asked again")
		return errBroken
	}
	r := l.run(p, Options{Resume: ResumeNewest})
	if r.stage("measure").Attempt != 1 || r.Exit != 0 {
		t.Errorf("measure has attempt %d, exit %d", r.stage("measure").Attempt, r.Exit)
	}
}

func rowFixedTimestamps(t *testing.T) { //nolint:thelper // a whole test
	l := newLab(t)
	p := chain(l)
	r := l.run(p, Options{})
	out := r.stage("grade").Outputs[0].SHA256
	before, err := os.Stat(l.x.Store.Path(out))
	if err != nil {
		t.Fatal(err)
	}
	l.damage(out)
	if err := os.Chtimes(l.x.Store.Path(out), before.ModTime(), before.ModTime()); err != nil {
		t.Fatal(err)
	}
	if !named(l.problems(r), out.String()) {
		t.Error("verify does not name an object whose time stamp was put back")
	}
	if again := l.run(p, Options{From: []string{"grade"}}); again.stage("grade").How != prov.Executed {
		t.Errorf("grade was %s", again.stage("grade").How)
	}
}

// A file system that drops the sync of an output loses it with the power: the
// result is there and its object is not.
func rowResultWithoutItsObjects(t *testing.T) { //nolint:thelper // a whole test
	l := newLab(t)
	p := l.plan("a make", "b make a")
	l.do["b"] = fails
	first := l.run(p, Options{})
	if err := os.Remove(l.x.Store.Path(first.stage("a").Outputs[0].SHA256)); err != nil {
		t.Fatal(err)
	}
	l.do["b"] = nil
	r := l.run(p, Options{Resume: ResumeNewest})
	wantStates(t, r, "a=ok/executed b=ok/executed")
	if r.stage("a").Attempt != 2 {
		t.Errorf("a has attempt %d, want 2", r.stage("a").Attempt)
	}
	l.verify(r)
}

// Whatever leaf of a configuration changes, the difference names it alone and
// gives both values.
func TestADifferenceNamesTheOneFieldThatChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := drawObject(t, 3)
		after := clone(before)
		path, old := mutate(t, after, "with")
		diffs := diffJSON(nil, "with", before, after)
		if len(diffs) != 1 || diffs[0].Path != path || len(diffJSON(nil, "", diffs[0].Before, old)) > 0 || diffs[0].After != "mutated" {
			t.Fatalf("differences are %+v, want the one at %s, from %v", diffs, path, old)
		}
		if back := diffJSON(nil, "with", before, clone(before)); len(back) > 0 {
			t.Fatalf("equal configurations differ: %+v", back)
		}
	})
}

func drawObject(t *rapid.T, depth int) map[string]any {
	out := map[string]any{}
	for range rapid.IntRange(1, 3).Draw(t, "fields") {
		out[rapid.StringMatching(`[a-z]{1,4}`).Draw(t, "key")] = drawValue(t, depth)
	}
	return out
}

func drawValue(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 4).Draw(t, "kind")
	switch {
	case kind == 0 && depth > 0:
		return drawObject(t, depth-1)
	case kind == 1 && depth > 0:
		return []any{drawValue(t, depth-1), drawValue(t, depth-1)}
	case kind == 2:
		return json.Number("1.50")
	case kind == 3:
		return nil
	}
	return rapid.StringMatching(`[a-z]{0,3}`).Draw(t, "text")
}

// clone reads a value back from its text, as a stored result is read; numbers
// may be spelled otherwise there.
func clone(v map[string]any) map[string]any {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return parse([]byte(strings.ReplaceAll(string(raw), "1.50", "1.5"))).(map[string]any)
}

// mutate changes one leaf and returns where it is and what it was.
func mutate(t *rapid.T, v map[string]any, path string) (string, any) {
	k := rapid.SampledFrom(slices.Sorted(maps.Keys(v))).Draw(t, "field")
	path += "." + k
	switch x := v[k].(type) {
	case map[string]any:
		return mutate(t, x, path)
	case []any:
		old := x[0]
		x[0] = "mutated"
		return path + "[0]", old
	default:
		v[k] = "mutated"
		return path, x
	}
}
