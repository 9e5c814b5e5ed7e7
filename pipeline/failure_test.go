package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"anvil/pipeline/digest"
	"anvil/pipeline/event"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
)

func TestAFailedStageBlocksWhatDependsOnItAndNothingElse(t *testing.T) {
	l := newLab(t)
	l.do["b"] = fails
	p := l.plan("a make", "b make a", "c make b", "d sum c", "other make a").with("b", `{"b": 1}`)
	r := l.run(p, Options{})
	wantStates(t, r, "a=ok/executed b=failed/executed c=blocked(b) d=blocked(b) other=ok/executed")
	if r.Exit != 4 || r.Status != prov.Failed {
		t.Errorf("run is %s, exit %d, want failed, 4", r.Status, r.Exit)
	}
	if e := r.stage("b").Error; e == nil || e.Message != errBroken.Error() {
		t.Errorf("the error is %+v", e)
	}
	l.verify(r)
	// No pointer stands under the key of a failed attempt.
	l.do["b"] = nil
	wantStates(t, l.run(p, Options{}), "a=ok/restored b=ok/executed c=ok/executed d=ok/executed other=ok/restored")
}

func TestContinueLetsAnOptionalDependantRun(t *testing.T) {
	l := newLab(t)
	l.do["scout"] = fails
	p := l.plan("scout see", "measure look scout", "grade need scout", "report sum grade")
	p.stage("scout").ContinueOnFailure = true
	r := l.run(p, Options{})
	wantStates(t, r, "scout=failed/executed measure=ok/executed grade=blocked(scout) report=ok/executed")
	if r.Exit != 4 {
		t.Errorf("exit %d, want 4: the stage did fail", r.Exit)
	}
}

func TestAFindingOfAGateBlocksAndAnotherDoesNot(t *testing.T) {
	l := newLab(t)
	find := func(name string) func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error {
		return func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
			out.Finding("min_ok", "2 of 4 answered")
			return out.JSON(name, map[string]any{})
		}
	}
	l.do["scout"], l.do["measure"] = find("seen.json"), find("seen.json")
	r := l.run(l.plan("scout gate", "after make scout", "measure look", "grade make measure"), Options{})
	wantStates(t, r, "scout=ok/executed after=blocked(scout) measure=ok/executed grade=ok/executed")
	if r.Exit != 5 || r.Status != prov.Failed {
		t.Errorf("run is %s, exit %d, want failed, 5", r.Status, r.Exit)
	}
	if len(r.Findings) != 2 || r.Findings[0].Text != "2 of 4 answered" {
		t.Errorf("findings are %+v", r.Findings)
	}
	r = l.run(l.plan("measure look", "grade make measure"), Options{})
	if r.Exit != 5 || r.Status != prov.OK {
		t.Errorf("run is %s, exit %d, want ok, 5", r.Status, r.Exit)
	}
}

func TestFindingsOfRestoredStagesCountAndOfThoseTakenOverDoNot(t *testing.T) {
	l := newLab(t)
	l.do["grade"] = func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		out.Finding("min_pass_rate", "0 of 8")
		return out.JSON("made.json", map[string]any{})
	}
	p := l.plan("grade make", "sum sum grade")
	l.run(p, Options{})
	if r := l.run(p, Options{}); r.Exit != 5 {
		t.Errorf("restored: exit %d, want 5", r.Exit)
	}
	r := l.run(p, Options{Only: []string{"sum"}})
	if r.Exit != 0 || len(r.Findings) != 1 || !r.Findings[0].TakenOver {
		t.Errorf("taken over: exit %d, findings %+v, want 0 and the finding to be told", r.Exit, r.Findings)
	}
}

