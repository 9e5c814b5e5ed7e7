package pipeline

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"anvil/pipeline/internal/disk"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

// interrupted runs a plan whose measurement is interrupted and leaves partial
// evidence.
func interrupted(t *testing.T, l *lab) (labPlan, *Run) {
	t.Helper()
	interrupt := make(chan struct{})
	l.do["measure"] = func(_ context.Context, env stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		close(interrupt)
		<-env.Stop
		if err := out.JSON("seen.json", map[string]any{"requests": 3}); err != nil {
			return err
		}
		return stage.ErrAborted
	}
	p := l.plan("scout look", "measure look scout", "grade make measure")
	r := l.run(p, Options{Interrupt: interrupt})
	l.do["measure"] = nil
	return p, r
}

// One that could not write its last paper has not ended: it is resumed, and proves.
func TestARunWithoutItsStatementHasNotEnded(t *testing.T) {
	l := newLab(t)
	l.reopen(func(s disk.Step) error {
		if strings.HasSuffix(s.Path, ".statement.json.tmp") && !strings.Contains(s.Path, "stages/") {
			return syscall.EIO
		}
		return nil
	})
	p := l.plan("a make", "b make a")
	first, err := l.x.Run(t.Context(), p.Plan, Options{})
	if err == nil {
		t.Fatal("the statement was written")
	}
	l.reopen(nil)
	r := l.run(p, Options{Resume: ResumeNewest})
	if r.ID != first.ID {
		t.Errorf("resumed %s, want %s", r.ID, first.ID)
	}
	l.verify(r)
}

