package verifyweights

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"anvil/pipeline/stage"
	"anvil/stages/internal/kindtest"
)

// checkpoint lays a tiny checkpoint into the plan's folder and returns the
// manifest that fits it.
func checkpoint(t *testing.T, b *kindtest.Bench) []byte {
	t.Helper()
	dir := filepath.Join(b.Env.PlanDir, "ckpt")
	if err := os.CopyFS(dir, os.DirFS("../../testdata/checkpoint")); err != nil {
		t.Fatal(err)
	}
	m, err := Manifest(context.Background(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func bench(t *testing.T, with map[string]any) *kindtest.Bench {
	t.Helper()
	b := kindtest.New(t, Kind, nil, with)
	m := checkpoint(t, b)
	if with["manifest"] != nil {
		b.Files["/manifest"] = kindtest.Artifact("anvil.file/v1", "manifest.json", m)
	}
	return b
}

func TestAWholeCheckpointIsVerified(t *testing.T) {
	b := bench(t, map[string]any{"path": "ckpt", "manifest": "manifest.json", "revision": "abc"})
	p, err := b.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		OK             bool   `json:"ok"`
		ManifestSHA256 string `json:"manifest_sha256"`
		Reference      struct {
			SHA256 string `json:"sha256"`
		} `json:"reference"`
		Bytes int64 `json:"bytes"`
	}
	if err := json.Unmarshal(p.Documents["weights.json"], &doc); err != nil {
		t.Fatal(err)
	}
	if !doc.OK || len(p.Findings) != 0 {
		t.Errorf("ok %v, findings %v", doc.OK, p.Findings)
	}
	if doc.ManifestSHA256 != doc.Reference.SHA256 {
		t.Errorf("identity %s of files that fit manifest %s", doc.ManifestSHA256, doc.Reference.SHA256)
	}
	if len(p.Limits) != 0 {
		t.Errorf("limitations %v of a pinned, verified checkpoint", p.Limits)
	}
	if got := b.Env.Progress.Done.Load(); got != doc.Bytes || got == 0 {
		t.Errorf("progress says %d bytes, the document %d", got, doc.Bytes)
	}
}

func TestADamagedCheckpointIsAFinding(t *testing.T) {
	b := bench(t, map[string]any{"path": "ckpt", "manifest": "manifest.json"})
	shard := filepath.Join(b.Env.PlanDir, "ckpt", "model-00002-of-00002.safetensors")
	src, err := os.ReadFile(shard)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(shard)
	if err != nil {
		t.Fatal(err)
	}
	src[len(src)-1] ^= 1
	if err := os.WriteFile(shard, src, 0o644); err != nil {
		t.Fatal(err)
	}
	// Same size, same time: only the bytes tell (bazel#14723).
	if err := os.Chtimes(shard, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	p, err := b.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Findings) != 1 || !strings.Contains(p.Findings[0].Text, "model-00002-of-00002.safetensors differs") {
		t.Errorf("findings %v, want the shard named", p.Findings)
	}
	if !strings.Contains(string(p.Documents["weights.json"]), `"ok": false`) {
		t.Error("the document says ok")
	}
}

func TestReplicasThatDifferAreAFinding(t *testing.T) {
	b := bench(t, map[string]any{"replicas": []any{
		map[string]any{"name": "a", "path": "ckpt"}, map[string]any{"name": "b", "path": "other"},
	}})
	other := filepath.Join(b.Env.PlanDir, "other")
	if err := os.CopyFS(other, os.DirFS("../../testdata/checkpoint")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "config.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := b.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Findings) != 1 || p.Findings[0].Code != "replicas_differ" || !strings.Contains(p.Findings[0].Text, "config.json: a has ") {
		t.Errorf("findings %v, want replicas_differ with the path and the replicas", p.Findings)
	}
	if p.Limits["weights.no-reference"] == "" {
		t.Errorf("limitations %v lack weights.no-reference", p.Limits)
	}
}

func TestAnUnreadableDirectoryIsAnError(t *testing.T) {
	b := bench(t, map[string]any{"path": "nowhere"})
	if _, err := b.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("got %v, want an error that names the folder", err)
	}
}

func TestABadManifestIsAnError(t *testing.T) {
	b := bench(t, map[string]any{"path": "ckpt", "manifest": "manifest.json"})
	b.Files["/manifest"] = kindtest.Artifact("anvil.file/v1", "manifest.json", []byte("{}"))
	if _, err := b.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "manifest.json") {
		t.Errorf("got %v, want an error that names the manifest", err)
	}
}

// The number is legal JSON, and as a fraction too large to be made.
func TestAManifestWithASizeThatNoDoubleHoldsIsAnErrorThatNamesIt(t *testing.T) {
	b := bench(t, map[string]any{"path": "ckpt", "manifest": "manifest.json"})
	const src = `{"schema": "anvil.weights-manifest/v1", "files": [{"path": "a", "size": 1e2000000, "sha256": "x"}]}`
	b.Files["/manifest"] = kindtest.Artifact("anvil.file/v1", "manifest.json", []byte(src))
	if _, err := b.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "/files/0/size") {
		t.Errorf("got %v, want an error that names /files/0/size", err)
	}
}

func TestWhatIsNotBuiltIsAProblemAndNotIgnored(t *testing.T) {
	tests := map[string]struct {
		with    map[string]any
		pointer string
	}{
		"nothing":     {map[string]any{}, "/replicas"},
		"both":        {map[string]any{"path": "a", "replicas": []any{map[string]any{"name": "b", "path": "b"}}}, "/path"},
		"ssh":         {map[string]any{"replicas": []any{map[string]any{"name": "b", "path": "b", "ssh": "host"}}}, "/replicas/0"},
		"command":     {map[string]any{"replicas": []any{map[string]any{"name": "b", "path": "b", "command": []any{"cat"}}}}, "/replicas/0"},
		"same name":   {map[string]any{"replicas": []any{map[string]any{"name": "b", "path": "b"}, map[string]any{"name": "b", "path": "c"}}}, "/replicas/1/name"},
		"signature":   {map[string]any{"path": "a", "expect": "signature"}, "/expect"},
		"no manifest": {map[string]any{"path": "a", "expect": "manifest"}, "/manifest"},
		"if-changed":  {map[string]any{"path": "a", "rehash": "if-changed"}, "/rehash"},
		"bad pattern": {map[string]any{"path": "a", "ignore": []any{"[a"}}, "/ignore/0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, problems := kindtest.New(t, Kind, nil, tt.with).Resolve()
			for _, p := range problems {
				if p.Pointer == tt.pointer {
					return
				}
			}
			t.Errorf("problems %+v, want one at %s", problems, tt.pointer)
		})
	}
}

func TestManifestRefusesWhatCannotBePinned(t *testing.T) {
	empty, broken := t.TempDir(), t.TempDir()
	if err := os.Symlink("nowhere", filepath.Join(broken, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	partial := t.TempDir()
	for _, name := range []string{"model.safetensors", "model-2.safetensors.incomplete"} {
		if err := os.WriteFile(filepath.Join(partial, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Manifest(context.Background(), partial, []string{"*.incomplete"}); err != nil {
		t.Errorf("with the download left out: %v", err)
	}
	for name, dir := range map[string]string{"empty": empty, "dangling": broken, "partial": partial, "missing": filepath.Join(empty, "x")} {
		if m, err := Manifest(context.Background(), dir, nil); err == nil {
			t.Errorf("%s: got %s", name, m)
		}
	}
}

var _ stage.Stage = (*verify)(nil)
