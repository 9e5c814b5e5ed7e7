package prov_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"anvil/pipeline/internal/disk"
	"anvil/pipeline/prov"
)

func makeRun(t *testing.T, ws, id string, at time.Time) {
	t.Helper()
	d, err := disk.Make(filepath.Join(ws, prov.RunsFolder, id), nil)
	must(t, err)
	defer d.Close()
	j, err := prov.CreateJournal(d, func() time.Time { return at })
	must(t, err)
	must(t, j.Append(prov.Line{Event: prov.RunStarted, Base: "base-run"}))
	must(t, j.Append(prov.Line{Event: prov.StageStarted, Stage: "measure", Kind: "measure", Attempt: 1}))
	must(t, j.Close())
}

const (
	older  = "a-20261130T080000Z-zzzzzz"
	first  = "b-20261130T090000Z-zzzzzz" // began in the same second as the next
	second = "b-20261130T090000Z-aaaaaa"
	dotted = "glm-4k.v1-2-20261129T090000Z-abc234"
)

func workspace(t *testing.T) string {
	t.Helper()
	ws := t.TempDir()
	at := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	makeRun(t, ws, older, at.Add(-time.Hour))
	makeRun(t, ws, first, at.Add(1*time.Millisecond))
	makeRun(t, ws, second, at.Add(2*time.Millisecond))
	makeRun(t, ws, dotted, at.Add(-24*time.Hour))
	must(t, os.MkdirAll(filepath.Join(ws, prov.RunsFolder, "notes"), 0o755))
	must(t, os.WriteFile(filepath.Join(ws, prov.RunsFolder, "c-20261130T100000Z-aaaaaa"), nil, 0o644))
	return ws
}

func TestRunsAreListedTheLastBegunFirst(t *testing.T) {
	ws := workspace(t)
	got, err := prov.RunIDs(ws)
	must(t, err)
	if diff := cmp.Diff([]string{second, first, older, dotted}, got); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if ids, err := prov.RunIDs(t.TempDir()); err != nil || len(ids) != 0 {
		t.Errorf("an empty workspace has runs %v, %v", ids, err)
	}
}

func TestOpenRunFindsARunByItsNames(t *testing.T) {
	ws := workspace(t)
	must(t, os.Mkdir(filepath.Join(ws, "elsewhere"), 0o755))
	must(t, os.CopyFS(filepath.Join(ws, "elsewhere", older), os.DirFS(filepath.Join(ws, prov.RunsFolder, older))))
	for name, want := range map[string]string{
		"latest": second, older: older, "a": older, "a-2026": older, "b-20261130T090000Z-a": second,
		"glm": dotted, filepath.Join(ws, prov.RunsFolder, first): first, filepath.Join(ws, "elsewhere", older): older,
		filepath.Join(ws, prov.RunsFolder, first) + "/": first,
	} {
		r, err := prov.OpenRun(ws, name)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if r.ID != want {
			t.Errorf("%q is %s, want %s", name, r.ID, want)
		}
		must(t, r.Close())
	}
	for _, name := range []string{"", "x", "notes", "..", ".", "../runs", "runs/none", "c", older + "x", ws} {
		if r, err := prov.OpenRun(ws, name); !errors.Is(err, prov.ErrNoRun) {
			t.Errorf("%q: got %v, %v, want ErrNoRun", name, r, err)
		}
	}
	if _, err := prov.OpenRun(t.TempDir(), "latest"); !errors.Is(err, prov.ErrNoRun) {
		t.Errorf("latest of nothing: got %v", err)
	}
	var ambiguous *prov.AmbiguousError
	if _, err := prov.OpenRun(ws, "b"); !errors.As(err, &ambiguous) {
		t.Errorf("got %v, want an *AmbiguousError", err)
	} else if diff := cmp.Diff([]string{second, first}, ambiguous.Candidates); diff != "" {
		t.Errorf("candidates (-want +got):\n%s", diff)
	}
}

func TestARunIsReadThroughItsOwnFolderAlone(t *testing.T) {
	ws := workspace(t)
	must(t, os.WriteFile(filepath.Join(ws, "secret"), []byte("x"), 0o644))
	must(t, os.Symlink(filepath.Join(ws, "secret"), filepath.Join(ws, prov.RunsFolder, older, "link")))
	r, err := prov.OpenRun(ws, older)
	must(t, err)
	defer r.Close()
	for _, name := range []string{"../../secret", "link", filepath.Join(ws, "secret")} {
		if b, err := r.ReadFile(name); err == nil {
			t.Errorf("%s: read %q from outside", name, b)
		}
	}
}

