package derive_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/derive"
	"anvil/stages/internal/weights"
	"anvil/stages/record"
)

// verified is a record over weights that were verified against a manifest.
func verified(t *testing.T) (l *lab, whole stage.Artifact) {
	t.Helper()
	l = newLab(t)
	files := []weights.File{
		{Path: "config.json", Size: 3, SHA256: digest.FromBytes([]byte("abc"))},
		{Path: "model.safetensors", Size: 5, SHA256: digest.FromBytes([]byte("model"))},
	}
	manifest := weights.Manifest{Schema: weights.ManifestSchema, Files: files}
	leaf := l.artifact("", "manifest.json", weights.ManifestSchema, manifest.Encode(), stage.LimitationSet{})
	r := weights.Replica{
		Name: "local", Root: "../checkpoint", ManifestSHA256: manifest.Digest(),
		Missing: []string{}, Unexpected: []string{}, Ignored: []string{"README.md"}, Incomplete: []string{},
	}
	for _, f := range files {
		r.Files = append(r.Files, weights.Checked{File: f, Expected: &f.SHA256, OK: true})
	}
	v := weights.Verify([]weights.Replica{r}, &leaf.SHA256, 8)
	v.Repo, v.Revision = new("org/model"), new("main")
	whole = l.document("weights", "weights.json", weights.VerificationSchema, v)
	config, err := json.Marshal(map[string]any{
		"repo": "org/model", "revision": "main", "replicas": []any{map[string]any{"name": "local", "path": "../checkpoint"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.made[whole.SHA256] = stage.Production{
		Stage: "weights", Kind: "verify-weights", Contract: 2, Config: config, Inputs: map[string][]stage.Artifact{"with./manifest": {leaf}},
	}
	return l, whole
}

func (l *lab) validatedWeights(whole stage.Artifact, src []byte) record.Validation {
	l.t.Helper()
	made := l.made[whole.SHA256]
	if src != nil {
		whole = l.artifact(whole.Stage, whole.Name, whole.Schema, src, whole.LimitationSet())
		l.made[whole.SHA256] = made
	}
	rows, _ := goldenRows()
	p, _ := l.summarize(map[string]any{}, map[string][]stage.Artifact{
		"attempts": {l.attempts("measure", header(len(rows)), rows, userStamps)}, "weights": {whole},
	})
	return l.validate(p.artifacts["record.json"])
}

// Of a verification only what was left out has no witness but its writer.
func TestEveryScalarOfVerifiedWeightsIsWitnessed(t *testing.T) {
	l, whole := verified(t)
	if v := l.validatedWeights(whole, nil); !v.OK {
		t.Fatalf("as it is: %+v", v.Problems)
	}
	doc := l.objects[whole.SHA256]
	for _, m := range mutations(t, doc) {
		forged := slices.Concat(doc[:m.from], []byte(m.text), doc[m.to:])
		a := l.artifact(whole.Stage, whole.Name, whole.Schema, forged, whole.LimitationSet())
		caught := len(derive.CheckAlone(t.Context(), a)) > 0 || !l.validatedWeights(whole, forged).OK
		if free := strings.HasPrefix(m.pointer, "/replicas/0/ignored/"); caught == free {
			t.Errorf("%s to %s: caught %v", m.pointer, m.text, caught)
		}
	}
}

// A forger who makes the verdicts fit is left with the manifest.
func TestVerifiedWeightsAreThoseOfTheManifest(t *testing.T) {
	l, whole := verified(t)
	var v weights.Verification
	for name, c := range map[string]struct {
		change  func(*weights.Verification)
		pointer string
	}{
		"another file, as expected": {func(v *weights.Verification) {
			f := &v.Replicas[0].Files[0]
			f.SHA256 = digest.FromBytes([]byte("other"))
			f.Expected = &f.SHA256
		}, "/replicas/0/files/0/expected"},
		"a file less": {func(v *weights.Verification) { v.Replicas[0].Files = v.Replicas[0].Files[:1] }, "/replicas/0/missing"},
		"no reference": {func(v *weights.Verification) {
			v.Reference = nil
			for i := range v.Replicas[0].Files {
				v.Replicas[0].Files[i].Expected = nil
			}
		}, "/reference"},
		"another revision": {func(v *weights.Verification) { v.Revision = new("dev") }, "/revision"},
		"another root":     {func(v *weights.Verification) { v.Replicas[0].Root = "elsewhere" }, "/replicas/0/root"},
	} {
		t.Run(name, func(t *testing.T) {
			l.t = t
			v = weights.Verification{}
			if err := json.Unmarshal(l.objects[whole.SHA256], &v); err != nil {
				t.Fatal(err)
			}
			c.change(&v)
			r, sum := &v.Replicas[0], int64(0)
			m := weights.Manifest{Schema: weights.ManifestSchema}
			for _, f := range r.Files {
				m.Files, sum = append(m.Files, f.File), sum+f.Size
			}
			r.ManifestSHA256 = m.Digest()
			v.ManifestSHA256, v.Bytes = &r.ManifestSHA256, sum
			doc, err := stage.MarshalDocument(v, whole.LimitationSet())
			if err != nil {
				t.Fatal(err)
			}
			got := l.validatedWeights(whole, doc)
			if !slices.ContainsFunc(got.Problems, func(p record.ValidationProblem) bool {
				return p.Artifact == "weights/weights.json" && p.Pointer == c.pointer && p.Level == record.LevelRederived
			}) {
				t.Errorf("level %d, problems %+v, want one at %s", got.Level, got.Problems, c.pointer)
			}
		})
	}
}
