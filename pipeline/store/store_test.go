package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/disk"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
)

var ctx = context.Background()

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func open(tb testing.TB, hook disk.Hook) *store.Store {
	tb.Helper()
	s, err := store.OpenHooked(filepath.Join(quickDir(tb), store.Folder), hook)
	must(tb, err)
	tb.Cleanup(func() { s.Close() })
	return s
}

// quickDir is a folder in memory where there is one: these tests make thousands
// of files, and a disk would spend their time.
func quickDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "anvil-test-") //nolint:usetesting // TempDir cannot choose the file system
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// files lists what is kept below a folder: locks and the lines of what is held
// are not.
func files(tb testing.TB, dir string) []string {
	tb.Helper()
	var names []string
	must(tb, fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !e.IsDir() && path.Ext(name) != ".held" && path.Ext(name) != ".lock" {
			names = append(names, name)
		}
		return err
	}))
	return names
}

func TestOpenMakesNothing(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(filepath.Join(dir, store.Folder))
	must(t, err)
	_, err = s.Bytes(ctx, digest.FromBytes(nil), 1<<20)
	if !errors.Is(err, store.ErrNotFound) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if p, err := s.Lookup(digest.FromBytes(nil)); err != nil || len(p) != 0 {
		t.Errorf("got %v, %v, want an empty index", p, err)
	}
	must(t, s.CheckAll(ctx, func(d digest.Digest, _ error) { t.Errorf("found %s", d) }))
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("reading made %v", names)
	}
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o644))
	if _, err := store.Open(file); err == nil {
		t.Error("a file was opened as a store")
	}
}

func TestPutIsIdempotent(t *testing.T) {
	s := open(t, nil)
	want := digest.FromBytes([]byte("content"))
	for range 3 {
		d, n, err := s.Put(ctx, strings.NewReader("content"))
		if err != nil || d != want || n != 7 {
			t.Fatalf("got %s, %d, %v, want %s", d, n, err, want)
		}
		if d, err := s.PutBytes(ctx, []byte("content")); err != nil || d != want {
			t.Fatalf("PutBytes: got %s, %v", d, err)
		}
	}
	hex := want.String()
	name := "objects/sha256/" + hex[:2] + "/" + hex[2:]
	if diff := cmp.Diff([]string{name}, files(t, s.Dir())); diff != "" {
		t.Errorf("files of the store (-want +got):\n%s", diff)
	}
	info, err := os.Stat(s.Path(want))
	must(t, err)
	if info.Mode().Perm() != 0o444 {
		t.Errorf("object has mode %v, want read-only", info.Mode())
	}
	b, err := s.Bytes(ctx, want, 1<<20)
	if err != nil || string(b) != "content" {
		t.Errorf("got %q, %v", b, err)
	}
}

func TestPutFileKeepsWhatItHashed(t *testing.T) {
	s := open(t, nil)
	for _, content := range []string{"", "x", strings.Repeat("0123456789", 100_000)} {
		name := filepath.Join(t.TempDir(), "file")
		must(t, os.WriteFile(name, []byte(content), 0o600))
		d, n, err := s.PutFile(ctx, name)
		if err != nil || d != digest.FromBytes([]byte(content)) || n != int64(len(content)) {
			t.Fatalf("%d bytes: got %s, %d, %v", len(content), d, n, err)
		}
		must(t, s.Check(ctx, d, n))
	}
	if _, _, err := s.PutFile(ctx, filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want the file's own error", err)
	}
}

// TestStoreAgreesWithAMap runs random operations against a map.
func TestStoreAgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := open(t, disk.Unsynced)
		model := map[digest.Digest][]byte{}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			b := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, "bytes")
			d := digest.FromBytes(b)
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				got, err := s.PutBytes(ctx, b)
				if err != nil || got != d {
					rt.Fatalf("put: %s, %v", got, err)
				}
				model[d] = b
			case 1:
				w, err := s.Create(ctx)
				must(t, err)
				for _, c := range b {
					_, err = w.Write([]byte{c})
					must(t, err)
				}
				must(t, w.Close())
				if w.Digest() != d || w.Size() != int64(len(b)) {
					rt.Fatalf("stream: %s, %d", w.Digest(), w.Size())
				}
				model[d] = b
			case 2:
				w, err := s.Create(ctx)
				must(t, err)
				_, err = w.Write(b)
				must(t, err)
				w.Abort()
				if err := w.Close(); err == nil {
					rt.Fatal("an object that was given up was committed")
				}
			case 3:
				_, held := model[d]
				if s.Has(d, int64(len(b))) != held {
					rt.Fatalf("has %s: want %v", d, held)
				}
			}
		}
		seen := 0
		must(t, s.CheckAll(ctx, func(d digest.Digest, err error) {
			if _, ok := model[d]; !ok || err != nil {
				rt.Fatalf("object %s: %v", d, err)
			}
			seen++
		}))
		if got := len(files(t, s.Dir())); seen != len(model) || got != len(model) {
			rt.Fatalf("%d objects, %d files, want %d", seen, got, len(model))
		}
	})
}

