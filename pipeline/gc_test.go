package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"anvil/pipeline/digest"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
	"anvil/schemas"
)

// restart ends the process that had the lab and begins another.
func (l *lab) restart() {
	l.t.Helper()
	if err := l.x.Store.Close(); err != nil {
		l.t.Fatal(err)
	}
	l.reopen(nil)
}

func (l *lab) collect() store.Collected {
	l.t.Helper()
	l.restart()
	got, err := Collect(l.t.Context(), l.dir, l.x.Store, false, false)
	if err != nil {
		l.t.Fatal(err)
	}
	return got
}

func (l *lab) remove(id string) {
	l.t.Helper()
	if _, err := prov.Remove(l.dir, id); err != nil {
		l.t.Fatal(err)
	}
}

// dvc#9420: the cache never matches after gc when a stage is not deterministic.
func TestAfterRemovalAndCollectionTheSurvivingRunIsTheBase(t *testing.T) {
	l := newLab(t)
	p := l.plan("look look", "grade make look", "sum sum grade")
	first := l.run(p, Options{})
	second := l.run(p, Options{})
	l.remove(second.ID)
	if got := l.collect(); got.Objects == 0 || got.KeptObjects == 0 {
		t.Errorf("got %+v, want the second run's observation removed and the first's kept", got)
	}
	base, err := l.x.FindBase(t.Context(), "lab", map[string][]string{"look": nil, "grade": {"look"}, "sum": {"grade"}}, Options{Only: []string{"grade"}})
	if err != nil || base == nil || base.Run != first.ID {
		t.Fatalf("got base %+v, %v, want %s", base, err, first.ID)
	}
	r := l.run(p, Options{Only: []string{"grade"}, Base: first.ID})
	wantStates(t, r, "look=ok/taken_over grade=ok/executed sum=stale")
	l.verify(first)
	l.verify(r)
}

// argo#13161: gc removed an artifact that a retry needed.
func TestADerivedRunOutlivesItsBase(t *testing.T) {
	l := newLab(t)
	p := l.plan("look look", "grade make look", "sum sum grade")
	base := l.run(p, Options{})
	derived := l.run(p, Options{Only: []string{"grade"}, Base: base.ID})
	l.remove(base.ID)
	got := l.collect()
	l.verify(derived)
	if l.x.Store.Has(base.stage("sum").Outputs[0].SHA256, -1) || got.Objects == 0 {
		t.Errorf("got %+v; what only the removed run stood on is still there", got)
	}
	again := l.run(p, Options{From: []string{"grade"}, Base: derived.ID})
	if s := again.stage("look"); s.How != prov.TakenOver {
		t.Errorf("stages are %s, want look taken over", states(again))
	}
	l.verify(again)
}

func TestWhatIsPinnedOutlivesItsRun(t *testing.T) {
	l := newLab(t)
	r := l.run(l.plan("look look", "grade make look"), Options{})
	result := r.stage("grade").Result
	if err := l.x.Store.Pin(result); err != nil {
		t.Fatal(err)
	}
	l.remove(r.ID)
	l.collect()
	for _, id := range []string{"look", "grade"} {
		for _, d := range []digest.Digest{r.stage(id).Result, r.stage(id).Outputs[0].SHA256, r.stage(id).Outputs[0].Limitations} {
			if err := l.x.Store.Check(t.Context(), d, -1); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
}

func TestCollectionWillNotGuessWhatADamagedResultNeeds(t *testing.T) {
	l := newLab(t)
	r := l.run(l.plan("look look", "grade make look"), Options{})
	l.damage(r.stage("grade").Result)
	l.restart()
	_, err := Collect(t.Context(), l.dir, l.x.Store, false, false)
	if _, ok := errors.AsType[*digest.MismatchError](err); !ok {
		t.Errorf("got %v, want the damaged result named", err)
	}
	if err := l.x.Store.Check(t.Context(), r.stage("look").Outputs[0].SHA256, -1); err != nil {
		t.Errorf("something was removed: %v", err)
	}
}

// argo#13161 beside live runs: plans run, are derived from each other and are
// removed while a collector never stops.
func TestCollectionBesideRunningPlansRemovesNothingThatTheyNeed(t *testing.T) {
	dir := quickDir(t)
	var stop atomic.Bool
	var collecting, running sync.WaitGroup
	var removed atomic.Int64
	collecting.Go(func() {
		for !stop.Load() {
			s, err := store.Open(filepath.Join(dir, store.Folder))
			if err != nil {
				t.Error(err)
				return
			}
			got, err := Collect(t.Context(), dir, s, false, false)
			if err != nil {
				t.Errorf("collect: %v", err)
			}
			removed.Add(int64(got.Objects))
			s.Close()
		}
	})
	for range 2 {
		running.Go(func() {
			for range 8 {
				l := newLabIn(t, dir)
				p := l.plan("see see", "grade make see", "sum sum grade")
				base, err := l.x.Run(t.Context(), p.Plan, Options{})
				if err != nil {
					t.Errorf("run: %v", err)
					return
				}
				derived, err := l.x.Run(t.Context(), p.Plan, Options{From: []string{"grade"}, Base: base.ID})
				if err != nil {
					t.Errorf("derive: %v", err)
					return
				}
				other, err := l.x.Run(t.Context(), p.Plan, Options{})
				if err != nil {
					t.Errorf("run again: %v", err)
					return
				}
				l.remove(base.ID)
				l.verify(derived)
				l.remove(other.ID)
				if err := l.x.Store.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	stop.Store(true)
	collecting.Wait()
	if removed.Load() == 0 {
		t.Error("nothing was ever removed: the test shows nothing")
	}
	l := newLabIn(t, dir)
	ids := l.runFolders()
	if len(ids) != 16 {
		t.Errorf("%d runs are left, want the 16 derived ones", len(ids))
	}
	for _, id := range ids {
		l.verify(&Run{ID: id})
	}
}

func TestARunThatGoesOnIsNotRemoved(t *testing.T) {
	l := newLab(t)
	p := l.plan("look look")
	var live *prov.LiveError
	l.do["look"] = func(ctx context.Context, env stage.Env, in stage.Inputs, out *stage.Outputs) error {
		if _, err := prov.Remove(l.dir, "latest"); !errors.As(err, &live) {
			t.Errorf("got %v, want a *LiveError", err)
		}
		return l.ordinary(ctx, l.kinds()["look"].Spec(), env, in, out)
	}
	r := l.run(p, Options{})
	l.verify(r)
	l.remove(r.ID)
	if ids := l.runFolders(); len(ids) != 0 {
		t.Errorf("runs %v are left", ids)
	}
}

func TestCollectedFitsItsSchema(t *testing.T) {
	l := newLab(t)
	l.run(l.plan("look look"), Options{})
	raw, err := json.Marshal(l.collect())
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	if err := schemas.Check("anvil.run-gc/v1", doc); err != nil {
		t.Error(err)
	}
}
