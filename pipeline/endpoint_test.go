package pipeline

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"anvil/pipeline/event"
	"anvil/pipeline/plan"
	"anvil/pipeline/stage"
)

func TestSpellingsOfOneEndpointShareItsLock(t *testing.T) {
	for _, row := range []struct{ url, want string }{
		{"http://127.0.0.1:8000/v1", "http://localhost:8000"},
		{"http://localhost:8000", "http://localhost:8000"},
		{"HTTP://LocalHost.:8000/v1", "http://localhost:8000"},
		{"http://[::1]:8000/v1", "http://localhost:8000"},
		{"http://127.1.2.3:8000/v1", "http://localhost:8000"},
		{"http://0.0.0.0:8000/v1", "http://localhost:8000"},
		{"http://gpu.localhost:8000/v1", "http://localhost:8000"},
		{"http://GPU-1.example.org/v1", "http://gpu-1.example.org:80"},
		{"https://gpu-1.example.org/v1", "https://gpu-1.example.org:443"},
		{"https://gpu-1.example.org:8443/v1", "https://gpu-1.example.org:8443"},
		{"http://[2001:db8::1]:80/", "http://[2001:db8::1]:80"},
	} {
		if got, err := endpointName(row.url); err != nil || got != row.want {
			t.Errorf("endpointName(%q) = %q, %v, want %q", row.url, got, err, row.want)
		}
	}
}

