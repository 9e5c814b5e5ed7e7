package record

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/internal/weights"
)

// verification is weights.json of two equal replicas of two files.
func verification(t *testing.T, pinned bool, change func(*weights.Verification)) []byte {
	t.Helper()
	files := []weights.File{
		{Path: "config.json", Size: 3, SHA256: digest.FromBytes([]byte("abc"))},
		{Path: "model.safetensors", Size: 5, SHA256: digest.FromBytes([]byte("model"))},
	}
	manifest := weights.Manifest{Schema: weights.ManifestSchema, Files: files}
	var replicas []weights.Replica
	for _, name := range []string{"a", "b"} {
		r := weights.Replica{
			Name: name, Root: "/x", ManifestSHA256: manifest.Digest(),
			Missing: []string{}, Unexpected: []string{}, Ignored: []string{"README.md", "logs/x"}, Incomplete: []string{},
		}
		for _, f := range files {
			checked := weights.Checked{File: f, OK: true}
			if pinned {
				checked.Expected = &f.SHA256
			}
			r.Files = append(r.Files, checked)
		}
		replicas = append(replicas, r)
	}
	var reference *digest.Digest
	if pinned {
		d := manifest.Digest()
		reference = &d
	}
	v := weights.Verify(replicas, reference, 16)
	change(&v)
	doc, err := stage.MarshalDocument(v, stage.NewLimitationSet())
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestEveryScalarOfAVerificationIsWitnessed(t *testing.T) {
	// What the plan claims, and names under which nothing else is known.
	free := []string{
		"/repo", "/revision", "/reference/sha256", "/replicas/0/name", "/replicas/0/root", "/replicas/1/name", "/replicas/1/root",
		"/replicas/0/ignored/0", "/replicas/0/ignored/1", "/replicas/1/ignored/0", "/replicas/1/ignored/1",
	}
	for _, pinned := range []bool{true, false} {
		out, n := survivors(t, verification(t, pinned, func(*weights.Verification) {}), nil)
		for _, s := range out {
			pointer, _, _ := strings.Cut(s, ":")
			if !slices.Contains(free, pointer) && pointer != "/reference" {
				t.Errorf("pinned %v: %s survives", pinned, s)
			}
		}
		if n < 20 {
			t.Errorf("only %d scalars were changed", n)
		}
	}
}

func TestVerdictsOnWeightsFollowFromTheDigests(t *testing.T) {
	other := digest.FromBytes([]byte("other"))
	for name, c := range map[string]struct {
		pinned bool
		change func(*weights.Verification)
		rules  []string
	}{
		"as it is":            {true, func(*weights.Verification) {}, nil},
		"without a reference": {false, func(*weights.Verification) {}, nil},
		"a mismatch said so": {true, func(v *weights.Verification) {
			v.Replicas[0].Files[0].Expected, v.Replicas[0].Files[0].OK, v.OK = &other, false, false
		}, nil},
		"a missing file":         {true, func(v *weights.Verification) { v.Replicas[1].Missing, v.OK = []string{"z"}, false }, nil},
		"a mismatch that is ok":  {true, func(v *weights.Verification) { v.Replicas[0].Files[0].Expected = &other }, []string{"weights.file", "weights.ok"}},
		"ok with a file missing": {true, func(v *weights.Verification) { v.Replicas[0].Missing = []string{"a"} }, []string{"weights.ok"}},
		"missing and hashed":     {true, func(v *weights.Verification) { v.Replicas[0].Missing, v.OK = []string{"config.json"}, false }, []string{"weights.absent"}},
		"unexpected, not listed": {true, func(v *weights.Verification) {
			v.Replicas[0].Files[0].Expected, v.Replicas[0].Files[0].OK, v.OK = nil, false, false
		}, []string{"weights.unexpected"}},
		"unexpected and ok":  {true, func(v *weights.Verification) { v.Replicas[0].Files[0].Expected = nil }, []string{"weights.file", "weights.unexpected", "weights.ok"}},
		"expected by nobody": {false, func(v *weights.Verification) { v.Replicas[0].Files[0].Expected = &other }, []string{"weights.file", "weights.reference", "weights.ok"}},
		"other bytes":        {true, func(v *weights.Verification) { v.Bytes++ }, []string{"weights.bytes"}},
		"another file":       {false, func(v *weights.Verification) { v.Replicas[0].Files[0].SHA256 = other }, []string{"weights.file", "weights.manifest", "weights.file", "weights.ok"}},
		"replicas that differ": {false, func(v *weights.Verification) {
			f := &v.Replicas[0].Files[0].File
			f.SHA256 = other
			v.Replicas[0].ManifestSHA256 = weights.Manifest{Schema: weights.ManifestSchema, Files: []weights.File{*f, v.Replicas[0].Files[1].File}}.Digest()
		}, []string{"weights.file", "weights.file", "weights.ok", "weights.manifest"}},
		"replicas that differ, said so": {false, func(v *weights.Verification) {
			f := &v.Replicas[0].Files[0].File
			f.SHA256 = other
			v.Replicas[0].ManifestSHA256 = weights.Manifest{Schema: weights.ManifestSchema, Files: []weights.File{*f, v.Replicas[0].Files[1].File}}.Digest()
			*v = weights.Verify(v.Replicas, nil, v.Bytes)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := CheckReader("weights.json", bytes.NewReader(verification(t, c.pinned, c.change)), Options{})
			var rules []string
			for _, p := range r.Problems {
				rules = append(rules, p.Rule)
				if !json.Valid(p.Stored) || p.Text == "" {
					t.Errorf("%+v", p)
				}
			}
			if !slices.Equal(rules, c.rules) {
				t.Errorf("rules %v, want %v", rules, c.rules)
			}
		})
	}
}