// What an earlier attempt published stays, listed; so it is verified.
func TestADamagedEarlierAttemptIsFound(t *testing.T) {
	l := newLab(t)
	p, first := interrupted(t, l)
	r := l.run(p, Options{Resume: first.ID})
	l.verify(r)
	raw, err := os.ReadFile(filepath.Join(r.Dir, "stages/measure/1/result.json"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := prov.DecodeResult(raw)
	if err != nil {
		t.Fatal(err)
	}
	l.damage(res.Outputs[0].SHA256)
	if got := l.problems(r); !slices.ContainsFunc(got, func(p prov.Problem) bool { return p.Code == prov.ObjectDamaged && p.Stage == "measure" }) {
		t.Errorf("got %+v", got)
	}
}

// The copies of an earlier attempt are no forgery when the next one made none.
func TestCopiesOfAnEarlierAttemptAreNoFault(t *testing.T) {
	l := newLab(t)
	p, first := interrupted(t, l)
	l.do["measure"] = fails
	r := l.run(p, Options{Resume: first.ID})
	wantStates(t, r, "scout=ok/executed measure=failed/executed grade=blocked(measure)")
	l.verify(r)
}

func TestSomethingElseInPlaceOfAStatementIsNamed(t *testing.T) {
	for _, place := range []string{"statement.json", "stages/a/1/statement.json"} {
		for kind, put := range map[string]func(name string) error{
			"folder": func(name string) error { return os.Mkdir(name, 0o755) },
			"pipe":   func(name string) error { return syscall.Mkfifo(name, 0o644) },
			"link":   func(name string) error { return os.Symlink("run.json", name) },
		} {
			l := newLab(t)
			r := l.run(l.plan("a make"), Options{})
			name := filepath.Join(r.Dir, place)
			if err := errors.Join(os.Remove(name), put(name)); err != nil {
				t.Fatal(err)
			}
			named := func(p prov.Problem) bool { return p.Code == prov.StatementMissing && p.Path == place }
			if problems := l.problems(r); !slices.ContainsFunc(problems, named) {
				t.Errorf("a %s as %s: problems %+v", kind, place, problems)
			}
		}
	}
}

func TestAFolderInPlaceOfACopyIsNamed(t *testing.T) {
	l := newLab(t)
	r := l.run(l.plan("a make"), Options{})
	copies, err := os.ReadDir(filepath.Join(r.Dir, prov.ArtifactsFolder, "a"))
	if err != nil || len(copies) == 0 {
		t.Fatalf("copies %v, %v", copies, err)
	}
	name := filepath.Join(r.Dir, prov.ArtifactsFolder, "a", copies[0].Name())
	if err := errors.Join(os.Remove(name), os.MkdirAll(filepath.Join(name, "below"), 0o755)); err != nil {
		t.Fatal(err)
	}
	problems := l.problems(r)
	if len(problems) != 1 || problems[0].Code != prov.CopyChanged || problems[0].Path != "artifacts/a/"+copies[0].Name() {
		t.Errorf("problems %+v", problems)
	}
}

func TestGCDoesNotTakeARunWithoutJournalForNone(t *testing.T) {
	l := newLab(t)
	r := l.run(l.plan("measure look", "grade make measure"), Options{})
	if err := os.Remove(filepath.Join(r.Dir, prov.JournalName)); err != nil {
		t.Fatal(err)
	}
	got, err := Collect(t.Context(), l.dir, l.x.Store, false, false)
	if err == nil || !strings.Contains(err.Error(), r.ID) {
		t.Errorf("got %+v, %v, want an error that names the run", got, err)
	}
	for _, s := range r.Stages {
		if !l.x.Store.Has(s.Result, -1) {
			t.Errorf("the result of %s is gone", s.ID)
		}
	}
}

// Whatever lies in a run's folder, looking at it does not hang.
func TestAPipeInARunIsNamedAndNotWaitedFor(t *testing.T) {
	for _, place := range []string{"stages/a/1/evil", "stages/a/1/result.json", "artifacts/a/evil", "run.json", "statement.json", "journal.jsonl"} {
		t.Run(place, func(t *testing.T) {
			l := newLab(t)
			r := l.run(l.plan("a make"), Options{})
			name := filepath.Join(r.Dir, place)
			if err := os.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(name, 0o644); err != nil {
				t.Fatal(err)
			}
			run, err := prov.OpenRun(l.dir, r.ID)
			if err != nil {
				t.Fatal(err)
			}
			defer run.Close()
			report, err := prov.Verify(t.Context(), run, l.x.Store, prov.VerifyOptions{})
			if err == nil && report.OK {
				t.Error("nothing is wrong with it")
			}
		})
	}
}

// A run.json that was written anew with its statement still has the journal
// against it.
func TestRunJSONThatTellsAnotherEndThanTheJournalIsFound(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(m *prov.Manifest)
		want   []string
	}{
		{"the end", func(m *prov.Manifest) {
			m.Status, m.Exit = prov.OK, 0
			b := &m.Stages[1]
			b.Status, b.How, b.Attempt, b.ResultSHA256 = prov.Skipped, nil, nil, nil
		}, []string{" ok, exit 0 failed, exit 4", "b skipped failed"}},
		{"the way", func(m *prov.Manifest) { m.Stages[0].How = new(prov.Restored) }, []string{"a restored executed"}},
	} {
		t.Run(c.name, func(t *testing.T) { rewritten(t, c.change, c.want) })
	}
}

func rewritten(t *testing.T, change func(m *prov.Manifest), want []string) {
	t.Helper()
	l := newLab(t)
	l.do["b"] = fails
	r := l.run(l.plan("a make", "b make a"), Options{})
	l.verify(r)
	raw, err := os.ReadFile(filepath.Join(r.Dir, prov.ManifestName))
	if err != nil {
		t.Fatal(err)
	}
	m, err := prov.DecodeManifest(raw)
	if err != nil {
		t.Fatal(err)
	}
	change(m)
	raw, err = prov.EncodeManifest(*m)
	if err != nil {
		t.Fatal(err)
	}
	st, err := prov.RunStatement(t.Context(), raw, prov.NewReader(l.x.Store))
	if err != nil {
		t.Fatal(err)
	}
	statement, err := st.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{prov.ManifestName: raw, prov.StatementName: statement} {
		if err := os.WriteFile(filepath.Join(r.Dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, p := range l.problems(r) {
		if p.Code == prov.JournalDisagrees {
			got = append(got, p.Stage+" "+p.Expected+" "+p.Found)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
