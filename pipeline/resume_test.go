package pipeline

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"anvil/pipeline/event"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

func TestResumeExecutesOnlyWhatIsNotDone(t *testing.T) {
	l := newLab(t)
	l.do["sum"] = fails
	p := l.plan("measure look", "grade make measure", "sum sum grade", "prove prove sum")
	first := l.run(p, Options{})
	wantStates(t, first, "measure=ok/executed grade=ok/executed sum=failed/executed prove=blocked(sum)")
	l.do["sum"] = nil
	r := l.run(p, Options{Resume: ResumeNewest})
	if r.ID != first.ID {
		t.Errorf("resumed %s, want %s", r.ID, first.ID)
	}
	wantStates(t, r, "measure=ok/executed grade=ok/executed sum=ok/executed prove=ok/executed")
	if l.count("measure") != 1 || l.count("grade") != 1 || r.stage("measure").Attempt != 1 || r.stage("sum").Attempt != 2 {
		t.Errorf("measure ran %d times, grade %d; attempts are %+v", l.count("measure"), l.count("grade"), r.Stages)
	}
	if r.Exit != 0 || r.Status != prov.OK {
		t.Errorf("run is %s, exit %d", r.Status, r.Exit)
	}
	l.verify(r)
	if _, err := os.Stat(filepath.Join(r.Dir, "stages/sum/1/result.json")); err != nil {
		t.Errorf("the failed attempt is gone: %v", err)
	}
	if _, err := l.x.Run(t.Context(), p.Plan, Options{Resume: ResumeNewest}); !errors.Is(err, ErrNothingUnfinished) {
		t.Errorf("got %v, want ErrNothingUnfinished", err)
	}
	if _, err := l.x.Run(t.Context(), p.Plan, Options{Resume: r.ID}); !errors.Is(err, ErrNothingUnfinished) {
		t.Errorf("got %v, want ErrNothingUnfinished", err)
	}
}

func TestAnInterruptedPhaseStartsFromItsBeginning(t *testing.T) {
	l := newLab(t)
	p, first := interrupted(t, l)
	if first.Exit != 130 {
		t.Fatalf("exit %d, want 130", first.Exit)
	}
	r := l.run(p, Options{Resume: first.ID})
	wantStates(t, r, "scout=ok/executed measure=ok/executed grade=ok/executed")
	if r.stage("measure").Attempt != 2 || l.count("scout") != 1 {
		t.Errorf("measure has attempt %d, the scout ran %d times", r.stage("measure").Attempt, l.count("scout"))
	}
	var codes []string
	for _, lim := range r.Limitations {
		codes = append(codes, lim.Code+" "+lim.Origin)
	}
	if want := []string{"run.resumed run", "run.retried run"}; !slices.Equal(codes, want) {
		t.Errorf("limitations are %v, want %v", codes, want)
	}
	l.verify(r)
	partial, err := os.ReadFile(filepath.Join(r.Dir, "stages/measure/1/result.json"))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := prov.DecodeResult(partial); err != nil || res.Status != prov.Aborted || len(res.Outputs) != 1 {
		t.Errorf("attempt 1 is %+v, %v, want aborted with its partial evidence", res, err)
	}
}

func TestResumeFollowsWhatWasAskedFor(t *testing.T) {
	l := newLab(t)
	p := l.plan("measure look", "grade make measure", "sum sum grade")
	base := l.run(p, Options{})
	l.do["grade"] = fails
	first := l.run(p, Options{Only: []string{"grade"}})
	wantStates(t, first, "measure=ok/taken_over grade=failed/executed sum=stale")
	l.do["grade"] = nil
	r := l.run(p, Options{Resume: ResumeNewest})
	wantStates(t, r, "measure=ok/taken_over grade=ok/executed sum=stale")
	if r.ID != first.ID || r.Base != base.ID || l.count("measure") != 1 {
		t.Errorf("resumed %s on %s, measured %d times", r.ID, r.Base, l.count("measure"))
	}
	l.verify(r)
	var wrong *SelectionError
	if _, err := l.x.Run(t.Context(), p.Plan, Options{Resume: ResumeNewest, Only: []string{"grade"}}); !errors.As(err, &wrong) {
		t.Errorf("got %v, want a *SelectionError", err)
	}
}