func TestListRunsDescribesEachRun(t *testing.T) {
	b := build(t, demo())
	makeRun(t, b.workspace, older, began)
	bad := filepath.Join(b.workspace, prov.RunsFolder, dotted)
	makeRun(t, b.workspace, dotted, began)
	must(t, os.WriteFile(filepath.Join(bad, prov.ManifestName), []byte("{"), 0o644))
	list, err := prov.ListRuns(b.workspace)
	must(t, err)
	var got []string
	for _, s := range list {
		base := "-"
		if s.Base != nil {
			base = *s.Base
		}
		got = append(got, fmt.Sprint(s.Run, " ", s.Plan, " ", s.Status, " ", base, " ", s.FinishedAt != nil, " ", s.Size > 100))
	}
	want := []string{
		thisRun + " demo ok " + baseRun + " true true",
		older + " a unfinished base-run false true",
		dotted + " glm-4k.v1-2 unreadable - false true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	text, err := json.Marshal(list)
	must(t, err)
	fits(t, "anvil.run-list/v1", text)
}

func TestVerifyOfAnUnfinishedRunSaysSo(t *testing.T) {
	ws := workspace(t)
	b := build(t, demo())
	r, err := prov.OpenRun(ws, older)
	must(t, err)
	defer r.Close()
	rep, err := prov.Verify(context.Background(), r, b.store, prov.VerifyOptions{})
	must(t, err)
	if rep.OK || len(rep.Problems) != 1 || rep.Problems[0].Code != prov.RunUnfinished {
		t.Errorf("got %+v, want the run named unfinished and nothing else", rep)
	}
	doc, err := prov.Show(context.Background(), r, prov.NewReader(b.store))
	must(t, err)
	if doc.Status != prov.Unfinished || len(doc.Stages) != 1 || doc.Stages[0].Status != prov.Lost {
		t.Errorf("got %+v, want measure lost", doc)
	}
}

func TestVerifyOfARunThatNeverBeganItsJournalSaysSo(t *testing.T) {
	b := build(t, demo())
	must(t, os.MkdirAll(filepath.Join(b.workspace, prov.RunsFolder, older), 0o755))
	r, err := prov.OpenRun(b.workspace, older)
	must(t, err)
	defer r.Close()
	rep, err := prov.Verify(context.Background(), r, b.store, prov.VerifyOptions{})
	must(t, err)
	if rep.OK || len(rep.Problems) != 1 || rep.Problems[0].Code != prov.RunUnfinished {
		t.Errorf("got %+v, want the run named unfinished", rep)
	}
}

func TestVerifyOfARunThatIsResumedKnowsWhatCameBefore(t *testing.T) {
	b := build(t, demo())
	d, err := disk.Open(b.dir, nil)
	must(t, err)
	defer d.Close()
	j, _, err := prov.ReopenJournal(d, time.Now)
	must(t, err)
	must(t, j.Append(prov.Line{Event: prov.RunResumed}))
	must(t, j.Close())
	must(t, d.MkdirAll("stages/grade/2"))
	must(t, d.WriteFile("stages/grade/2/claim.json", []byte("{}")))
	rep := b.verify(t)
	if len(rep.Problems) != 1 || rep.Problems[0].Code != prov.RunUnfinished {
		t.Errorf("got %+v, want the run named unfinished and nothing else", rep.Problems)
	}
	j, _, err = prov.ReopenJournal(d, time.Now)
	must(t, err)
	must(t, j.Append(prov.Line{Event: prov.StageFinished, Stage: "grade"}))
	must(t, j.Close())
	must(t, os.Remove(filepath.Join(b.dir, "stages/grade/2/claim.json")))
	flip(t, filepath.Join(b.dir, "plan.yaml"), 0, 1)
	if rep := b.verify(t); !names(rep, "plan.yaml") {
		t.Errorf("got %+v, want the changed plan named also while the run goes on", rep.Problems)
	}
}

func TestShowFollowsEveryLink(t *testing.T) {
	b := build(t, demo())
	doc, err := prov.Show(context.Background(), b.open(t), prov.NewReader(b.store))
	must(t, err)
	doc.Level = 3
	text, err := json.Marshal(doc)
	must(t, err)
	fits(t, "anvil.provenance-show/v1", text)
	var tree strings.Builder
	for _, r := range doc.Tree() {
		how := "-"
		if r.How != nil {
			how = string(*r.How)
		}
		fmt.Fprintf(&tree, "%s%s/%s %s %v\n", strings.Repeat("  ", r.Depth), r.Stage, r.Name, how, r.Seen)
	}
	want := `validate/doc.json executed false
  summarize/doc.json executed false
    weights/doc.json taken_over false
    measure/doc.json executed false
      /data.jsonl - false
    grade/doc.json executed false
      measure/doc.json executed true
      /data.jsonl - false
validate/rows.jsonl executed true
summarize/rows.jsonl executed true
grade/rows.jsonl executed true
measure/rows.jsonl executed true
weights/rows.jsonl taken_over false
`
	if diff := cmp.Diff(want, tree.String()); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

func TestShownStageWithoutAResultIsThreeFields(t *testing.T) {
	b, err := json.Marshal(prov.ShownStage{Stage: "grade", Kind: "grade", Status: prov.Blocked})
	must(t, err)
	if want := `{"stage":"grade","kind":"grade","status":"blocked"}`; string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
}

func TestShowListsAttemptsOfOtherRunsThatResultsStandOn(t *testing.T) {
	b := build(t, blueprint{lean: true, nodes: []node{{id: "a", kind: "grade"}, {id: "b", kind: "grade", from: []int{0}}}, manifest: func(m *prov.Manifest) {
		m.Stages = m.Stages[1:] // as if b were restored and a were of another run
		m.Stages[0].How = new(prov.Restored)
	}})
	doc, err := prov.Show(context.Background(), b.open(t), prov.NewReader(b.store))
	must(t, err)
	if len(doc.Stages) != 2 || !doc.Stages[1].Upstream || doc.Stages[1].How != nil || doc.Stages[1].Stage != "a" {
		t.Errorf("got %+v, want the attempt of a as upstream", doc.Stages)
	}
}

func TestDescribeNamesADamagedArtifact(t *testing.T) {
	b := build(t, demo())
	ctx := context.Background()
	o, err := prov.Describe(ctx, b.open(t), b.store)
	must(t, err)
	text, err := json.Marshal(o)
	must(t, err)
	fits(t, "anvil.run-show/v1", text)
	if len(o.Problems) != 0 || len(o.Stages) != 5 || o.Limitations.Count != 5 || len(o.Limitations.Set) != 5 {
		t.Errorf("got %+v", o)
	}
	res, err := prov.NewReader(b.store).Result(ctx, b.results[2])
	must(t, err)
	flip(t, b.store.Path(res.Outputs[1].SHA256), 3, 1)
	o, err = prov.Describe(ctx, b.open(t), b.store)
	must(t, err)
	if len(o.Problems) != 1 || o.Problems[0].Stage != "grade" || o.Problems[0].Name != "rows.jsonl" || o.Problems[0].Code != prov.ObjectDamaged {
		t.Errorf("got %+v, want grade/rows.jsonl named", o.Problems)
	}
}

func TestArtifactsListsWhatTheRunPublished(t *testing.T) {
	b := build(t, demo())
	list, err := prov.Artifacts(context.Background(), b.open(t), b.store, b.workspace)
	must(t, err)
	text, err := json.Marshal(list)
	must(t, err)
	fits(t, "anvil.artifact-list/v1", text)
	if len(list) != 10 {
		t.Fatalf("got %d artifacts, want ten", len(list))
	}
	for _, l := range list {
		if _, err := os.Stat(filepath.Join(b.workspace, filepath.FromSlash(l.Path))); err != nil || filepath.IsAbs(l.Path) {
			t.Errorf("%s/%s: %v", l.Stage, l.Name, err)
		}
	}
}

func TestReportFitsItsSchema(t *testing.T) {
	b := build(t, demo())
	flip(t, filepath.Join(b.dir, prov.PlanName), 0, 1)
	text, err := json.Marshal(b.verify(t))
	must(t, err)
	fits(t, "anvil.provenance-verify/v1", text)
}