func TestOutputsAreHeldToWhatTheKindDeclares(t *testing.T) {
	write := func(name string, v any) func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error {
		return func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
			return out.JSON(name, v)
		}
	}
	for name, c := range map[string]struct {
		do   func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error
		code string
	}{
		"nothing written": {func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error { return nil }, CodeMissing},
		"not declared":    {write("other.json", map[string]any{}), CodeStage},
		"no JSON object":  {write("made.json", []int{1}), CodeInvalid},
		"not closed": {func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
			_, err := out.Create("made.json")
			return err
		}, CodeMissing},
		"the stage failed": {fails, CodeStage},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.do["a"] = c.do
			p := l.plan("a make")
			r := l.run(p, Options{})
			wantStates(t, r, "a=failed/executed")
			if got := r.stage("a").Error.Code; got != c.code {
				t.Errorf("code %q, want %q (%s)", got, c.code, r.stage("a").Error.Message)
			}
			if known, err := l.x.Store.Lookup(result(t, l, r, "a").Key); err != nil || len(known) > 0 {
				t.Errorf("a failed attempt is pointed to: %v, %v", known, err)
			}
			l.verify(r)
		})
	}
}

func TestADocumentThatDoesNotFitItsSchemaFails(t *testing.T) {
	l := newLab(t)
	p := l.plan("a make")
	k := p.stage("a").Kind.(labKind)
	k.spec.Out = []stage.Port{{Name: "made.json", Schema: "anvil.event/v1"}}
	p.stage("a").Kind = k
	l.do["a"] = func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		return out.JSON("made.json", map[string]any{"event": "no such event"})
	}
	r := l.run(p, Options{})
	if e := r.stage("a").Error; e == nil || e.Code != CodeInvalid || !strings.Contains(e.Message, "/event") {
		t.Errorf("error is %+v, want output_invalid that names /event", e)
	}
}

func TestAPanicFailsItsStageAndExitsOneWithoutAStackInTheRun(t *testing.T) {
	l := newLab(t)
	l.do["a"] = func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error { panic("index out of range") }
	r := l.run(l.plan("a make", "b make a", "c make"), Options{})
	wantStates(t, r, "a=failed/executed b=blocked(a) c=ok/executed")
	if r.Exit != 1 {
		t.Errorf("exit %d, want 1", r.Exit)
	}
	e := r.stage("a").Error
	if e.Code != CodePanic || strings.Contains(e.Message, "goroutine") || strings.Contains(e.Message, ".go:") {
		t.Errorf("error is %+v", e)
	}
	log, err := os.ReadFile(filepath.Join(r.Dir, "stages/a/1/log"))
	if err != nil || !strings.Contains(string(log), "failure_test.go") {
		t.Errorf("the attempt's log has no stack: %v\n%s", err, log)
	}
}