func TestWritersOfOneObjectDoNotDisturbEachOther(t *testing.T) {
	s := open(t, nil)
	content := bytes.Repeat([]byte("same"), 50_000)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if i%2 == 0 {
				if _, err := s.PutBytes(ctx, content); err != nil {
					t.Error(err)
				}
				return
			}
			if _, _, err := s.Put(ctx, bytes.NewReader(content)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	must(t, s.Check(ctx, digest.FromBytes(content), int64(len(content))))
	if n := len(files(t, s.Dir())); n != 1 {
		t.Errorf("%d files, want the object alone", n)
	}
}

func damage(t *testing.T, s *store.Store, content string) digest.Digest {
	t.Helper()
	d, err := s.PutBytes(ctx, []byte(content))
	must(t, err)
	must(t, os.Chmod(s.Path(d), 0o644))
	must(t, os.WriteFile(s.Path(d), []byte(strings.ToUpper(content)), 0o644))
	return d
}

func TestReadingRefusesADamagedObject(t *testing.T) {
	s := open(t, nil)
	d := damage(t, s, "content")
	var mismatch *digest.MismatchError
	r, err := s.Open(ctx, d, 7)
	must(t, err)
	if _, err := io.ReadAll(r); !errors.As(err, &mismatch) {
		t.Errorf("Open: got %v, want a mismatch before the end", err)
	}
	must(t, r.Close())
	var damaged *store.DamagedError
	if _, err := s.Bytes(ctx, d, 1<<20); !errors.As(err, &damaged) || damaged.Digest != d {
		t.Errorf("Bytes: got %v, want a *DamagedError", err)
	}
	for _, size := range []int64{7, -1, 8} {
		if err := s.Check(ctx, d, size); !errors.As(err, &damaged) || !errors.As(err, &mismatch) {
			t.Errorf("Check of %d bytes: got %v, want a *DamagedError", size, err)
		}
	}
	found := 0
	must(t, s.CheckAll(ctx, func(_ digest.Digest, err error) {
		if errors.As(err, &damaged) {
			found++
		}
	}))
	if found != 1 {
		t.Errorf("CheckAll named %d damaged objects, want 1", found)
	}
}

func TestPuttingADamagedObjectAgainMendsIt(t *testing.T) {
	s := open(t, nil)
	d := damage(t, s, "content")
	got, err := s.PutBytes(ctx, []byte("content"))
	if err != nil || got != d {
		t.Fatalf("got %s, %v", got, err)
	}
	must(t, s.Check(ctx, d, 7))
	trash := files(t, filepath.Join(s.Dir(), "trash"))
	if len(trash) != 1 || !strings.HasPrefix(trash[0], d.String()) {
		t.Fatalf("trash holds %v, want the damaged object", trash)
	}
	b, err := os.ReadFile(filepath.Join(s.Dir(), "trash", trash[0]))
	if err != nil || string(b) != "CONTENT" {
		t.Errorf("trash holds %q, %v, want the damaged bytes", b, err)
	}
}

func TestSetAsideOfWhatIsGoneIsNoError(t *testing.T) {
	s := open(t, nil)
	d := damage(t, s, "content")
	for range 2 {
		if _, err := s.SetAside(d); err != nil {
			t.Fatal(err)
		}
	}
	if s.Has(d, -1) {
		t.Error("the damaged object still stands under its name")
	}
	if _, err := s.SetAside(digest.FromBytes([]byte("never put"))); err != nil {
		t.Errorf("set aside what was never there: %v", err)
	}
}

func TestExportMakesACopyAndNoLink(t *testing.T) {
	s := open(t, nil)
	d, err := s.PutBytes(ctx, []byte("content"))
	must(t, err)
	root, err := os.OpenRoot(t.TempDir())
	must(t, err)
	defer root.Close()
	for range 2 {
		must(t, s.Export(d, root, "artifacts/grade/grades.jsonl"))
	}
	must(t, root.WriteFile("artifacts/grade/grades.jsonl", []byte("edited!"), 0o644))
	must(t, s.Check(ctx, d, 7))
	if err := s.Export(d, root, "../outside"); err == nil {
		t.Error("a copy was written outside of its folder")
	}
	if err := s.Export(digest.FromBytes([]byte("none")), root, "x"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

func TestAnEndedContextStopsAWrite(t *testing.T) {
	s := open(t, nil)
	c, cancel := context.WithCancel(ctx)
	w, err := s.Create(c)
	must(t, err)
	_, err = w.Write([]byte("half"))
	must(t, err)
	cancel()
	if _, err := w.Write([]byte("more")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	if err := w.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error at Close too", err)
	}
	if n := len(files(t, s.Dir())); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

// TestEveryFailingStepLeavesNoPartialObject fails each step of a put in turn.
func TestEveryFailingStepLeavesNoPartialObject(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EROFS} {
		n := 0
		for failPutAtStep(t, errno, n) {
			n++
		}
		if n < 15 {
			t.Errorf("%v: only %d steps could fail", errno, n)
		}
	}
}

// failPutAtStep tells whether there was such a step.
func failPutAtStep(t *testing.T, errno syscall.Errno, n int) (failed bool) {
	t.Helper()
	left := -1
	s := open(t, func(st disk.Step) error {
		if st.Op == disk.Remove {
			return nil
		}
		left--
		if left == -1 {
			failed = true
			return errno
		}
		return nil
	})
	must(t, s.Prepare())
	left = n
	d, err := s.PutBytes(ctx, []byte("content"))
	if err == nil {
		err = s.Point(d, store.Pointer{Run: "r", Stage: "s", Attempt: 1, Result: d})
	}
	left = -1
	if failed != errors.Is(err, errno) {
		t.Fatalf("step %d: got %v, want %v", n, err, errno)
	}
	var full *store.FullError
	if errors.As(err, &full) != (failed && errors.Is(errno, syscall.ENOSPC)) {
		t.Errorf("step %d: got %T %v", n, err, err)
	}
	must(t, s.CheckAll(ctx, func(d digest.Digest, err error) {
		if err != nil {
			t.Errorf("step %d: object %s: %v", n, d, err)
		}
	}))
	if temp := files(t, filepath.Join(s.Dir(), "tmp")); len(temp) > 0 {
		t.Errorf("step %d: temporary files are left: %v", n, temp)
	}
	putAndPoint(t, s)
	return failed
}

func putAndPoint(t *testing.T, s *store.Store) {
	t.Helper()
	d, err := s.PutBytes(ctx, []byte("content"))
	must(t, err)
	must(t, s.Check(ctx, d, 7))
	must(t, s.Point(d, store.Pointer{Run: "r", Stage: "s", Attempt: 1, Result: d}))
	p, err := s.Lookup(d)
	if err != nil || len(p) != 1 || p[0] != d {
		t.Errorf("got %v, %v, want the pointer", p, err)
	}
}

func TestAReadOnlyWorkspaceIsOneClearError(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o555))
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere; TestEveryFailingStepLeavesNoPartialObject injects EROFS")
	}
	s, err := store.Open(filepath.Join(dir, store.Folder))
	must(t, err)
	var ro *store.ReadOnlyError
	if err := s.Prepare(); !errors.As(err, &ro) || ro.Hint() == "" {
		t.Errorf("got %v, want a *ReadOnlyError with a hint", err)
	}
}

