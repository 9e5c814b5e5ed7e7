package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"anvil/pipeline/digest"
	"anvil/pipeline/internal/key"
)

// The key's parts, which prov computes again when it verifies a result.
type (
	// A KeySpec is all that a stage key is made of.
	KeySpec = key.Spec
	// A KeyInput is one input as it enters a key.
	KeyInput = key.Input
)

// KeyOf returns the stage key: SHA-256(JCS({v, kind, contract, config, inputs,
// salt})). An error is a config that is no JSON.
func KeyOf(spec KeySpec) (digest.Digest, error) { return key.Of(spec) }

// A Pointer is an entry of the index: an attempt that was made under a key.
// The file is named after Result.
type Pointer struct {
	Run     string        `json:"run"`
	Stage   string        `json:"stage"`
	Attempt int           `json:"attempt"`
	Result  digest.Digest `json:"result"` // of its result.json, which is an object
}

// Lookup returns the results that were made under a key, the newest first, by
// their digests, which are the names of the entries: what an entry says besides
// is for people. It trusts nothing: whether a result and its objects still
// exist is for the caller to see. An unknown key is no error.
func (s *Store) Lookup(k digest.Digest) ([]digest.Digest, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, keyName(k)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up key %s: %w", k.Short(), err)
	}
	newestFirst(entries)
	results := make([]digest.Digest, 0, len(entries))
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), pointerExt); ok {
			if d, err := digest.Parse(name); err == nil {
				results = append(results, d)
			}
		}
	}
	return results, s.Hold(results...)
}

const pointerExt = ".json"

func keyName(k digest.Digest) string {
	hex := k.String()
	return keysDir + "/" + hex[:2] + "/" + hex
}

// newestFirst sorts by the time of writing, which only says which of several
// sound results is tried first.
func newestFirst(entries []fs.DirEntry) {
	if len(entries) < 2 {
		return
	}
	at := make(map[string]int64, len(entries))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			at[e.Name()] = info.ModTime().UnixNano()
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int {
		if d := at[b.Name()] - at[a.Name()]; d != 0 {
			return int(max(-1, min(1, d)))
		}
		return strings.Compare(a.Name(), b.Name())
	})
}

// Point adds an entry to the index, after the result and the journal and never
// before.
func (s *Store) Point(k digest.Digest, p Pointer) error {
	d, err := s.writable()
	if err != nil {
		return err
	}
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	// A collector removes empty folders of keys; not while this one is filled.
	return s.holds.shared(func() error {
		if err := d.MkdirLoose(keyName(k)); err != nil {
			return err
		}
		return d.WriteLoose(keyName(k)+"/"+p.Result.String()+pointerExt, append(b, '\n'))
	})
}
