package prov

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"anvil/pipeline/digest"
)

// Roots returns what the runs of a workspace need: the results that their
// manifests, journals and attempts name, and the limitation sets that they have
// in the run. A run that cannot be read is an error: nobody knows what it needs.
func Roots(ctx context.Context, workspace string, r *Reader) (results, objects []digest.Digest, err error) {
	ids, err := RunIDs(workspace)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		dir := filepath.Join(workspace, RunsFolder, id)
		rs, sets, err := rootsOf(ctx, dir, r)
		if err == nil {
			results, objects = append(results, rs...), append(objects, sets...)
			continue
		}
		if _, gone := os.Lstat(dir); !errors.Is(gone, fs.ErrNotExist) { // else it was removed meanwhile
			return nil, nil, fmt.Errorf("run %s: %w", id, err)
		}
	}
	return results, objects, nil
}

func rootsOf(ctx context.Context, dir string, r *Reader) (results, objects []digest.Digest, err error) {
	run, err := openDir(dir)
	if err != nil {
		return nil, nil, err
	}
	defer run.root.Close()
	if run.Broken != nil {
		return nil, nil, run.Broken
	}
	chain, err := run.Journal()
	if errors.Is(err, fs.ErrNotExist) && run.Manifest == nil {
		return nil, nil, nil // it has not begun: nothing points to anything
	}
	if err != nil {
		return nil, nil, err
	}
	for _, l := range chain.Lines {
		if l.Result != nil {
			results = append(results, *l.Result)
		}
		if l.Added != nil {
			objects = append(objects, *l.Added)
		}
	}
	m, err := run.State()
	if err != nil {
		return nil, nil, err
	}
	for _, st := range m.Stages {
		if st.ResultSHA256 == nil {
			continue
		}
		results = append(results, *st.ResultSHA256)
		inRun, err := Published(ctx, r, st)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, err
		}
		for _, o := range inRun {
			objects = append(objects, o.Limitations)
		}
	}
	objects = append(objects, m.Limitations.SHA256)
	attempts, err := attemptResults(run.root)
	return append(results, attempts...), objects, err
}

// attemptResults hashes every result.json of a run: the journal may not name
// the last one yet.
func attemptResults(root *os.Root) (sums []digest.Digest, err error) {
	err = fs.WalkDir(root.FS(), StagesFolder, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path.Base(name) != ResultName || strings.Count(name, "/") != 3 {
			return err
		}
		d, err := hashFile(root, name)
		if err == nil {
			sums = append(sums, d)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return sums, err
}

// References returns what a result refers to: the results behind its inputs,
// and the bytes and limitation sets of inputs and outputs. Of a digest that is
// no result's, or that is not there, it returns nothing; what is damaged is an
// error.
func References(ctx context.Context, r *Reader, d digest.Digest) (results, objects []digest.Digest, err error) {
	b, err := r.Bytes(ctx, d, -1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("object %s: %w", d, err)
	}
	res, err := DecodeResult(b)
	if err != nil {
		return nil, nil, nil //nolint:nilerr // no result: it refers to nothing
	}
	for _, in := range res.Inputs {
		objects = append(objects, in.SHA256, in.Limitations)
		if in.Whole != nil {
			objects = append(objects, in.Whole.SHA256, in.Whole.Limitations)
		}
		if in.From != nil {
			results = append(results, in.From.Result)
		}
	}
	for _, o := range res.Outputs {
		objects = append(objects, o.SHA256, o.Limitations)
	}
	return results, objects, nil
}

// MayRefer tells from the first bytes of an object whether it can be a result:
// only then References has something to say of it.
func MayRefer(head []byte) bool { return bytes.Contains(head, []byte(ResultSchema)) }
