package derive

import (
	"fmt"
	"slices"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/internal/weights"
	"anvil/stages/record"
)

// checkWeights holds what verify-weights wrote against the manifest that it was
// given and the claims of its configuration. What was hashed only it has seen;
// package record holds the verdicts against the digests.
func (v *validation) checkWeights() {
	for _, a := range v.artifacts() {
		made, ok := v.closure.Made(a.SHA256)
		if a.Schema != weights.VerificationSchema || !ok || made.Kind != "verify-weights" {
			continue
		}
		if err := v.checkVerification(a, made); err != nil {
			v.problem(record.LevelRederived, a, "", "rederive", nil, nil, "%v", err)
		}
	}
}

func (v *validation) checkVerification(a stage.Artifact, made stage.Production) error {
	var c struct {
		Repo     *string `json:"repo"`
		Revision *string `json:"revision"`
		Replicas []struct {
			Name string `json:"name"`
			Path string `json:"path"`
		} `json:"replicas"`
	}
	if err := decodeConfig(made.Config, &c); err != nil {
		return err
	}
	doc, err := stage.Decode[weights.Verification](v.ctx, a)
	if err != nil {
		return err
	}
	if len(doc.Replicas) != len(c.Replicas) {
		v.problem(record.LevelRederived, a, "/replicas", "rederive", len(doc.Replicas), len(c.Replicas), "there is not one replica for each that is configured")
		return nil
	}
	want := map[string]any{"repo": c.Repo, "revision": c.Revision, "reference": nil}
	if pinned := made.Inputs["with./manifest"]; len(pinned) == 1 {
		want["reference"] = weights.Reference{SHA256: pinned[0].SHA256}
		if err := v.checkExpected(a, doc, pinned[0]); err != nil {
			return err
		}
	}
	for i, r := range doc.Replicas {
		at := fmt.Sprintf("/replicas/%d", i)
		for _, p := range []struct{ name, stored, want string }{{"name", r.Name, c.Replicas[i].Name}, {"root", r.Root, c.Replicas[i].Path}} {
			if p.stored != p.want {
				v.problem(record.LevelRederived, a, at+"/"+p.name, "rederive", p.stored, p.want, "is not what the stage was configured with")
			}
		}
	}
	return v.differs(a, want, "the configuration")
}

// checkExpected holds what is expected of each file against the manifest.
func (v *validation) checkExpected(a stage.Artifact, doc weights.Verification, pinned stage.Artifact) error {
	src, err := pinned.Bytes(v.ctx)
	if err != nil {
		return err
	}
	m, err := weights.ParseManifest(src)
	if err != nil {
		return fmt.Errorf("manifest %s: %w", pinned.Name, err)
	}
	named := map[string]digest.Digest{}
	for _, f := range m.Files {
		named[f.Path] = f.SHA256
	}
	for i, r := range doc.Replicas {
		have := map[string]bool{}
		for j, f := range r.Files {
			have[f.Path] = true
			want, ok := named[f.Path]
			if ok != (f.Expected != nil) || ok && *f.Expected != want {
				v.problem(record.LevelRederived, a, fmt.Sprintf("/replicas/%d/files/%d/expected", i, j), "rederive", textOf(f.Expected, f.Expected != nil), textOf(&want, ok),
					"is not what the manifest says of %s", f.Path)
			}
		}
		for _, f := range m.Files {
			if !have[f.Path] && !slices.Contains(r.Missing, f.Path) {
				v.problem(record.LevelRederived, a, fmt.Sprintf("/replicas/%d/missing", i), "rederive", nil, f.Path, "the manifest names %s, and it is neither hashed nor missing", f.Path)
			}
		}
	}
	return nil
}

func textOf(d *digest.Digest, ok bool) any {
	if !ok {
		return nil
	}
	return d.String()
}
