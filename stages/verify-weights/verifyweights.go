// Package verifyweights is the kind verify-weights: it hashes the checkpoint
// that is to be measured and compares it with a pinned manifest, so that every
// later figure can say which bytes it stands on.
package verifyweights

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/internal/weights"
)

// Kind is verify-weights.
var Kind = stage.Define(stage.Spec{
	Name: "verify-weights", Contract: 2, Config: "anvil.verify-weights-config/v1", Class: stage.Observational, Gates: true,
	Out:     []stage.Port{{Name: "weights.json", Schema: weights.VerificationSchema}},
	Resolve: resolve,
}, func(c config) (stage.Stage, error) { return &verify{c}, nil })

type config struct {
	Path         *string   `json:"path"`
	Replicas     []replica `json:"replicas"`
	Manifest     *string   `json:"manifest"`
	Repo         *string   `json:"repo"`
	Revision     *string   `json:"revision"`
	Expect       string    `json:"expect"`
	SignatureKey *string   `json:"signature_key"`
	Rehash       string    `json:"rehash"`
	Ignore       []string  `json:"ignore"`
	Parallel     *int      `json:"parallel"`
}

type replica struct {
	Name    string   `json:"name"`
	Path    string   `json:"path"`
	SSH     *string  `json:"ssh"`
	Command []string `json:"command"`
}

// resolve turns the short form into the long one and refuses what this kind
// does not do yet, rather than do something else quietly.
func resolve(r *stage.Resolution) {
	one, many := r.With["path"], r.With["replicas"]
	switch {
	case one == nil && many == nil:
		r.Problem("/replicas", "needs `path` or `replicas`", "for one local checkpoint write `path: ../models/checkpoint`")
	case one != nil && many != nil:
		r.Problem("/path", "`path` and `replicas` exclude each other", "`path: dir` is short for one local replica")
	case one != nil:
		r.With["replicas"] = []any{map[string]any{"name": "local", "path": one, "ssh": nil, "command": nil}}
		r.With["path"] = nil
	}
	list, _ := r.With["replicas"].([]any)
	seen := map[any]bool{}
	for i, item := range list {
		m, _ := item.(map[string]any)
		at := fmt.Sprintf("/replicas/%d", i)
		if m["ssh"] != nil || m["command"] != nil {
			r.Problem(at, "only local replicas can be verified so far", "mount the directory, or run anvil on that host")
		}
		if seen[m["name"]] {
			r.Problem(at+"/name", fmt.Sprintf("second replica named %q", m["name"]), "")
		}
		seen[m["name"]] = true
	}
	ignore, _ := r.With["ignore"].([]any)
	for i, p := range ignore {
		if s, _ := p.(string); !validPattern(s) {
			r.Problem(fmt.Sprintf("/ignore/%d", i), fmt.Sprintf("bad pattern %q", s), "shell globs: `*.md`, `logs/*`")
		}
	}
	if e := r.With["expect"]; e == "signature" || e == "tree" || e == "blobs" || r.With["signature_key"] != nil {
		r.Problem("/expect", "only a manifest can be expected so far", "pin one with `anvil weights manifest DIR > manifest.json`")
	}
	if r.With["expect"] == "manifest" && r.With["manifest"] == nil {
		r.Problem("/manifest", "`expect: manifest` needs `manifest`", "make one with `anvil weights manifest DIR`")
	}
	if r.With["rehash"] == "if-changed" {
		r.Problem("/rehash", "only `always` so far", "every file is hashed in every run")
	}
}

func validPattern(p string) bool {
	_, err := path.Match(p, "x")
	return err == nil
}

type verify struct{ config }

func (v *verify) Run(ctx context.Context, env stage.Env, in stage.Inputs, out *stage.Outputs) error {
	reference, pinned, err := v.reference(ctx, in)
	if err != nil {
		return err
	}
	env.Progress.SetUnit("bytes")
	opt := weights.Options{Ignore: v.Ignore, Hashed: func(n int64) { env.Progress.Done.Add(n) }}
	if v.Parallel != nil {
		opt.Parallel = *v.Parallel
	}
	var replicas []weights.Replica
	var bytes int64
	for _, r := range v.Replicas {
		dir := r.Path
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(env.PlanDir, filepath.FromSlash(dir))
		}
		scan, err := weights.Directory(ctx, dir, opt)
		if err != nil {
			return fmt.Errorf("replica %s: %w", r.Name, err)
		}
		compared, err := weights.Compare(r.Name, r.Path, dir, scan, reference)
		if err != nil {
			return fmt.Errorf("replica %s: %w", r.Name, err)
		}
		replicas = append(replicas, compared)
		bytes += scan.Bytes
	}
	result := weights.Verify(replicas, pinned, bytes)
	result.Repo, result.Revision = v.Repo, v.Revision
	v.report(result, out)
	return out.JSON("weights.json", result)
}

func (v *verify) reference(ctx context.Context, in stage.Inputs) (*weights.Manifest, *digest.Digest, error) {
	file, ok := in.File("/manifest")
	if !ok {
		return nil, nil, nil
	}
	src, err := file.Bytes(ctx)
	if err != nil {
		return nil, nil, err
	}
	m, err := weights.ParseManifest(src)
	if err != nil {
		return nil, nil, fmt.Errorf("manifest %s: %w", file.Name, err)
	}
	return &m, &file.SHA256, nil
}

// maxFaults bounds the faults that a finding spells out; all stand in weights.json.
const maxFaults = 32

func spelled(faults []string) string {
	text := strings.Join(faults[:min(len(faults), maxFaults)], "; ")
	if more := len(faults) - maxFaults; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

func (v *verify) report(result weights.Verification, out *stage.Outputs) {
	for _, r := range result.Replicas {
		if faults := r.Faults(); len(faults) > 0 {
			out.Finding("weights_mismatch", fmt.Sprintf("replica %s: %s", r.Name, spelled(faults)))
		}
	}
	if result.ManifestSHA256 == nil {
		out.Finding("replicas_differ", "the replicas do not hold the same files: "+spelled(result.Differences()))
	}
	if result.Reference == nil {
		out.Limit(stage.Limit("weights.no-reference"))
	}
	if v.Revision == nil {
		out.Limit(stage.Limit("weights.revision-unpinned"))
	}
}

// Manifest hashes a directory and returns the manifest to pin, for the command line.
func Manifest(ctx context.Context, dir string, ignore []string) ([]byte, error) {
	scan, err := weights.Directory(ctx, dir, weights.Options{Ignore: ignore})
	if err != nil {
		return nil, err
	}
	if len(scan.Dangling) > 0 {
		return nil, fmt.Errorf("%s leads nowhere: a manifest of a broken checkpoint would pin the fault", scan.Dangling[0])
	}
	if len(scan.Partial) > 0 {
		return nil, fmt.Errorf("%s is a download that did not finish: a manifest of it would pin the fault; let it finish, or leave it out by a pattern", scan.Partial[0])
	}
	if len(scan.Files) == 0 {
		return nil, errors.New("the directory holds no file")
	}
	return scan.Manifest().Encode(), nil
}
