package weights

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/pipeline/digest"
)

// write lays files below a new folder; a value that begins with "->" is a link.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(content, "->"); ok {
			err = os.Symlink(target, p)
		} else {
			err = os.WriteFile(p, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func scan(t *testing.T, dir string, ignore ...string) *Scan {
	t.Helper()
	s, err := Directory(context.Background(), dir, Options{Ignore: ignore})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func compare(t *testing.T, dir string, reference *Manifest) Replica {
	t.Helper()
	r, err := Compare("local", "ckpt", dir, scan(t, dir), reference)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var whole = map[string]string{"config.json": "{}", "a.safetensors": "aaaa", "b.safetensors": "bbbb", "sub/c.bin": "cc"}

func with(changes map[string]string) map[string]string {
	out := maps.Clone(whole)
	for k, v := range changes {
		if v == "" {
			delete(out, k)
			continue
		}
		out[k] = v
	}
	return out
}

func TestManifestDigestBindsNamesAndBytes(t *testing.T) {
	base := scan(t, write(t, whole)).Manifest()
	if again := scan(t, write(t, whole)).Manifest(); again.Digest() != base.Digest() {
		t.Error("equal folders have different manifests")
	}
	empty := write(t, whole)
	if err := os.WriteFile(filepath.Join(empty, "empty.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{
		"swapped names": write(t, with(map[string]string{"a.safetensors": "bbbb", "b.safetensors": "aaaa"})),
		"empty file":    empty,
		"moved bytes":   write(t, with(map[string]string{"a.safetensors": "aaaab", "b.safetensors": "bbb"})),
		"renamed":       write(t, with(map[string]string{"a.safetensors": "", "A.safetensors": "aaaa"})),
	} {
		if got := scan(t, dir).Manifest(); got.Digest() == base.Digest() {
			t.Errorf("%s: the manifest's digest did not change", name)
		}
	}
}

func TestCompareNamesEveryFault(t *testing.T) {
	reference := scan(t, write(t, whole)).Manifest()
	index := `{"weight_map": {"x": "a.safetensors", "y": "model-00002-of-00002.safetensors"}}`
	tests := map[string]struct {
		files   map[string]string
		free    bool // without the reference
		want    string
		missing []string
	}{
		"whole":             {files: whole},
		"flipped byte":      {files: with(map[string]string{"a.safetensors": "aaba"}), want: "a.safetensors differs"},
		"truncated":         {files: with(map[string]string{"b.safetensors": "bb"}), want: "b.safetensors differs"},
		"dropped shard":     {files: with(map[string]string{"b.safetensors": ""}), want: "b.safetensors is missing"},
		"extra file":        {files: with(map[string]string{"new.txt": "x"}), want: "new.txt is not in the manifest"},
		"dangling link":     {files: with(map[string]string{"b.safetensors": "->../blobs/none"}), want: "b.safetensors is missing"},
		"download left":     {files: with(map[string]string{"d.safetensors.incomplete": "d"}), want: "incomplete: d.safetensors.incomplete"},
		"stub":              {files: map[string]string{"config.json": "{}"}, free: true, want: "no weight file"},
		"index names more":  {files: with(map[string]string{"model.safetensors.index.json": index}), free: true, want: "model-00002-of-00002.safetensors is missing"},
		"unreadable index":  {files: with(map[string]string{"model.safetensors.index.json": "{"}), free: true, want: "unreadable index"},
		"link to the bytes": {files: with(map[string]string{"a.safetensors": "->real", "real": "aaaa"}), free: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ref := &reference
			if tt.free {
				ref = nil
			}
			r := compare(t, write(t, tt.files), ref)
			faults := strings.Join(r.Faults(), "\n")
			if got := r.OK(); got != (tt.want == "") {
				t.Errorf("OK() = %v with faults %q", got, faults)
			}
			if !strings.Contains(faults, tt.want) {
				t.Errorf("faults %q do not name %q", faults, tt.want)
			}
		})
	}
}

// A file that is there and was left out is not missing: the pattern is at fault.
func TestAnIgnoredFileThatBelongsIsToldApart(t *testing.T) {
	reference := scan(t, write(t, whole)).Manifest()
	dir := write(t, with(map[string]string{"b.safetensors": ""}))
	r, err := Compare("local", "ckpt", dir, scan(t, dir, "*.json", "b.*", "sub"), &reference)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"b.safetensors is missing",
		"config.json is ignored, and the manifest lists it: narrow the pattern, or pin a manifest that was made with it",
		"sub/c.bin is ignored, and the manifest lists it: narrow the pattern, or pin a manifest that was made with it",
	}
	if diff := cmp.Diff(want, r.Faults()); diff != "" || r.OK() {
		t.Errorf("OK %v, faults (-want +got):\n%s", r.OK(), diff)
	}
	index := write(t, with(map[string]string{"model.safetensors.index.json": `{"weight_map": {"x": "a.safetensors"}}`}))
	if r, err = Compare("local", "ckpt", index, scan(t, index, "a.*"), nil); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(r.Faults(), "; "); !strings.HasPrefix(got, "a.safetensors is ignored, and the checkpoint's own index lists it") {
		t.Errorf("faults %q", got)
	}
}

// Without a reference nobody knows which replica is right, and everybody in
// what they differ.
func TestUnlikeReplicasNameEachPath(t *testing.T) {
	aaba := digest.FromBytes([]byte("aaba")).String()
	aaaa := digest.FromBytes([]byte("aaaa")).String()
	var replicas []Replica
	for _, name := range []string{"one", "two", "three"} {
		files := whole
		if name == "two" {
			files = with(map[string]string{"a.safetensors": "aaba", "config.json": ""})
		}
		dir := write(t, files)
		r, err := Compare(name, name, dir, scan(t, dir), nil)
		if err != nil {
			t.Fatal(err)
		}
		replicas = append(replicas, r)
	}
	v := Verify(replicas, nil, 0)
	want := []string{
		"a.safetensors: one and three have " + aaaa + ", two has " + aaba,
		"config.json: one and three have " + digest.FromBytes([]byte("{}")).String() + ", two has none",
	}
	if diff := cmp.Diff(want, v.Differences()); diff != "" || v.OK || v.ManifestSHA256 != nil {
		t.Errorf("ok %v, manifest %v, differences (-want +got):\n%s", v.OK, v.ManifestSHA256, diff)
	}
	for _, r := range v.Replicas {
		for _, f := range r.Files {
			if unlike := f.Path == "a.safetensors" || f.Path == "config.json"; f.OK == unlike || f.Expected != nil {
				t.Errorf("%s of %s: ok %v, expected %v", f.Path, r.Name, f.OK, f.Expected)
			}
		}
	}
	if alike := Verify(replicas[:1], nil, 0); len(alike.Differences()) > 0 || !alike.OK && replicas[0].OK() {
		t.Errorf("one replica: %q", alike.Differences())
	}
}

func TestIgnoredFilesAreListed(t *testing.T) {
	dir := write(t, with(map[string]string{"README.md": "x", "logs/run.md": "y"}))
	s := scan(t, dir, "*.md")
	if want := []string{"README.md", "logs/run.md"}; !slices.Equal(s.Ignored, want) {
		t.Errorf("ignored %q, want %q", s.Ignored, want)
	}
	if want := scan(t, write(t, whole)).Manifest().Digest(); s.Manifest().Digest() != want {
		t.Error("ignored files are in the manifest")
	}
}

// plan-keys.md: each ignored file is listed.
func TestFilesOfAnIgnoredFolderAreListed(t *testing.T) {
	dir := write(t, with(map[string]string{"logs/run.txt": "x", "logs/old/run.txt": "y", "logs/self": "->.", "logs/none": "->nowhere", "sub/logs/z": "z"}))
	s := scan(t, dir, "logs")
	if want := []string{"logs/none", "logs/old/run.txt", "logs/run.txt", "logs/self", "sub/logs/z"}; !slices.Equal(s.Ignored, want) {
		t.Errorf("ignored %q, want %q", s.Ignored, want)
	}
	if want := scan(t, write(t, whole)).Manifest().Digest(); s.Manifest().Digest() != want {
		t.Error("files of an ignored folder are in the manifest")
	}
}

func TestDirectoryRefusesWhatIsNone(t *testing.T) {
	file := filepath.Join(write(t, whole), "config.json")
	if _, err := Directory(context.Background(), file, Options{}); !errors.Is(err, ErrNotDirectory) {
		t.Errorf("a file: %v, want ErrNotDirectory", err)
	}
	if _, err := Directory(context.Background(), filepath.Join(t.TempDir(), "none"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing folder: %v, want ErrNotExist", err)
	}
	loop := write(t, whole)
	if err := os.Symlink(".", filepath.Join(loop, "self")); err != nil {
		t.Fatal(err)
	}
	if _, err := Directory(context.Background(), loop, Options{}); err == nil {
		t.Errorf("a link to itself: %v, want an error", err)
	}
}

func TestParseManifestReadsWhatEncodeWrites(t *testing.T) {
	m := scan(t, write(t, whole)).Manifest()
	back, err := ParseManifest(m.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if back.Digest() != m.Digest() {
		t.Error("a manifest does not survive its own encoding")
	}
}

func TestParseManifestRefuses(t *testing.T) {
	d := digest.FromBytes(nil).String()
	entry := func(p string) string { return `{"path": "` + p + `", "size": 0, "sha256": "` + d + `"}` }
	doc := func(files string) string {
		return `{"schema": "anvil.weights-manifest/v1", "files": [` + files + `]}`
	}
	for name, src := range map[string]string{
		"empty":        "",
		"not JSON":     "{",
		"two":          doc(entry("a")) + "{}",
		"no files":     doc(""),
		"climbing":     doc(entry("../a")),
		"absolute":     doc(entry("/a")),
		"long way":     doc(entry("a/./b")),
		"unsorted":     doc(entry("b") + "," + entry("a")),
		"twice":        doc(entry("a") + "," + entry("a")),
		"upper digest": doc(strings.ToUpper(entry("a"))),
		"huge size":    strings.Replace(doc(entry("a")), `"size": 0`, `"size": 1e2000000`, 1),
		"tiny size":    strings.Replace(doc(entry("a")), `"size": 0`, `"size": 1e-2000000`, 1),
		"other schema": strings.Replace(doc(entry("a")), "manifest/v1", "manifest/v9", 1),
	} {
		if _, err := ParseManifest([]byte(src)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
