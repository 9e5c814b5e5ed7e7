package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/store"
)

// A world is what results refer to and what runs name, for a collector.
type world struct {
	mu    sync.Mutex
	refs  map[digest.Digest][]digest.Digest // of a result, to results and objects alike
	roots []digest.Digest
}

func (w *world) options() store.GCOptions {
	return store.GCOptions{
		MayRefer: func(head []byte) bool { return strings.HasPrefix(string(head), "result") },
		Roots: func(context.Context) (results, objects []digest.Digest, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Clone(w.roots), nil, nil
		},
		References: func(_ context.Context, d digest.Digest) (results, objects []digest.Digest, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.refs[d], nil, nil
		},
	}
}

func (w *world) name(d digest.Digest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.roots = append(w.roots, d)
}

// twoStores opens one folder as two processes would.
func twoStores(t *testing.T) (writer, collector *store.Store) {
	t.Helper()
	dir := filepath.Join(quickDir(t), store.Folder)
	stores := make([]*store.Store, 2)
	for i := range stores {
		s, err := store.OpenHooked(dir, disk.Unsynced)
		must(t, err)
		t.Cleanup(func() { s.Close() })
		stores[i] = s
	}
	return stores[0], stores[1]
}

func put(t *testing.T, s *store.Store, content string) digest.Digest {
	t.Helper()
	d, err := s.PutBytes(ctx, []byte(content))
	must(t, err)
	return d
}

func TestGCRemovesWhatNobodyNeeds(t *testing.T) {
	w, c := twoStores(t)
	result, input, upstream, garbage, pinned := put(t, w, "result"), put(t, w, "input"), put(t, w, "result upstream"), put(t, w, "garbage"), put(t, w, "pinned")
	deep := put(t, w, "deep")
	must(t, w.Point(result, store.Pointer{Run: "r", Stage: "s", Attempt: 1, Result: result}))
	must(t, w.Point(garbage, store.Pointer{Run: "r", Stage: "s", Attempt: 1, Result: garbage}))
	must(t, w.Pin(pinned))
	must(t, w.Close())
	wd := &world{roots: []digest.Digest{result}, refs: map[digest.Digest][]digest.Digest{result: {input, upstream}, upstream: {deep, result}}}

	dry := wd.options()
	dry.DryRun = true
	would, err := c.GC(ctx, dry)
	must(t, err)
	if would.Objects != 1 || would.Bytes != 7 || would.Pointers != 1 || would.KeptObjects != 5 || !c.Has(garbage, 7) {
		t.Errorf("dry run: got %+v, want one object of 7 bytes named and kept", would)
	}
	got, err := c.GC(ctx, wd.options())
	must(t, err)
	would.DryRun = false
	if got != would {
		t.Errorf("got %+v, want what the dry run said: %+v", got, would)
	}
	for name, d := range map[string]digest.Digest{"result": result, "input": input, "upstream": upstream, "deep": deep, "pinned": pinned} {
		if err := c.Check(ctx, d, -1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if c.Has(garbage, -1) {
		t.Error("garbage is still there")
	}
	if p, _ := c.Lookup(garbage); len(p) != 0 {
		t.Errorf("the index leads to what is gone: %v", p)
	}
	if p, _ := c.Lookup(result); len(p) != 1 {
		t.Errorf("the index lost what is there: %v", p)
	}
	must(t, c.Unpin(pinned))
	must(t, c.Unpin(pinned))
	must(t, c.Close())
	if _, err := c.GC(ctx, wd.options()); err != nil || c.Has(pinned, -1) {
		t.Errorf("got %v; the pin was taken away and the object is still there", err)
	}
}

func TestGCKeepsWhatALivingProcessHolds(t *testing.T) {
	w, c := twoStores(t)
	other, err := store.Open(w.Dir())
	must(t, err)
	input, found := put(t, other, "input"), put(t, other, "found")
	must(t, other.Point(found, store.Pointer{Run: "r", Stage: "s", Attempt: 1, Result: found}))
	must(t, other.Close())
	wd := &world{refs: map[digest.Digest][]digest.Digest{found: {input}}}

	fresh := put(t, w, "just written")
	if p, err := w.Lookup(found); err != nil || len(p) != 1 {
		t.Fatalf("got %v, %v", p, err)
	}
	got, err := c.GC(ctx, wd.options())
	must(t, err)
	if got.Objects != 0 || got.LivingOwners != 1 {
		t.Errorf("got %+v, want nothing removed beside one living process", got)
	}
	for name, d := range map[string]digest.Digest{"just written": fresh, "found by its key": found, "what that stands on": input} {
		if !c.Has(d, -1) {
			t.Errorf("%s is gone", name)
		}
	}
	must(t, w.Close())
	if got, err = c.GC(ctx, wd.options()); err != nil || got.Objects != 3 || got.Pointers != 1 {
		t.Errorf("got %+v, %v, want everything removed once nobody lives", got, err)
	}
}

func TestAProcessHoldsWhatItFoundBeforeItWrote(t *testing.T) {
	w, c := twoStores(t)
	other, err := store.Open(w.Dir())
	must(t, err)
	d := put(t, other, "result")
	must(t, other.Close())
	r, err := w.Open(ctx, d, -1)
	must(t, err)
	must(t, r.Close())
	must(t, w.Prepare())
	if _, err := c.GC(ctx, (&world{}).options()); err != nil || !c.Has(d, -1) {
		t.Errorf("got %v; what was read before Prepare is gone", err)
	}
}

// TestGCKeepsWhatIsPublishedWhileItLooks closes the writer between the reading
// of the runs and the removal: its run is not known, its lines must be.
func TestGCKeepsWhatIsPublishedWhileItLooks(t *testing.T) {
	w, c := twoStores(t)
	must(t, w.Prepare())
	wd := &world{}
	opt := wd.options()
	roots := opt.Roots
	var fresh digest.Digest
	opt.Roots = func(ctx context.Context) (results, objects []digest.Digest, err error) {
		results, objects, err = roots(ctx)
		fresh = put(t, w, "published too late to be seen")
		wd.name(fresh)
		must(t, w.Close())
		return results, objects, err
	}
	_, err := c.GC(ctx, opt)
	must(t, err)
	if !c.Has(fresh, -1) {
		t.Error("an object that a run names was removed")
	}
	if held, _ := filepath.Glob(filepath.Join(c.Dir(), "tmp", "*.held")); len(held) > 2 {
		t.Errorf("lines are left: %v", held)
	}
	got, err := c.GC(ctx, wd.options())
	must(t, err)
	if !c.Has(fresh, -1) || got.LivingOwners != 0 {
		t.Errorf("got %+v, want the object kept by its run", got)
	}
}

func TestGCCleansUpAfterTheDead(t *testing.T) {
	_, c := twoStores(t)
	must(t, c.Prepare())
	tmp := filepath.Join(c.Dir(), "tmp")
	d := digest.FromBytes([]byte("x"))
	for name, text := range map[string]string{
		"deadtoken.held": "o" + d.String() + "\n", "deadtoken.half": "half an object", "goneforever.half": "half an object",
	} {
		must(t, os.WriteFile(filepath.Join(tmp, name), []byte(text), 0o644))
	}
	living, err := c.Create(ctx)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(c.Dir(), "trash", d.String()+"-1"), []byte("damaged"), 0o644))
	got, err := c.GC(ctx, (&world{}).options())
	must(t, err)
	if got.Temporary != 3 || got.Trash != 0 {
		t.Errorf("got %+v, want three files removed and the trash kept", got)
	}
	must(t, living.Close())
	opt := (&world{}).options()
	opt.EmptyTrash = true
	if got, err = c.GC(ctx, opt); err != nil || got.Trash != 1 {
		t.Errorf("got %+v, %v, want the trash emptied", got, err)
	}
}