func TestTheLockFolderIsOursAlone(t *testing.T) {
	runtime := t.TempDir()
	env := func(name string) (string, bool) { return runtime, name == "XDG_RUNTIME_DIR" }
	dir, err := lockFolder(env)
	if err != nil || dir != filepath.Join(runtime, "anvil") {
		t.Fatalf("got %q, %v", dir, err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v, %v, want 0700", info.Mode(), err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	none := func(string) (string, bool) { return "", false }
	dir, err = lockFolder(none)
	if err != nil || !strings.HasPrefix(filepath.Base(dir), "anvil-") {
		t.Fatalf("without a runtime folder: %q, %v", dir, err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if dir, err := lockFolder(none); err == nil {
		t.Errorf("a folder that anybody can write was taken: %s", dir)
	}
}

func endpointPlan(l *lab, url string) labPlan {
	p := l.plan("measure look", "grade make measure")
	p.stage("measure").Endpoint = &plan.Endpoint{Name: "target", BaseURL: url}
	return p
}

// sharing gives two labs one lock folder, as one user on one host has.
func sharing(t *testing.T) (*lab, *lab) {
	t.Helper()
	a, b := newLab(t), newLab(t)
	b.x.LookupEnv = a.x.LookupEnv
	return a, b
}

func TestTwoPlansAtOneEndpointNeverOverlapInAPhase(t *testing.T) {
	a, b := sharing(t)
	var inside, overlaps, phases, busy atomic.Int64
	phase := func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		if inside.Add(1) > 1 {
			overlaps.Add(1)
		}
		defer inside.Add(-1)
		phases.Add(1)
		for range 20 {
			if inside.Load() > 1 {
				overlaps.Add(1)
			}
		}
		return out.JSON("seen.json", map[string]any{})
	}
	a.do["measure"], b.do["measure"] = phase, phase
	const rounds = 50
	for range rounds {
		var wg sync.WaitGroup
		for i, l := range []*lab{a, b} {
			wg.Go(func() {
				p := endpointPlan(l, []string{"http://localhost:9/v1", "http://127.0.0.1:9"}[i])
				r, err := l.x.Run(context.Background(), p.Plan, Options{})
				var held *BusyError
				switch {
				case errors.As(err, &held):
					busy.Add(1)
				case err != nil:
					t.Errorf("run: %v", err)
				case r.Exit != 0:
					t.Errorf("run exits %d: %s", r.Exit, states(r))
				}
			})
		}
		wg.Wait()
	}
	if overlaps.Load() > 0 {
		t.Errorf("phases overlapped %d times", overlaps.Load())
	}
	if phases.Load()+busy.Load() != 2*rounds || phases.Load() < rounds {
		t.Errorf("%d phases and %d refusals of %d runs", phases.Load(), busy.Load(), 2*rounds)
	}
	if got := len(a.runFolders()) + len(b.runFolders()); int64(got) != phases.Load() {
		t.Errorf("%d run folders for %d runs: who is refused leaves none", got, phases.Load())
	}
}

// held starts a run whose measurement waits inside its phase for release.
func (l *lab) held(p labPlan) (release func()) {
	inside, free := make(chan struct{}), make(chan struct{})
	l.do["measure"] = func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		close(inside)
		<-free
		return out.JSON("seen.json", map[string]any{})
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := l.x.Run(context.Background(), p.Plan, Options{}); err != nil {
			l.t.Errorf("run: %v", err)
		}
	})
	<-inside
	return func() { close(free); wg.Wait() }
}

func TestABusyEndpointIsRefusedWithTheNameOfItsHolder(t *testing.T) {
	a, b := sharing(t)
	release := a.held(endpointPlan(a, "http://localhost:9/v1"))
	defer release()
	_, err := b.x.Run(t.Context(), endpointPlan(b, "http://localhost:9/v1").Plan, Options{})
	var busy *BusyError
	if !errors.As(err, &busy) {
		t.Fatalf("got %v, want a *BusyError", err)
	}
	host, _ := os.Hostname()
	if busy.Holder.PID != os.Getpid() || busy.Holder.Host != host || busy.Holder.Run != a.runFolders()[0] {
		t.Errorf("the holder is %+v", busy.Holder)
	}
	if len(b.runFolders()) > 0 {
		t.Error("the refused run left a folder")
	}
	// Another port, or the embedded engine, is free.
	for _, url := range []string{"http://localhost:10/v1", ""} {
		if r := b.run(endpointPlan(b, url), Options{}); r.Exit != 0 {
			t.Errorf("%q: %s", url, states(r))
		}
	}
}

func TestTakingOverNeedsNoLock(t *testing.T) {
	a, b := sharing(t)
	p := endpointPlan(b, "http://localhost:9/v1")
	b.run(p, Options{})
	release := a.held(endpointPlan(a, "http://localhost:9/v1"))
	defer release()
	wantStates(t, b.run(p, Options{Only: []string{"grade"}}), "measure=ok/taken_over grade=ok/executed")
}

func TestTheLockIsHeldToTheLastExclusiveStageAndNoLonger(t *testing.T) {
	a, b := sharing(t)
	p := a.plan("scout look", "between make scout", "measure look between", "grade make measure")
	for _, id := range []string{"scout", "measure"} {
		p.stage(id).Endpoint = &plan.Endpoint{BaseURL: "http://localhost:9"}
	}
	try := func(want bool) func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error {
		return func(_ context.Context, env stage.Env, _ stage.Inputs, out *stage.Outputs) error {
			_, err := b.x.Run(context.Background(), endpointPlan(b, "http://localhost:9").Plan, Options{})
			if busy := (*BusyError)(nil); errors.As(err, &busy) != want {
				t.Errorf("beside %s: %v, want busy %v", env.Stage, err, want)
			}
			return out.JSON("made.json", map[string]any{})
		}
	}
	a.do["between"], a.do["grade"] = try(true), try(false)
	if r := a.run(p, Options{}); r.Exit != 0 {
		t.Errorf("%s", states(r))
	}
}

func TestAStageThatIsTakenOverDoesNotGiveTheLockBack(t *testing.T) {
	a, b := sharing(t)
	p := a.plan("scout look", "measure look scout", "grade make measure")
	for _, id := range []string{"scout", "measure"} {
		p.stage(id).Endpoint = &plan.Endpoint{BaseURL: "http://localhost:9"}
	}
	a.run(p, Options{})
	a.do["measure"] = func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		_, err := b.x.Run(context.Background(), endpointPlan(b, "http://localhost:9").Plan, Options{})
		if busy := (*BusyError)(nil); !errors.As(err, &busy) {
			t.Errorf("beside the measurement: %v, want busy", err)
		}
		return out.JSON("seen.json", map[string]any{})
	}
	wantStates(t, a.run(p, Options{From: []string{"measure"}}), "scout=ok/taken_over measure=ok/executed grade=ok/executed")
}