func TestRetriesKeepEveryAttemptAndTheLastIsWhatTheKeyPointsTo(t *testing.T) {
	l := newLab(t)
	l.do["a"] = func(ctx context.Context, env stage.Env, in stage.Inputs, out *stage.Outputs) error {
		if l.count("a") < 3 {
			return errBroken
		}
		return out.JSON("seen.json", map[string]any{})
	}
	p := l.plan("a see")
	p.stage("a").Retries = 2
	r := l.run(p, Options{})
	wantStates(t, r, "a=ok/executed")
	res := result(t, l, r, "a")
	known, err := l.x.Store.Lookup(res.Key)
	if err != nil || len(known) != 1 || known[0] != r.stage("a").Result || res.Attempt != 3 {
		t.Errorf("the key points to %v, %v, want attempt 3, which is %s", known, err, r.stage("a").Result)
	}
	for n, want := range map[string]prov.Status{"1": prov.Failed, "2": prov.Failed, "3": prov.OK} {
		b, err := os.ReadFile(filepath.Join(r.Dir, "stages/a", n, "result.json"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := prov.DecodeResult(b); err != nil || got.Status != want {
			t.Errorf("attempt %s is %v, %v, want %s", n, got, err, want)
		}
	}
	if len(r.Limitations) != 1 || r.Limitations[0].Code != "run.retried" || !strings.Contains(r.Limitations[0].Text, "3") {
		t.Errorf("limitations are %+v, want run.retried with the count", r.Limitations)
	}
	l.verify(r)
}

func TestAPhaseThatSentARequestIsNotRetried(t *testing.T) {
	l := newLab(t)
	l.do["a"] = func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error {
		return fmt.Errorf("%w: %w", errBroken, stage.ErrFinal)
	}
	p := l.plan("a see")
	p.stage("a").Retries = 2
	wantStates(t, l.run(p, Options{}), "a=failed/executed")
	if got := l.count("a"); got != 1 {
		t.Errorf("the stage ran %d times", got)
	}
}

func TestAFileThatChangesUnderAStageFailsTheAttempt(t *testing.T) {
	l := newLab(t)
	p := l.plan("a make").file("a", "data.txt", "before")
	l.do["a"] = func(_ context.Context, _ stage.Env, in stage.Inputs, out *stage.Outputs) error {
		if err := os.WriteFile(filepath.Join(l.dir, "data.txt"), []byte("after!"), 0o666); err != nil {
			return err
		}
		return out.JSON("made.json", map[string]any{})
	}
	r := l.run(p, Options{})
	if e := r.stage("a").Error; e == nil || e.Code != CodeChanged || !strings.Contains(e.Message, "data.txt") {
		t.Errorf("error is %+v, want input_changed that names the file", e)
	}
}

func TestAMissingFileFailsItsStageAlone(t *testing.T) {
	l := newLab(t)
	p := l.plan("a make", "b make").file("a", "data.txt", "x").with("a", `{"a": 1}`)
	if err := os.Remove(filepath.Join(l.dir, "data.txt")); err != nil {
		t.Fatal(err)
	}
	r := l.run(p, Options{})
	wantStates(t, r, "a=failed b=ok/executed")
	if e := r.stage("a").Error; e.Code != CodeInput || !strings.Contains(e.Message, "data.txt") {
		t.Errorf("error is %+v", e)
	}
	p.stage("a").Files[0].Optional = true
	wantStates(t, l.run(p, Options{}), "a=ok/executed b=ok/restored")
}

func TestATimeoutCancelsAndOneThatDrainsIsAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.do["slow"] = func(ctx context.Context, _ stage.Env, _ stage.Inputs, _ *stage.Outputs) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		l.do["phase"] = func(ctx context.Context, env stage.Env, _ stage.Inputs, out *stage.Outputs) error {
			select {
			case <-env.Stop:
			case <-ctx.Done():
				t.Error("a stage that drains was cancelled")
			}
			time.Sleep(20 * time.Second) // the drain
			if err := out.JSON("seen.json", map[string]any{"partial": true}); err != nil {
				return err
			}
			return fmt.Errorf("%w: %w", stage.ErrAborted, env.StopCause())
		}
		p := l.plan("slow make", "after make slow", "phase look", "grade make phase")
		p.stage("slow").Timeout = time.Minute
		p.stage("phase").Timeout = time.Hour
		began := time.Now()
		r := l.run(p, Options{})
		wantStates(t, r, "slow=failed/executed after=blocked(slow) phase=aborted/executed grade=blocked(phase)")
		if got, want := time.Since(began), time.Minute+time.Hour+20*time.Second; got != want {
			t.Errorf("the run took %s, want %s", got, want)
		}
		if r.Exit != 4 || r.Status != prov.Failed {
			t.Errorf("run is %s, exit %d, want failed, 4", r.Status, r.Exit)
		}
		for _, id := range []string{"slow", "phase"} {
			if e := r.stage(id).Error; e.Code != CodeTimeout {
				t.Errorf("%s: error is %+v, want timeout", id, e)
			}
		}
		if len(r.stage("phase").Outputs) != 1 || len(r.Limitations) != 1 || r.Limitations[0].Code != "run.interrupted" {
			t.Errorf("the phase published %v with %v", r.stage("phase").Outputs, r.Limitations)
		}
		l.verify(r)
	})
}