func TestGCRemovesNothingWhenItCannotKnow(t *testing.T) {
	_, c := twoStores(t)
	d := put(t, c, "x")
	must(t, c.Close())
	broken := errors.New("run cannot be read")
	opt := (&world{}).options()
	opt.Roots = func(context.Context) (results, objects []digest.Digest, err error) { return nil, nil, broken }
	if _, err := c.GC(ctx, opt); !errors.Is(err, broken) || !c.Has(d, -1) {
		t.Errorf("got %v, want the error and the object", err)
	}
	opt = (&world{roots: []digest.Digest{d}}).options()
	opt.References = func(context.Context, digest.Digest) (results, objects []digest.Digest, err error) {
		return nil, nil, broken
	}
	if _, err := c.GC(ctx, opt); !errors.Is(err, broken) || !c.Has(d, -1) {
		t.Errorf("got %v, want the error and the object", err)
	}
}

// TestGCRemovesAResultBeforeWhatItRefersTo ends a collection after each removal.
func TestGCRemovesAResultBeforeWhatItRefersTo(t *testing.T) {
	for stop := range 6 {
		dir := filepath.Join(quickDir(t), store.Folder)
		removals := -1
		s, err := store.OpenHooked(dir, func(st disk.Step) error {
			if st.Op == disk.Remove && strings.HasPrefix(st.Path, "objects/") {
				if removals++; removals == stop {
					return syscall.EIO
				}
			}
			return nil
		})
		must(t, err)
		wd := &world{refs: map[digest.Digest][]digest.Digest{}}
		below := put(t, s, "leaf")
		for i := range 5 {
			d := put(t, s, fmt.Sprint("result ", i))
			wd.refs[d] = []digest.Digest{below, digest.FromBytes([]byte("leaf"))}
			below = d
		}
		must(t, s.Close())
		removals = -1
		_, err = s.GC(ctx, wd.options())
		if !errors.Is(err, syscall.EIO) {
			t.Fatalf("got %v, want the collection to end at removal %d", err, stop)
		}
		for d, refs := range wd.refs {
			for _, r := range refs {
				if s.Has(d, -1) && !s.Has(r, -1) {
					t.Errorf("after %d removals a result is there and lacks what it refers to", stop)
				}
			}
		}
		must(t, s.Close())
	}
}