func TestResumeRefusesAPlanThatResolvesOtherwise(t *testing.T) {
	l := newLab(t)
	l.do["grade"] = fails
	l.run(l.plan("grade make").with("grade", `{"level": 1}`), Options{})
	_, err := l.x.Run(t.Context(), l.plan("grade make").with("grade", `{"level": 2}`).Plan, Options{Resume: ResumeNewest})
	var base *BaseError
	if !errors.As(err, &base) || len(base.Differences) != 1 || !strings.HasSuffix(base.Differences[0].Path, "level") {
		t.Errorf("got %v, want a *BaseError that names the field", err)
	}
}

func TestAFileThatChangedBetweenTheSessionsIsReadAgain(t *testing.T) {
	l := newLab(t)
	l.do["b"] = fails
	p := l.plan("a make", "b make a").file("a", "d.txt", "one")
	l.run(p, Options{})
	l.do["b"] = nil
	p.file("a", "d.txt", "two")
	r := l.run(p, Options{Resume: ResumeNewest})
	if r.stage("a").Attempt != 2 || r.Exit != 0 {
		t.Errorf("%s: a has attempt %d, want 2", states(r), r.stage("a").Attempt)
	}
	l.verify(r)
}

func TestALiveRunIsBusy(t *testing.T) {
	l := newLab(t)
	release := l.held(l.plan("measure look"))
	defer release()
	other := newLabIn(t, l.dir)
	id := l.runFolders()[0]
	_, err := other.x.Run(t.Context(), l.plan("measure look").Plan, Options{Resume: id})
	var busy *BusyError
	if !errors.As(err, &busy) || busy.Holder.PID != os.Getpid() || busy.Holder.Run != id {
		t.Errorf("got %v, want a *BusyError that names this process and the run", err)
	}
}

func TestOfTwoThatResumeOneRunOneExecutesEachStage(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	l := newLab(t)
	p := l.plan("a make", "b make a")
	var executed, busy, nothing atomic.Int64
	count := func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		executed.Add(1)
		return out.JSON("made.json", map[string]any{})
	}
	for round := range rounds {
		p.Salt = strings.Repeat("x", round)
		p.seal()
		l.do["a"], l.do["b"] = fails, nil
		first := l.run(p, Options{})
		l.do["a"], l.do["b"] = count, count
		executed.Store(0)
		var wg sync.WaitGroup
		for range 2 {
			x := *l.x
			wg.Go(func() {
				_, err := x.Run(context.Background(), p.Plan, Options{Resume: first.ID})
				held := (*BusyError)(nil)
				switch {
				case errors.As(err, &held):
					busy.Add(1)
				case errors.Is(err, ErrNothingUnfinished):
					nothing.Add(1)
				case err != nil:
					t.Errorf("resume: %v", err)
				}
			})
		}
		wg.Wait()
		if got := executed.Load(); got != 2 {
			t.Fatalf("round %d: stages were executed %d times, want each once", round, got)
		}
	}
	if busy.Load()+nothing.Load() != int64(rounds) {
		t.Errorf("of %d pairs %d were busy and %d came too late", rounds, busy.Load(), nothing.Load())
	}
}

// A capturing stage writes what it sees into its folder, so that it can be
// decoded after a kill.
type capturing struct{ labStage }

func (s capturing) Recover(_ context.Context, env stage.Env, _ stage.Inputs, out *stage.Outputs) error {
	f, err := env.Folder.Open("capture")
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	return out.JSON("seen.json", map[string]any{"captured": string(b)})
}

