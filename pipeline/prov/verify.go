package prov

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

// A Vault is a store whose objects can be checked one by one.
type Vault interface {
	stage.Opener
	// Check reads and hashes an object. What is not there is an
	// fs.ErrNotExist, other bytes are a *digest.MismatchError.
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
	Notes    []Problem `json:"notes"` // why nothing is wrong and the level is yet not higher
}

// VerifyOptions are what Verify cannot know by itself.
type VerifyOptions struct {
	// Rederive, which may be nil, computes a final record again from its
	// closure. The command line gives the function that validate runs. Without
	// it a run that made a record stays at level 2.
	Rederive RederiveFunc
	// Check, which may be nil, holds any other artifact that the run published
	// against the rules of its kind.
	Check CheckFunc
}

// A CheckFunc returns what is wrong with one artifact by the rules of its kind,
// and the level that is left then; stage, name and path of a problem may be
// left empty. It may pass over one that a record was derived from before, and
// may ask for what the artifact stands on.
type CheckFunc func(ctx context.Context, a stage.Artifact, closure func() (stage.Closure, error)) (level int, problems []Problem, err error)

// A RederiveFunc computes a record again from what it stands on, and what its
// stage published beside it: level 3 when everything is equal, less with the
// problems; stage, name and path of a problem may be left empty.
type RederiveFunc func(ctx context.Context, record stage.Artifact, closure stage.Closure, beside []stage.Artifact) (level int, problems []Problem, err error)

// RecordSchema is the schema of what is derived again.
const RecordSchema = "anvil.record/v1"

// Verify proves a run: every object that it reaches has the bytes that its name
// says; results, statements, keys, journal and run.json agree; no limitation
// was lost on the way; and every record comes out again. What is wrong stands
// in the report; an error is for what kept Verify from looking.
func Verify(ctx context.Context, run *Run, vault Vault, opt VerifyOptions) (*Report, error) {
	v := &verifier{
		run: run, vault: vault, r: NewReader(vault), report: Report{Level: 3, Problems: []Problem{}, Notes: []Problem{}},
		objects: map[digest.Digest]object{}, results: map[digest.Digest]*Result{}, followed: map[digest.Digest]bool{}, changed: map[string]bool{},
	}
	if err := v.verify(ctx, opt); err != nil {
		return nil, fmt.Errorf("verify %s: %w", run.ID, err)
	}
	v.report.finish()
	return &v.report, nil
}

type verifier struct {
	run    *Run
	vault  Vault
	r      *Reader
	m      *Manifest
	report Report

	own      map[digest.Digest]bool // see attempts
	followed map[digest.Digest]bool
	objects  map[digest.Digest]object  // to be hashed
	results  map[digest.Digest]*Result // every result that was read; nil for one that cannot be
	changed  map[string]bool           // files that are not what run.json says: what they hold proves nothing
	files    map[string]digest.Digest  // of the run, as they are
}

func (v *verifier) verify(ctx context.Context, opt VerifyOptions) error {
	if v.run.Broken != nil {
		v.report.add(Problem{Code: ManifestUnreadable, Path: ManifestName, Text: v.run.Broken.Error()})
		return nil
	}
	journal := v.journal()
	m, err := v.run.State()
	if err != nil {
		return nil //nolint:nilerr // the journal's problem is in the report
	}
	v.m = m
	if v.run.Manifest != nil {
		if err := checkSchema(ManifestSchema, v.run.manifest); err != nil {
			v.report.add(Problem{Code: ManifestDisagrees, Path: ManifestName, Text: err.Error()})
		}
		if err := v.runFiles(journal); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{v.stages, v.hashObjects, v.statements, v.runStatement, v.copies} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if v.report.Level < 2 {
		return nil // only what is intact and consistent is worth a look inside
	}
	if err := v.rederive(ctx, opt.Rederive); err != nil {
		return err
	}
	return v.checkOthers(ctx, opt.Check)
}

// journal reads the journal and compares its end with run.json. A run that was
// resumed and not finished since has lines after that end; goneOn says so.
type journal struct {
	chain  Chain
	goneOn bool
	end    int // lines that run.json knows
}

func (v *verifier) journal() journal {
	chain, err := v.run.Journal()
	j := journal{chain: chain, end: len(chain.Lines)}
	m := v.run.Manifest
	if m == nil && errors.Is(err, fs.ErrNotExist) {
		v.report.add(Problem{Code: RunUnfinished, Path: JournalName, Text: "the run ended before it began its journal; nothing of it can be resumed"})
		return j
	}
	if err != nil {
		v.report.add(Problem{Code: JournalBroken, Path: JournalName, Text: err.Error()})
		return j
	}
	if m == nil {
		v.report.add(Problem{Code: RunUnfinished, Path: ManifestName, Text: "the run has no run.json: it goes on, or it was killed; plan run --resume finishes it"})
		return j
	}
	for i, sum := range chain.Sums {
		if sum == m.JournalSHA256 {
			j.end = i + 1
		}
	}
	head := digest.Digest{}
	if chain.Head != nil {
		head = *chain.Head
	}
	switch {
	case j.end < len(chain.Lines) && resumes(chain.Lines[j.end]) && chain.Sums[j.end-1] == m.JournalSHA256:
		j.goneOn = true
		v.report.add(Problem{Code: RunUnfinished, Path: ManifestName, Text: "the run was resumed and has not ended since; plan run --resume finishes it"})
	case head != m.JournalSHA256:
		v.report.add(Problem{
			Code: JournalBroken, Path: JournalName, Expected: m.JournalSHA256.String(), Found: head.String(),
			Text: "the journal's last line is not the one that run.json names",
		})
	case chain.Torn > 0:
		v.report.add(Problem{Code: JournalBroken, Path: JournalName, Text: fmt.Sprintf("%d bytes stand after the journal's last line", chain.Torn)})
	}
	return j
}

func resumes(l Line) bool {
	return l.Event == RunResumed || l.Event == RunTakenOver || l.Event == JournalTorn
}