func TestAVanishedWorkspaceIsOneClearError(t *testing.T) {
	s := open(t, nil)
	must(t, s.Prepare())
	w, err := s.Create(ctx)
	must(t, err)
	_, err = w.Write([]byte("content"))
	must(t, err)
	must(t, os.RemoveAll(s.Dir()))
	var gone *store.GoneError
	if err := w.Close(); !errors.As(err, &gone) || gone.Hint() == "" {
		t.Errorf("Close: got %v, want a *GoneError with a hint", err)
	}
	if _, err := s.PutBytes(ctx, []byte("more")); !errors.As(err, &gone) {
		t.Errorf("Put: got %v, want a *GoneError", err)
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the folder that vanished was made again, empty")
	}
}

func TestLookupTriesTheNewestFirstAndTrustsNothing(t *testing.T) {
	s := open(t, nil)
	key := digest.FromBytes([]byte("key"))
	var want []digest.Digest
	for i := range 3 {
		p := store.Pointer{Run: fmt.Sprintf("run-%d", i), Stage: "grade", Attempt: i + 1, Result: digest.FromBytes([]byte{byte(i)})}
		must(t, s.Point(key, p))
		must(t, s.Point(key, p))
		want = append([]digest.Digest{p.Result}, want...)
	}
	dir := filepath.Join(s.Dir(), "keys", key.String()[:2], key.String())
	must(t, os.WriteFile(filepath.Join(dir, "torn.json"), []byte(`{"run":`), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, digest.FromBytes(nil).String()), nil, 0o644))
	got, err := s.Lookup(key)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestGoldenKeys(t *testing.T) {
	ref := stage.Ref{Schema: "anvil.attempts/v1", SHA256: digest.FromBytes([]byte("a")), Size: 1, Limitations: digest.FromBytes([]byte("[]"))}
	base := store.KeySpec{Kind: "grade", Contract: 2, Config: []byte(`{"n": 1.50, "graders": [{"type": "equals"}]}`), Inputs: []store.KeyInput{{Port: "attempts", Ref: ref}}, Salt: "s"}
	got, err := store.KeyOf(base)
	must(t, err)
	if want := "5709e0312360d5ab3ae138796ccdd5f46b8b2d27409d22ac2c2463b0f38e60ce"; got.String() != want {
		t.Errorf("got key %s, want %s: every stored result would be lost", got, want)
	}
	same := base
	same.Config = []byte(`{"graders":[{"type":"equals"}],"n":1.5}`)
	if k, err := store.KeyOf(same); err != nil || k != got {
		t.Errorf("another spelling of the same configuration has key %s, %v", k, err)
	}
	changes := map[string]func(*store.KeySpec){
		"kind":        func(k *store.KeySpec) { k.Kind = "import" },
		"contract":    func(k *store.KeySpec) { k.Contract++ },
		"config":      func(k *store.KeySpec) { k.Config = []byte(`{}`) },
		"salt":        func(k *store.KeySpec) { k.Salt = "" },
		"port":        func(k *store.KeySpec) { k.Inputs[0].Port = "b" },
		"schema":      func(k *store.KeySpec) { k.Inputs[0].Schema = "x" },
		"sha256":      func(k *store.KeySpec) { k.Inputs[0].SHA256[0]++ },
		"size":        func(k *store.KeySpec) { k.Inputs[0].Size++ },
		"limitations": func(k *store.KeySpec) { k.Inputs[0].Limitations[0]++ },
		"inputs":      func(k *store.KeySpec) { k.Inputs = append(k.Inputs, k.Inputs[0]) },
		"no inputs":   func(k *store.KeySpec) { k.Inputs = nil },
	}
	seen := map[digest.Digest]string{got: "base"}
	for name, change := range changes {
		k := base
		k.Inputs = []store.KeyInput{base.Inputs[0]}
		change(&k)
		d, err := store.KeyOf(k)
		must(t, err)
		if other, ok := seen[d]; ok {
			t.Errorf("a change of %s has the key of %s", name, other)
		}
		seen[d] = name
	}
	for _, bad := range []string{"", "{", `{"a":1,"a":2}`} {
		k := base
		k.Config = []byte(bad)
		if _, err := store.KeyOf(k); err == nil {
			t.Errorf("configuration %q has a key", bad)
		}
	}
}

func BenchmarkCheckSmall(b *testing.B) {
	s := open(b, nil)
	d, err := s.PutBytes(ctx, bytes.Repeat([]byte("x"), 4096))
	must(b, err)
	for b.Loop() {
		must(b, s.Check(ctx, d, 4096))
	}
}

func BenchmarkLookupAndBytes(b *testing.B) {
	s := open(b, nil)
	d, err := s.PutBytes(ctx, bytes.Repeat([]byte("x"), 4096))
	must(b, err)
	must(b, s.Point(d, store.Pointer{Run: "r", Stage: "s", Attempt: 1, Result: d}))
	for b.Loop() {
		p, err := s.Lookup(d)
		must(b, err)
		_, err = s.Bytes(ctx, p[0], 1<<20)
		must(b, err)
	}
}