func (l *lab) capturing(p labPlan, id string) {
	s := p.stage(id)
	s.Kind = recoverKind{s.Kind.(labKind)}
	l.do[id] = func(_ context.Context, env stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		f, err := env.Folder.Create("capture")
		if err != nil {
			return err
		}
		if _, err := io.WriteString(f, "three requests"); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		if os.Getenv(killAt) == "-1" {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return out.JSON("seen.json", map[string]any{"whole": true})
	}
}

func TestAnAbortedMeasurementIsTakenOverOnlyWhenAsked(t *testing.T) {
	l := newLab(t)
	interrupt := make(chan struct{})
	l.do["measure"] = func(_ context.Context, env stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		close(interrupt)
		<-env.Stop
		if err := out.JSON("seen.json", map[string]any{"requests": 3}); err != nil {
			return err
		}
		return stage.ErrAborted
	}
	p := l.plan("measure look", "grade make measure", "sum sum grade")
	first := l.run(p, Options{Interrupt: interrupt})
	var base *BaseError
	if _, err := l.x.Run(t.Context(), p.Plan, Options{From: []string{"grade"}, Base: first.ID}); !errors.As(err, &base) || !strings.Contains(err.Error(), "aborted") {
		t.Errorf("got %v, want a *BaseError that says aborted", err)
	}
	r := l.run(p, Options{From: []string{"grade"}, Base: first.ID, AcceptAborted: true})
	wantStates(t, r, "measure=aborted/taken_over grade=ok/executed sum=ok/executed")
	if r.Exit != 0 || len(r.Limitations) != 1 || r.Limitations[0].Code != "run.interrupted" {
		t.Errorf("exit %d, limitations %+v, want 0 and run.interrupted", r.Exit, r.Limitations)
	}
	l.verify(r)
}

func TestAKilledMeasurementIsLostUntilItsCaptureIsDecoded(t *testing.T) {
	dir := quickDir(t)
	victim(t, dir, -1)
	l := newLabIn(t, dir)
	p := victimPlan(l)
	id := l.runFolders()[0]
	run, err := prov.OpenRun(dir, id)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	state, err := run.State()
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(state.Stages, func(s prov.ManifestStage) bool { return s.ID == "measure" }); state.Stages[i].Status != prov.Lost {
		t.Errorf("the killed measurement is %s, want lost", state.Stages[i].Status)
	}

	// Its partial evidence can be graded …
	r := l.run(p, Options{From: []string{"grade"}, Base: id, AcceptAborted: true})
	wantStates(t, r, "import=ok/taken_over scout=ok/taken_over measure=aborted/taken_over grade=ok/executed sum=ok/executed prove=ok/executed")
	if got := string(l.object(r.stage("measure").Outputs[0].SHA256)); !strings.Contains(got, "three requests") {
		t.Errorf("the evidence is %s", got)
	}
	l.verify(r)

	// … and the run can be gone on with: attempt 2 starts from the beginning.
	r = l.run(p, Options{Resume: id})
	wantStates(t, r, "import=ok/executed scout=ok/executed measure=ok/executed grade=ok/executed sum=ok/executed prove=ok/executed")
	if r.stage("measure").Attempt != 2 {
		t.Errorf("measure has attempt %d, want 2", r.stage("measure").Attempt)
	}
	l.verify(r)
	b, err := os.ReadFile(filepath.Join(r.Dir, "stages/measure/1/result.json"))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := prov.DecodeResult(b); err != nil || res.Status != prov.Aborted || res.Error.Code != CodeLost {
		t.Errorf("attempt 1 is %+v, %v, want aborted", res, err)
	}
}

// Its journal names every result that it took over, and gc keeps them.
func TestADerivedRunResumesWhenItsBaseWasRemoved(t *testing.T) {
	l := newLab(t)
	p := l.plan("measure look", "side look", "grade make measure", "sum sum grade")
	base := l.run(p, Options{})
	l.do["sum"] = fails
	p.with("sum", `{"again": true}`)
	first := l.run(p, Options{From: []string{"grade"}, Force: []string{"grade"}})
	wantStates(t, first, "measure=ok/taken_over side=ok/taken_over grade=ok/executed sum=failed/executed")
	l.remove(base.ID)
	l.collect()
	l.do["sum"] = nil
	r := l.run(p, Options{Resume: ResumeNewest})
	wantStates(t, r, "measure=ok/taken_over side=ok/taken_over grade=ok/executed sum=ok/executed")
	if r.ID != first.ID || r.Base != base.ID || l.count("measure") != 1 {
		t.Errorf("resumed %s on %s, measured %d times", r.ID, r.Base, l.count("measure"))
	}
	l.verify(r)
}

func TestAReusingRunResumesWhenWhatItReusedWasRemoved(t *testing.T) {
	l := newLab(t)
	p := l.plan("measure look", "grade make measure")
	earlier := l.run(p, Options{})
	l.do["grade"] = fails
	p.with("grade", `{"again": true}`)
	first := l.run(p, Options{Reuse: earlier.ID})
	wantStates(t, first, "measure=ok/reused grade=failed/executed")
	l.remove(earlier.ID)
	l.do["grade"] = nil
	r := l.run(p, Options{Resume: first.ID})
	wantStates(t, r, "measure=ok/reused grade=ok/executed")
	l.verify(r)
}

// What a base does not have any more, and what was not yet taken over, is not
// quietly made in another way.
func TestAResumeSaysThatItsBaseIsGone(t *testing.T) {
	for name, opt := range map[string]Options{"base": {From: []string{"grade"}}, "reuse": {Reuse: "latest"}} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			p := l.plan("measure look", "grade make measure")
			earlier := l.run(p, Options{})
			var lines atomic.Int64
			l.reopen(func(s disk.Step) error {
				if s.Op == disk.Write && s.Path == prov.JournalName && lines.Add(1) > 1 {
					return syscall.EIO
				}
				return nil
			})
			if _, err := l.x.Run(t.Context(), p.Plan, opt); err == nil {
				t.Fatal("the run did not say that it could not write")
			}
			l.remove(earlier.ID)
			l.restart()
			_, err := l.x.Run(t.Context(), p.Plan, Options{Resume: ResumeNewest})
			if base, ok := errors.AsType[*BaseError](err); !ok || base.Base != earlier.ID || !strings.Contains(base.Reason, "removed") {
				t.Errorf("got %v, want a *BaseError that says that %s was removed", err, earlier.ID)
			}
			if n := l.count("measure"); n != 1 {
				t.Errorf("measured %d times", n)
			}
		})
	}
}