func TestTheFirstInterruptDrainsAndTheSecondStops(t *testing.T) {
	for name, twice := range map[string]bool{"once": false, "twice": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t)
				interrupt := make(chan struct{})
				ctx, second := context.WithCancel(t.Context())
				defer second()
				l.do["phase"] = func(ctx context.Context, env stage.Env, _ stage.Inputs, out *stage.Outputs) error {
					close(interrupt)
					<-env.Stop
					if twice {
						second()
						<-ctx.Done()
						return ctx.Err()
					}
					if err := out.JSON("seen.json", map[string]any{"partial": true}); err != nil {
						return err
					}
					return stage.ErrAborted
				}
				p := l.plan("phase look", "grade make phase", "other make phase")
				r, err := l.x.Run(ctx, p.Plan, Options{Interrupt: interrupt})
				if err != nil {
					t.Fatal(err)
				}
				wantStates(t, r, "phase=aborted/executed grade=not_started other=not_started")
				if r.Exit != 130 || r.Status != prov.Aborted {
					t.Errorf("run is %s, exit %d, want aborted, 130", r.Status, r.Exit)
				}
				want := 1
				if twice {
					want = 0
				}
				if got := r.stage("phase").Outputs; len(got) != want {
					t.Errorf("the phase published %v", got)
				}
				l.verify(r)
			})
		})
	}
}

// Who interrupts a stage that waits is told what for.
func TestAnInterruptSaysWhatTheStageWasAt(t *testing.T) {
	l := newLab(t)
	interrupt := make(chan struct{})
	l.do["wait"] = func(_ context.Context, env stage.Env, _ stage.Inputs, _ *stage.Outputs) error {
		close(interrupt)
		<-env.Stop
		return fmt.Errorf("probe: %w", &stage.AbortedError{While: errors.New("the server is not there")})
	}
	r := l.run(l.plan("wait look"), Options{Interrupt: interrupt})
	wantStates(t, r, "wait=aborted/executed")
	if e := r.stage("wait").Error; e.Code != CodeInterrupted || e.Message != "interrupted: the server is not there" || r.Exit != 130 {
		t.Errorf("error %+v, exit %d", e, r.Exit)
	}
}

func TestAnInterruptCancelsWhatDoesNotDrain(t *testing.T) {
	l := newLab(t)
	interrupt := make(chan struct{})
	l.do["a"] = func(ctx context.Context, _ stage.Env, _ stage.Inputs, _ *stage.Outputs) error {
		close(interrupt)
		<-ctx.Done()
		return ctx.Err()
	}
	r := l.run(l.plan("a make", "b make a"), Options{Interrupt: interrupt})
	wantStates(t, r, "a=aborted/executed b=not_started")
	if r.Exit != 130 {
		t.Errorf("exit %d, want 130", r.Exit)
	}
}