func TestOnlyOneCollects(t *testing.T) {
	w, c := twoStores(t)
	opt := (&world{}).options()
	inner := error(nil)
	opt.Roots = func(context.Context) (results, objects []digest.Digest, err error) {
		_, inner = w.GC(ctx, (&world{}).options())
		return nil, nil, nil
	}
	_, err := c.GC(ctx, opt)
	must(t, err)
	if !errors.Is(inner, store.ErrCollecting) {
		t.Errorf("got %v, want ErrCollecting", inner)
	}
}

func TestALineThatWasHalfWrittenHoldsNothing(t *testing.T) {
	dir := filepath.Join(quickDir(t), store.Folder)
	fail := false
	w, err := store.OpenHooked(dir, func(s disk.Step) error {
		if fail && s.Op == disk.Torn && strings.HasSuffix(s.Path, ".held") {
			return syscall.ENOSPC
		}
		return nil
	})
	must(t, err)
	defer w.Close()
	kept := put(t, w, "kept")
	fail = true
	if _, err := w.PutBytes(ctx, []byte("not held")); err == nil {
		t.Fatal("an object was put that is not held")
	}
	fail = false
	again, later := put(t, w, "not held"), put(t, w, "later")
	c, err := store.Open(dir)
	must(t, err)
	defer c.Close()
	got, err := c.GC(ctx, (&world{}).options())
	must(t, err)
	if got.Objects != 0 || !c.Has(kept, -1) || !c.Has(later, -1) || !c.Has(again, -1) {
		t.Errorf("got %+v, want all three objects kept", got)
	}
}

// TestGCBesideWritersTakesNothingThatTheyHold lets processes write, restore and
// publish while others collect without a pause.
func TestGCBesideWritersTakesNothingThatTheyHold(t *testing.T) {
	dir := filepath.Join(quickDir(t), store.Folder)
	wd := &world{refs: map[digest.Digest][]digest.Digest{}}
	var writers, collectors sync.WaitGroup
	var stop atomic.Bool
	var removed atomic.Int64
	for i := range 3 {
		writers.Go(func() {
			for round := range 12 {
				if err := writeAndPublish(dir, wd, i, round); err != nil {
					t.Errorf("writer %d, round %d: %v", i, round, err)
				}
			}
		})
	}
	collectors.Go(func() {
		for !stop.Load() {
			c, err := store.OpenHooked(dir, disk.Unsynced)
			if err != nil {
				t.Error(err)
				return
			}
			got, err := c.GC(ctx, wd.options())
			if err != nil {
				t.Error(err)
			}
			removed.Add(int64(got.Objects))
			c.Close()
		}
	})
	writers.Wait()
	stop.Store(true)
	collectors.Wait()
	if removed.Load() == 0 {
		t.Error("nothing was ever removed: the test shows nothing")
	}
	s, err := store.Open(dir)
	must(t, err)
	for _, d := range wd.roots {
		for _, o := range append(wd.refs[d], d) {
			must(t, s.Check(ctx, o, -1))
		}
	}
}

// writeAndPublish puts what all writers share and what is its own, looks that
// both stay as long as it lives, and names every other result in a run.
func writeAndPublish(dir string, wd *world, i, round int) error {
	s, err := store.OpenHooked(dir, disk.Unsynced)
	if err != nil {
		return err
	}
	defer s.Close()
	var objects []digest.Digest
	for k := range 4 {
		for _, text := range []string{fmt.Sprint("shared ", k), fmt.Sprint("own ", i, round, k)} {
			d, err := s.PutBytes(ctx, []byte(text))
			if err != nil {
				return err
			}
			objects = append(objects, d)
		}
	}
	result, err := s.PutBytes(ctx, fmt.Appendf(nil, "result of %d in %d", i, round))
	if err != nil {
		return err
	}
	wd.mu.Lock()
	wd.refs[result] = objects
	wd.mu.Unlock()
	if err := s.Point(result, store.Pointer{Run: "r", Stage: "s", Attempt: 1, Result: result}); err != nil {
		return err
	}
	for _, d := range append(objects, result) {
		if err := s.Check(ctx, d, -1); err != nil {
			return err
		}
	}
	if round%2 == 0 {
		wd.name(result)
	}
	return nil
}