// A base that was gone on with has other results by now; what a derived run
// stands on stays what it took over.
func TestAResumedRunStandsOnWhatItTookOverNotOnWhatItsBaseHasNow(t *testing.T) {
	l := newLab(t)
	interrupt := make(chan struct{})
	l.do["measure"] = func(_ context.Context, env stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		close(interrupt)
		<-env.Stop
		if err := out.JSON("seen.json", map[string]any{"requests": 3}); err != nil {
			return err
		}
		return stage.ErrAborted
	}
	p := l.plan("measure look", "grade make measure")
	base := l.run(p, Options{Interrupt: interrupt})
	l.do["grade"] = fails
	first := l.run(p, Options{From: []string{"grade"}, Base: base.ID, AcceptAborted: true})
	l.do["measure"], l.do["grade"] = nil, nil
	wantStates(t, l.run(p, Options{Resume: base.ID}), "measure=ok/executed grade=ok/executed")
	r := l.run(p, Options{Resume: first.ID})
	wantStates(t, r, "measure=aborted/taken_over grade=ok/executed")
	if r.stage("measure").Result != first.stage("measure").Result {
		t.Error("the resumed run stands on another result")
	}
	l.verify(r)
}

// A path names a run as well, also when the run is gone on with.
func TestABaseOutsideTheWorkspaceIsFoundByItsPath(t *testing.T) {
	l := newLab(t)
	p := l.plan("measure look", "grade make measure", "sum sum grade")
	base := l.run(p, Options{})
	kept := filepath.Join(quickDir(t), base.ID)
	if err := os.Rename(base.Dir, kept); err != nil {
		t.Fatal(err)
	}
	found, err := l.x.FindBase(t.Context(), p.Name, Needs(p.Plan), Options{From: []string{"grade"}, Base: kept})
	if err != nil || found.Run != base.ID || found.Name != kept {
		t.Fatalf("got %+v, %v", found, err)
	}
	l.do["grade"] = fails
	first := l.run(p, Options{Only: []string{"grade"}, Base: kept})
	wantStates(t, first, "measure=ok/taken_over grade=failed/executed sum=stale")
	l.do["grade"] = nil
	r := l.run(p, Options{Resume: first.ID})
	wantStates(t, r, "measure=ok/taken_over grade=ok/executed sum=stale")
	if r.Base != base.ID {
		t.Errorf("the base is %s, want its id", r.Base)
	}
	again := l.run(p, Options{Reuse: kept})
	wantStates(t, again, "measure=ok/reused grade=ok/executed sum=ok/executed")
}