func TestASecretReachesNothingThatIsWritten(t *testing.T) {
	const secret = "sk-very/secret+value"
	l := newLab(t)
	l.x.LookupEnv = func(name string) (string, bool) { return secret, name == "KEY" }
	leak := func(ctx context.Context, env stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		key, _ := env.Secrets.Lookup("KEY")
		env.Log.Info().Str("header", "Bearer "+key).Msg("sent " + key)
		out.Limit(stage.Limitation{Code: "api.unproven", Text: "the server says " + key})
		out.Finding("echo", "it echoes "+key)
		if env.Stage == "bad" {
			return errors.New("401: your key " + key + " is wrong")
		}
		return out.JSON("seen.json", map[string]any{"echo": key})
	}
	l.do["good"], l.do["bad"] = leak, leak
	r := l.run(l.plan("good see", "bad see"), Options{})
	wantStates(t, r, "good=ok/executed bad=failed/executed")
	err := filepath.WalkDir(l.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && (strings.Contains(string(b), secret) || strings.Contains(string(b), `sk-very\/secret`)) {
			t.Errorf("%s holds the secret", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range l.seen.events {
		if raw, _ := json.Marshal(e); strings.Contains(string(raw), secret) {
			t.Errorf("event %s holds the secret", raw)
		}
	}
}

func TestADamagedPureOutputIsSetAsideToldAndMadeAgain(t *testing.T) {
	l := newLab(t)
	p := l.plan("import make", "measure look", "grade make import measure", "sum sum grade").file("import", "d.txt", "x")
	first := l.run(p, Options{})
	for _, id := range []string{"import", "grade"} {
		d := first.stage(id).Outputs[0].SHA256
		l.damage(d)
		r := l.run(p, Options{From: []string{"grade"}})
		if got := r.stage(id); got.How != prov.Executed || got.Outputs[0].SHA256 != d {
			t.Errorf("%s is %s with %s, want executed with %s", id, got.How, got.Outputs[0].SHA256, d)
		}
		if texts := l.seen.texts(event.StageWarning); len(texts) == 0 || !strings.Contains(texts[len(texts)-1], id) {
			t.Errorf("nothing names %s: %q", id, texts)
		}
		if r.stage("measure").How != prov.TakenOver || r.stage("sum").How != prov.Restored {
			t.Errorf("others: %s", states(r))
		}
		if got := l.setAside(r); len(got) != 1 || got[0].Stage != id || *got[0].Old != d {
			t.Errorf("the journal tells of %+v, want %s of %s once", got, d, id)
		}
		l.verify(r)
	}
}

// setAside returns the lines of a run's journal that tell of damaged objects.
func (l *lab) setAside(r *Run) []prov.Line {
	l.t.Helper()
	run, err := prov.OpenRun(l.dir, r.ID)
	if err != nil {
		l.t.Fatal(err)
	}
	defer run.Close()
	chain, err := run.Journal()
	if err != nil {
		l.t.Fatal(err)
	}
	return slices.DeleteFunc(chain.Lines, func(line prov.Line) bool { return line.Event != prov.ObjectSetAside })
}

func TestWhatCannotBeMadeAgainBreaksTheRunBeforeAnythingIsExecuted(t *testing.T) {
	for name, pick := range map[string]func(l *lab, r *Run) prov.Input{
		"an observation": func(l *lab, r *Run) prov.Input { return result(t, l, r, "grade").Inputs[0] },
		"a leaf":         func(l *lab, r *Run) prov.Input { return result(t, l, r, "grade").Inputs[1] },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			p := l.plan("measure look", "grade make measure", "other make").file("grade", "d.txt", "x")
			first := l.run(p, Options{})
			runs, in := len(l.runFolders()), pick(l, first)
			l.damage(in.SHA256)
			l.do["other"] = func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error {
				t.Error("something was executed")
				return nil
			}
			_, err := l.x.Run(t.Context(), p.Plan, Options{From: []string{"grade", "other"}, Force: []string{"other"}})
			var broken *BrokenError
			if !errors.As(err, &broken) || broken.Digest != in.SHA256 || broken.Name != in.Name {
				t.Errorf("got %v, want a *BrokenError that names %s", err, in.Name)
			}
			if len(l.runFolders()) != runs {
				t.Error("the run left a folder")
			}
		})
	}
}

func TestADamagedResultIsMadeAgainWhereItCanBe(t *testing.T) {
	l := newLab(t)
	p := l.plan("measure look", "grade make measure", "sum sum grade")
	first := l.run(p, Options{})
	l.damage(first.stage("grade").Result)
	r := l.run(p, Options{Only: []string{"sum"}})
	wantStates(t, r, "measure=ok/taken_over grade=ok/executed sum=ok/executed")
	if r.stage("grade").Outputs[0].SHA256 != first.stage("grade").Outputs[0].SHA256 {
		t.Error("the same inputs gave other bytes")
	}
	l.verify(r)
	l.damage(r.stage("measure").Result)
	l.reopen(nil)
	_, err := l.x.Run(t.Context(), p.Plan, Options{Only: []string{"sum"}})
	if broken, ok := errors.AsType[*BrokenError](err); !ok || broken.Stage != "measure" {
		t.Errorf("got %v, want a *BrokenError that names measure", err)
	}
}

func TestWhatStandsOnSomethingMadeAgainIsRestored(t *testing.T) {
	l := newLab(t)
	p := l.plan("measure look", "grade make measure", "sum sum grade", "prove prove sum")
	first := l.run(p, Options{})
	l.damage(first.stage("grade").Outputs[0].SHA256)
	r := l.run(p, Options{Only: []string{"prove"}})
	wantStates(t, r, "measure=ok/taken_over grade=ok/executed sum=ok/restored prove=ok/executed")
	l.verify(r)
}

func TestALostIndexCostsTimeOnly(t *testing.T) {
	l := newLab(t)
	p := l.plan("a make", "b make a")
	first := l.run(p, Options{})
	if err := os.RemoveAll(filepath.Join(l.dir, store.Folder, "keys")); err != nil {
		t.Fatal(err)
	}
	l.reopen(nil)
	r := l.run(p, Options{})
	wantStates(t, r, "a=ok/executed b=ok/executed")
	if r.stage("b").Outputs[0] != first.stage("b").Outputs[0] {
		t.Error("the same inputs gave other bytes")
	}
}

// diskHook fails every step on a matching path from now on.
func diskHook(err error, match func(disk.Step) bool) disk.Hook {
	return func(s disk.Step) error {
		if match(s) {
			return err
		}
		return nil
	}
}

func TestAFullDiskIsATypedFailureWithoutAPartialObject(t *testing.T) {
	l := newLab(t)
	full := false
	l.reopen(func(s disk.Step) error {
		if full && (s.Op == disk.Write || s.Op == disk.Torn) {
			return syscall.ENOSPC
		}
		return nil
	})
	l.do["b"] = func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		full = true
		w, err := out.Create("made.json")
		if err != nil {
			return err
		}
		if _, err := w.Write([]byte("half of it")); err != nil {
			return err
		}
		return w.Close()
	}
	p := l.plan("a make", "b make a")
	l.x.Jobs = 1
	r, err := l.x.Run(t.Context(), p.Plan, Options{})
	if _, ok := errors.AsType[*store.FullError](err); !ok {
		t.Errorf("got %v, want a *FullError", err)
	}
	if r == nil || r.Exit != 4 || r.stage("b").Error == nil || r.stage("b").Error.Code != CodeDiskFull {
		t.Fatalf("run is %+v", r)
	}
	full = false
	if err := l.x.Store.CheckAll(t.Context(), func(d digest.Digest, err error) {
		if err != nil {
			t.Errorf("object %s: %v", d, err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	noPartialObject(t, l.dir)
}

func TestAWorkspaceThatCannotBeWrittenIsOneErrorBeforeAnythingRuns(t *testing.T) {
	for name, match := range map[string]func(disk.Step) bool{
		"the store": func(s disk.Step) bool { return strings.Contains(s.Path, "tmp") },
		"the runs":  func(s disk.Step) bool { return strings.HasSuffix(s.Path, prov.RunsFolder) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.reopen(diskHook(syscall.EROFS, match))
			l.do["a"] = func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error {
				t.Error("something ran")
				return nil
			}
			r, err := l.x.Run(t.Context(), l.plan("a make").Plan, Options{})
			var ro *store.ReadOnlyError
			if !errors.As(err, &ro) || r != nil {
				t.Errorf("got %v, %v, want a *ReadOnlyError and no run", r, err)
			}
		})
	}
}

func TestEventsComeInOrderAndTheLastIsTheEnd(t *testing.T) {
	l := newLab(t)
	l.do["b"] = fails
	r := l.run(l.plan("a make", "b make a", "c make b"), Options{})
	var got []string
	for _, e := range l.seen.events {
		if e.Event == event.StageProgress {
			continue
		}
		if e.Run != r.ID {
			t.Errorf("event %+v names another run", e)
		}
		got = append(got, strings.TrimSpace(e.Event+" "+e.Stage+" "+e.Status))
	}
	want := []string{
		"run.started", "stage.started a", "stage.finished a ok", "stage.started b", "stage.finished b failed",
		"stage.finished c blocked", "run.finished  failed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	last := l.seen.events[len(l.seen.events)-1]
	if last.Finished == nil || last.Finished.Exit != 4 {
		t.Errorf("the last event is %+v", last)
	}
}

func TestProgressIsSampledWhileAStageRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.do["a"] = func(_ context.Context, env stage.Env, _ stage.Inputs, out *stage.Outputs) error {
			env.Progress.SetUnit("requests")
			env.Progress.Total.Store(8)
			env.Progress.Done.Store(3)
			env.Progress.Count("ok")
			time.Sleep(l.x.progressEvery() + time.Millisecond)
			return out.JSON("seen.json", map[string]any{})
		}
		l.run(l.plan("a see"), Options{})
		for _, e := range l.seen.events {
			if e.Event == event.StageProgress && e.Done == 3 && e.Total == 8 && e.Unit == "requests" && e.Tally["ok"] == 1 {
				return
			}
		}
		t.Errorf("no sample among %+v", l.seen.events)
	})
}

func TestAPreflightThatFailsStopsTheRunBeforeAnythingRuns(t *testing.T) {
	l := newLab(t)
	p := l.plan("measure look", "grade make measure")
	s := p.stage("grade")
	s.Kind = preflightKind{s.Kind.(labKind)}
	r := l.run(p, Options{})
	wantStates(t, r, "measure=not_started grade=failed")
	if r.Exit != 4 || r.stage("grade").Error.Code != CodePreflight || l.count("measure") != 0 {
		t.Errorf("exit %d, %+v, measure ran %d times", r.Exit, r.stage("grade").Error, l.count("measure"))
	}
	l.verify(r)
}

func TestAStageWithNothingToDoIsSkippedAndBlocksOnlyWhatNeedsIt(t *testing.T) {
	l := newLab(t)
	p := l.plan("scout see", "grade need scout", "sum sum scout")
	s := p.stage("scout")
	s.Kind = skippingKind{s.Kind.(labKind)}
	r := l.run(p, Options{})
	wantStates(t, r, "scout=skipped grade=blocked(scout) sum=ok/executed")
	if r.stage("scout").Reason != "nothing to see" {
		t.Errorf("the reason is %q", r.stage("scout").Reason)
	}
	l.verify(r)
}

type skippingKind struct{ labKind }

func (k skippingKind) New(json.RawMessage) (stage.Stage, error) {
	return skippingStage{labStage(k.labKind)}, nil
}

type skippingStage struct{ labStage }

func (skippingStage) Skip(stage.Inputs) (string, bool) { return "nothing to see", true }

type preflightKind struct{ labKind }

func (k preflightKind) New(json.RawMessage) (stage.Stage, error) {
	return preflightStage{labStage(k.labKind)}, nil
}

type preflightStage struct{ labStage }

func (preflightStage) Preflight(context.Context, stage.Env) error {
	return errors.New(`program "judge" is not on the PATH`)
}

// A program that cannot tell which one it is executes nothing: nobody could
// say later who made the evidence.
func TestNothingIsExecutedByAProgramThatCannotBeNamed(t *testing.T) {
	l := newLab(t)
	l.x.Tool = func() (stage.Tool, error) { return stage.Tool{}, errors.New("read the running binary: gone") }
	r, err := l.x.Run(t.Context(), l.plan("a see").Plan, Options{})
	if err == nil || !strings.Contains(err.Error(), "read the running binary: gone") {
		t.Errorf("got %v", err)
	}
	if r != nil && r.Exit == 0 {
		t.Errorf("the run ended with %d", r.Exit)
	}
	if n := l.count("a"); n != 0 {
		t.Errorf("a was executed %d times", n)
	}
}
