package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages"
)

// A goldenStage is what a pure stage made of frozen inputs, under which key.
type goldenStage struct {
	Kind     string                   `json:"kind"`
	Contract int                      `json:"contract"`
	Key      digest.Digest            `json:"key"`
	Outputs  map[string]digest.Digest `json:"outputs"` // of the bytes, without what only the whole plan decides
}

// A kind that makes other bytes of the same inputs under the same key would be
// restored as if nothing had changed. Its Contract is raised by hand; whoever
// forgets it fails here, and -update does not help: it writes new keys alone.
// (Before the first tag a line of keys.json may also be deleted.)
func TestGoldenKeys(t *testing.T) {
	const file = "testdata/golden/keys.json"
	got := goldenRun(t)
	raw, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	golden := map[string]goldenStage{}
	if err == nil {
		if err := json.Unmarshal(raw, &golden); err != nil {
			t.Fatal(err)
		}
	}
	forgotten := false
	for id, g := range got {
		if was, ok := golden[id]; ok && was.Key == g.Key && !cmp.Equal(was.Outputs, g.Outputs) {
			forgotten = true
			t.Errorf("%s gives other bytes under the same key: raise the Contract of kind %s (-was +is):\n%s", id, g.Kind, cmp.Diff(was.Outputs, g.Outputs))
		}
	}
	if *update && !forgotten {
		raw, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(raw, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(golden, got); diff != "" {
		t.Errorf("keys changed; stored results will be made anew. If that is meant, go test ./cmd/anvil -run GoldenKeys -update (-was +is):\n%s", diff)
	}
	for name, k := range stages.All() {
		if k.Spec().Class == stage.Pure && !covers(got, name) {
			t.Errorf("no stage of testdata/golden/plan.yaml uses the pure kind %s", name)
		}
	}
}

func covers(got map[string]goldenStage, kind string) bool {
	for _, g := range got {
		if g.Kind == kind {
			return true
		}
	}
	return false
}

// goldenRun runs the plan and returns what each stage made.
func goldenRun(t *testing.T) map[string]goldenStage {
	t.Helper()
	workspace := t.TempDir()
	command := func(args ...string) []byte {
		t.Helper()
		var out, problems bytes.Buffer
		if code := run(append(args, "--workspace", workspace), strings.NewReader(""), &out, &problems); code != exitOK {
			t.Fatalf("anvil %s: exit %d: %s", strings.Join(args, " "), code, &problems)
		}
		return out.Bytes()
	}
	command("plan", "run", filepath.FromSlash("testdata/golden/plan.yaml"), "--quiet")
	var shown struct {
		Stages []struct {
			Stage    string        `json:"stage"`
			Kind     string        `json:"kind"`
			Contract int           `json:"contract"`
			Key      digest.Digest `json:"key"`
			Outputs  []struct {
				Name string `json:"name"`
			} `json:"outputs"`
		} `json:"stages"`
	}
	if err := json.Unmarshal(command("provenance", "show", "latest", "--json"), &shown); err != nil {
		t.Fatal(err)
	}
	got := map[string]goldenStage{}
	for _, s := range shown.Stages {
		g := goldenStage{Kind: s.Kind, Contract: s.Contract, Key: s.Key, Outputs: map[string]digest.Digest{}}
		for _, o := range s.Outputs {
			g.Outputs[o.Name] = digest.FromBytes(ofThePlan.ReplaceAll(command("artifact", "cat", "latest", s.Stage+"/"+o.Name), nil))
		}
		got[s.Stage] = g
	}
	return got
}

// ofThePlan is what a record says of the whole plan, and its id, which follows:
// another kind's new default changes them, and no key of summarize.
var ofThePlan = regexp.MustCompile(`"(resolved_sha256|id)": ?"(rec-)?[0-9a-f]+"`)
