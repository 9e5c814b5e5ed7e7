package prov

import (
	"context"
	"errors"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

var errNotYet = errors.New("not built yet")

// A Vault is a store whose objects can be checked one by one.
type Vault interface {
	stage.Opener
	Check(ctx context.Context, d digest.Digest, size int64) error
	Path(d digest.Digest) string
}

// A Problem is one fault that Verify found.
type Problem struct {
	Code     string `json:"code"`     // a closed list, in the schema
	Stage    string `json:"stage"`    // "" where it concerns the run
	Name     string `json:"name"`     // of the artifact, or of the part; "" where there is none
	Path     string `json:"path"`     // of the file, from the run's folder, or of the object
	Expected string `json:"expected"` // usually a digest
	Found    string `json:"found"`
	Text     string `json:"text"` // one sentence
}

// A Report is `provenance verify --json`.
type Report struct {
	OK       bool      `json:"ok"`
	Level    int       `json:"level"` // 0 unreadable, 1 intact, 2 consistent, 3 re-derived
	Problems []Problem `json:"problems"`
}

// VerifyOptions are what Verify cannot know by itself.
type VerifyOptions struct {
	// Rederive, which may be nil, computes a final record again from its
	// closure: level 3 when everything is equal, less with the problems. The
	// command line gives the function that validate runs.
	Rederive RederiveFunc
}

// A RederiveFunc computes an artifact again from what it stands on.
type RederiveFunc func(ctx context.Context, record stage.Artifact, closure stage.Closure) (level int, problems []Problem, err error)

// Verify proves a run: every object that it reaches has the bytes that its name
// says, the results, statements, keys, journal and run.json agree, and no
// limitation was lost on the way. What it finds stands in the report; an error
// is for what kept it from looking.
func Verify(ctx context.Context, run *Run, vault Vault, opt VerifyOptions) (*Report, error) {
	return nil, errNotYet
}
