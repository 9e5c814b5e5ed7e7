package verifyweights

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"anvil/pipeline/digest"
	"anvil/stages/internal/kindtest"
)

// cached lays the checkpoint out as the Hugging Face cache does, links into a
// folder of blobs, and binds the manifest of the whole one.
func cached(t *testing.T) (b *kindtest.Bench, snapshot string) {
	t.Helper()
	b = bench(t, map[string]any{"path": "hub/models--o--m/snapshots/abc", "manifest": "manifest.json"})
	model := filepath.Join(b.Env.PlanDir, "hub", "models--o--m")
	snapshot = filepath.Join(model, "snapshots", "abc")
	blobs := filepath.Join(model, "blobs")
	for _, dir := range []string{snapshot, blobs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	whole := filepath.Join(b.Env.PlanDir, "ckpt")
	files, err := os.ReadDir(whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(filepath.Join(whole, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		blob := digest.FromBytes(raw).String()
		if err := os.WriteFile(filepath.Join(blobs, blob), raw, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..", "..", "blobs", blob), filepath.Join(snapshot, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return b, snapshot
}

// faultsOf are the findings of a run, which the executor makes exit 5.
func faultsOf(t *testing.T, b *kindtest.Bench) string {
	t.Helper()
	p, err := b.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, f := range p.Findings {
		texts = append(texts, f.Text)
	}
	var doc struct {
		OK bool `json:"ok"`
	}
	if err := json.Unmarshal(p.Documents["weights.json"], &doc); err != nil || doc.OK != (len(texts) == 0) {
		t.Errorf("the document says ok %v beside findings %q (%v)", doc.OK, texts, err)
	}
	return strings.Join(texts, "\n")
}

const (
	shard = "model-00002-of-00002.safetensors"
	other = "model-00001-of-00002.safetensors"
)

// hub 3643, 4779, 3371, 4624: a download "succeeds" corrupt, truncated or partial.
// In the cache's own layout each kind of damage is a finding that names the path.
func TestHub3643DamageInTheCacheLayoutIsNamed(t *testing.T) {
	edit := func(change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, snapshot string) {
			t.Helper()
			path := filepath.Join(snapshot, shard) // through the link
			raw, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, change(raw), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	do := func(f func(snapshot string) error) func(*testing.T, string) {
		return func(t *testing.T, snapshot string) {
			t.Helper()
			if err := f(snapshot); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		damage func(*testing.T, string)
		want   string
	}{
		"whole":         {func(*testing.T, string) {}, ""},
		"flipped byte":  {edit(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), shard + " differs"},
		"truncated":     {edit(func(b []byte) []byte { return b[:len(b)-1] }), shard + " differs"},
		"emptied":       {edit(func([]byte) []byte { return nil }), shard + " differs"},
		"dropped shard": {do(func(s string) error { return os.Remove(filepath.Join(s, shard)) }), shard + " is missing"},
		"dangling link": {do(func(s string) error {
			target, err := filepath.EvalSymlinks(filepath.Join(s, shard))
			if err != nil {
				return err
			}
			return os.Remove(target)
		}), shard + " is missing"},
		"left unfinished": {do(func(s string) error {
			return os.WriteFile(filepath.Join(s, "x.safetensors.incomplete"), []byte("x"), 0o644)
		}), "x.safetensors.incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			b, snapshot := cached(t)
			c.damage(t, snapshot)
			if got := faultsOf(t, b); !strings.Contains(got, c.want) || c.want == "" && got != "" {
				t.Errorf("findings %q, want %q", got, c.want)
			}
		})
	}
}

// manifestOf is the identity of a checkpoint that is compared with nothing.
func manifestOf(t *testing.T, change func(dir string) error) string {
	t.Helper()
	b := bench(t, map[string]any{"path": "ckpt"})
	if err := change(filepath.Join(b.Env.PlanDir, "ckpt")); err != nil {
		t.Fatal(err)
	}
	p, err := b.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		ManifestSHA256 string `json:"manifest_sha256"`
	}
	if err := json.Unmarshal(p.Documents["weights.json"], &doc); err != nil || doc.ManifestSHA256 == "" {
		t.Fatalf("no manifest_sha256 in %s: %v", p.Documents["weights.json"], err)
	}
	return doc.ManifestSHA256
}

// InferenceX launch script: a stub directory with a configuration and no weights,
// and weights of another version under the old name. A shard that the index names
// is looked for; one label over two checkpoints is two identities.
func TestInferenceXStubsAndSwappedWeightsAreTold(t *testing.T) {
	b := bench(t, map[string]any{"path": "ckpt"})
	dir := filepath.Join(b.Env.PlanDir, "ckpt")
	if err := os.Remove(filepath.Join(dir, shard)); err != nil {
		t.Fatal(err)
	}
	if got := faultsOf(t, b); !strings.Contains(got, shard) {
		t.Errorf("findings %q do not name the shard that the index names", got)
	}
	stub := bench(t, map[string]any{"path": "stub"})
	if err := os.Mkdir(filepath.Join(stub.Env.PlanDir, "stub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(stub.Env.PlanDir, "stub", "config.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := faultsOf(t, stub); !strings.Contains(got, "no weight file") {
		t.Errorf("findings %q of a directory without weights", got)
	}
	old := manifestOf(t, func(string) error { return nil })
	if again := manifestOf(t, func(string) error { return nil }); again != old {
		t.Errorf("one checkpoint has two identities: %s, %s", old, again)
	}
	if v2 := manifestOf(t, func(dir string) error { return appendByte(filepath.Join(dir, shard)) }); v2 == old {
		t.Error("other weights under the old name have the old identity")
	}
}

func appendByte(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, 0), 0o644)
}

// OMS 1.0: a root digest that is not bound to names, in which empty files vanish.
// Swapped names, an empty file and a byte that moved across files change it.
func TestOMSTheManifestIsBoundToNamesAndSizes(t *testing.T) {
	seen := map[string]string{}
	for name, change := range map[string]func(dir string) error{
		"as it is": func(string) error { return nil },
		"swapped names": func(dir string) error {
			a, b, aside := filepath.Join(dir, shard), filepath.Join(dir, other), filepath.Join(dir, "aside")
			for _, move := range [][2]string{{a, aside}, {b, a}, {aside, b}} {
				if err := os.Rename(move[0], move[1]); err != nil {
					return err
				}
			}
			return nil
		},
		"an empty file": func(dir string) error { return os.WriteFile(filepath.Join(dir, "empty.txt"), nil, 0o644) },
		"a moved byte": func(dir string) error {
			first, err := os.ReadFile(filepath.Join(dir, other))
			if err != nil {
				return err
			}
			second, err := os.ReadFile(filepath.Join(dir, shard))
			if err != nil {
				return err
			}
			cut := len(first) - 1
			if err := os.WriteFile(filepath.Join(dir, other), first[:cut], 0o644); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, shard), append(first[cut:], second...), 0o644)
		},
	} {
		sum := manifestOf(t, change)
		if with, twice := seen[sum]; twice {
			t.Errorf("%q and %q have one digest", name, with)
		}
		seen[sum] = name
	}
}