func TestAnInterruptEndsTheWait(t *testing.T) {
	a, b := sharing(t)
	release := a.held(endpointPlan(a, "http://localhost:9/v1"))
	defer release()
	interrupt := make(chan struct{})
	b.seen.on = func(e event.Event) {
		if e.Event == event.RunWaiting {
			close(interrupt)
		}
	}
	_, err := b.x.Run(t.Context(), endpointPlan(b, "http://localhost:9/v1").Plan, Options{Wait: true, Interrupt: interrupt})
	if !errors.Is(err, ErrInterrupted) {
		t.Errorf("got %v, want ErrInterrupted", err)
	}
}

func TestWaitingRunsWhenTheHolderEnds(t *testing.T) {
	a, b := sharing(t)
	release := a.held(endpointPlan(a, "http://localhost:9/v1"))
	var once sync.Once
	b.seen.on = func(e event.Event) {
		if e.Event == event.RunWaiting {
			once.Do(func() { go release() })
		}
	}
	r := b.run(endpointPlan(b, "http://localhost:9/v1"), Options{Wait: true})
	if r.Exit != 0 || len(b.seen.texts(event.RunWaiting)) != 1 {
		t.Errorf("%s; waiting was told %q", states(r), b.seen.texts(event.RunWaiting))
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	a, b := sharing(t)
	release := a.held(endpointPlan(a, "http://localhost:9/v1"))
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := b.x.Run(ctx, endpointPlan(b, "http://localhost:9/v1").Plan, Options{Wait: true}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's end", err)
	}
}

func TestExclusiveStagesRunAloneAndOthersAtMostJobsAtOnce(t *testing.T) {
	l := newLab(t)
	var running, most, lonely atomic.Int64
	work := func(alone bool, name string) func(context.Context, stage.Env, stage.Inputs, *stage.Outputs) error {
		return func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
			now := running.Add(1)
			defer running.Add(-1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
			if alone && now != 1 {
				lonely.Add(1)
			}
			return out.JSON(name, map[string]any{"stage": name})
		}
	}
	var lines []string
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		lines = append(lines, id+" make")
		l.do[id] = work(false, "made.json")
	}
	lines = append(lines, "m look", "n look")
	l.do["m"], l.do["n"] = work(true, "seen.json"), work(true, "seen.json")
	p := l.plan(lines...)
	for i, s := range p.Stages {
		p.with(s.ID, `{"n": `+string(rune('0'+i))+`}`)
	}
	r := l.run(p, Options{})
	if r.Exit != 0 || lonely.Load() > 0 || most.Load() > 2 {
		t.Errorf("%s; %d at most, %d not alone", states(r), most.Load(), lonely.Load())
	}
}

// A run that waits has not begun: the one that it waits for, and whoever begins
// meanwhile, is older.
func TestARunThatWaitedIsTheOneBegunLast(t *testing.T) {
	l := newLab(t)
	p := endpointPlan(l, "http://localhost:9/v1")
	release := l.held(p)
	other := newLabIn(t, l.dir)
	for range 3 {
		other.reopen(nil) // its clock is hours ahead of the holder's
	}
	clock := other.x.Now
	var hours atomic.Int64
	other.x.Now = func() time.Time { return clock().Add(time.Duration(hours.Load()) * time.Hour) }
	var between *Run
	var once sync.Once
	other.seen.on = func(e event.Event) {
		if e.Event != event.RunWaiting {
			return
		}
		if e.Run != "" {
			t.Errorf("a run that has not begun is called %s", e.Run)
		}
		once.Do(func() {
			third := newLabIn(t, l.dir)
			third.x.Now = other.x.Now
			hours.Store(1)
			between = third.run(endpointPlan(third, ""), Options{})
			hours.Store(2)
			go release()
		})
	}
	r := other.run(p, Options{Wait: true})
	if got := l.runFolders(); len(got) != 3 || got[0] != r.ID || got[1] != between.ID {
		t.Errorf("the newest first, runs are %q; want %s, then %s", got, r.ID, between.ID)
	}
	if !r.Started.After(between.Started) {
		t.Errorf("it began at %s, before the one at %s that it outwaited", r.Started, between.Started)
	}
	l.verify(r)
}