// waitsFor lets another anvil go on with a run that this one holds, which ends
// when the other says that it waits.
func (l *lab) waitsFor(p labPlan, end func(), opt Options) (*Run, error) {
	other := newLabIn(l.t, l.dir)
	var once sync.Once
	other.seen.on = func(e event.Event) {
		if e.Event == event.RunWaiting {
			once.Do(func() { go end() })
		}
	}
	opt.Wait = true
	r, err := other.x.Run(l.t.Context(), p.Plan, opt)
	if n := len(other.seen.texts(event.RunWaiting)); n != 1 {
		l.t.Errorf("waiting was told %d times", n)
	}
	return r, err
}

func TestWithWaitAHeldRunIsGoneOnWithWhenItsHolderEnds(t *testing.T) {
	l := newLab(t)
	l.do["grade"] = func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		if l.count("grade") == 1 {
			return errBroken // in the process that is waited for
		}
		return out.JSON("made.json", map[string]any{})
	}
	p := l.plan("measure look", "grade make measure")
	release := l.held(p)
	id := l.runFolders()[0]
	r, err := l.waitsFor(p, release, Options{Resume: id})
	if err != nil {
		t.Fatal(err)
	}
	wantStates(t, r, "measure=ok/executed grade=ok/executed")
	if r.ID != id || r.stage("grade").Attempt != 2 || r.stage("measure").Attempt != 1 {
		t.Errorf("%s: attempts are %+v", r.ID, r.Stages)
	}
	l.verify(r)
}

func TestWithWaitAHeldRunThatEndsWellIsFinished(t *testing.T) {
	l := newLab(t)
	p := l.plan("measure look", "grade make measure")
	release := l.held(p)
	if _, err := l.waitsFor(p, release, Options{Resume: l.runFolders()[0]}); !errors.Is(err, ErrNothingUnfinished) {
		t.Errorf("got %v, want ErrNothingUnfinished", err)
	}
}

// The base's measurement goes on while another run asks for what it left.
func TestWithWaitABaseThatIsHeldServesWhenItsHolderEnds(t *testing.T) {
	l := newLab(t)
	p := l.plan("measure look", "grade make measure")
	release := l.held(p)
	id := l.runFolders()[0]
	opt := Options{From: []string{"grade"}, Base: id, AcceptAborted: true}
	if _, err := newLabIn(t, l.dir).x.Run(t.Context(), p.Plan, opt); !errors.As(err, new(*BusyError)) {
		t.Errorf("got %v, want a *BusyError", err)
	}
	r, err := l.waitsFor(p, release, opt)
	if err != nil {
		t.Fatal(err)
	}
	if s := r.stage("measure"); s.Status != prov.OK || s.How != prov.TakenOver {
		t.Errorf("stages are %s", states(r))
	}
	l.verify(r)
}

func TestAnInterruptEndsTheWaitForARun(t *testing.T) {
	l := newLab(t)
	p := l.plan("measure look")
	release := l.held(p)
	defer release()
	interrupt := make(chan struct{})
	_, err := l.waitsFor(p, func() { close(interrupt) }, Options{Resume: l.runFolders()[0], Interrupt: interrupt})
	if !errors.Is(err, ErrInterrupted) {
		t.Errorf("got %v, want ErrInterrupted", err)
	}
}
