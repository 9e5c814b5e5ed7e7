// Package prov is provenance: the documents that say how an artifact came to
// be (results, manifests, journals, in-toto statements), how they are written,
// followed and verified.
package prov

import (
	"encoding/json"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/schemas"
)

// The ids of our own provenance documents.
const (
	ResultSchema   schemas.ID = "anvil.stage-result/v1"
	ManifestSchema schemas.ID = "anvil.run/v1"
)

// A Status is what became of a stage attempt, a stage or a run.
type Status string

// The statuses. A result knows the first four, a run ok, failed and aborted.
const (
	OK         Status = "ok"
	Failed     Status = "failed"
	Aborted    Status = "aborted"
	Lost       Status = "lost"
	Blocked    Status = "blocked"
	Skipped    Status = "skipped"
	Stale      Status = "stale"
	NotStarted Status = "not_started"
)

// How says where a stage's result came from; "" is null: there is none.
type How string

// The ways.
const (
	Executed  How = "executed"
	Restored  How = "restored"
	TakenOver How = "taken_over"
	Reused    How = "reused"
)

// A Result is result.json: what one stage attempt read, was told and wrote. It
// is written last, and stored as an object under its own digest, so that a
// result outlives the run directory that it was made in.
type Result struct {
	Schema      schemas.ID          `json:"schema"`
	Run         string              `json:"run"`
	Stage       string              `json:"stage"`
	Kind        string              `json:"kind"`
	Contract    int                 `json:"contract"`
	Class       stage.Class         `json:"class"`
	Attempt     int                 `json:"attempt"` // from 1
	Status      Status              `json:"status"`
	Key         digest.Digest       `json:"key"`
	Config      json.RawMessage     `json:"config"` // as it entered the key
	Salt        string              `json:"salt"`
	Inputs      []Input             `json:"inputs"`
	Outputs     []Output            `json:"outputs"`
	Limitations stage.LimitationSet `json:"limitations"` // inputs' and raised: the set of every output
	StartedAt   stage.Time          `json:"started_at"`
	FinishedAt  stage.Time          `json:"finished_at"`
	Findings    []stage.Finding     `json:"findings"`
	Error       *ResultError        `json:"error"`
}

// An Input is one artifact that a stage read.
type Input struct {
	Port string `json:"port"` // a port, or "with." and a JSON pointer: "with./dataset"
	stage.Ref
	From *From  `json:"from"` // null for a leaf file
	Name string `json:"name"` // base name: "attempts.jsonl.zst", "evidence-4k.jsonl"
	// Whole is the file behind a projection: the leaf in the key is what was
	// read, the whole file is stored too.
	Whole *stage.Ref `json:"whole,omitempty"`
}

// From says which attempt made an input. Result is the digest of its result,
// which finds it also when the run directory is gone.
type From struct {
	Run    string        `json:"run"`
	Stage  string        `json:"stage"`
	Name   string        `json:"name"`
	Result digest.Digest `json:"result"`
}

// An Output is one artifact that a stage published.
type Output struct {
	Name string `json:"name"`
	stage.Ref
	MediaType string `json:"media_type"`
}

// A ResultError is why a stage failed; the codes are a closed list in the schema.
type ResultError struct {
	Code    string `json:"code"`
	Message string `json:"message"` // secrets removed
}

// A Manifest is run.json.
type Manifest struct {
	Schema        schemas.ID               `json:"schema"`
	Run           string                   `json:"run"`
	Plan          ManifestPlan             `json:"plan"`
	Base          *string                  `json:"base"`
	Tool          stage.Tool               `json:"tool"`
	Status        Status                   `json:"status"`
	Exit          int                      `json:"exit"`
	StartedAt     stage.Time               `json:"started_at"`
	FinishedAt    stage.Time               `json:"finished_at"`
	Stages        []ManifestStage          `json:"stages"` // plan order
	Files         map[string]digest.Digest `json:"files"`  // by path from the run's folder, every file but those of design.md 5
	Record        *ManifestRecord          `json:"record"`
	Limitations   ManifestLimitations      `json:"limitations"`
	JournalSHA256 digest.Digest            `json:"journal_sha256"` // of the journal's last line
}

// ManifestPlan says which plan ran.
type ManifestPlan struct {
	Name           string        `json:"name"`
	Path           string        `json:"path"` // as the user named it
	SHA256         digest.Digest `json:"sha256"`
	ResolvedSHA256 digest.Digest `json:"resolved_sha256"`
}

// A ManifestStage is one stage of the run.
type ManifestStage struct {
	ID           string         `json:"id"`
	Kind         string         `json:"kind"`
	Status       Status         `json:"status"`
	How          *How           `json:"how"`
	Attempt      *int           `json:"attempt"`
	ResultSHA256 *digest.Digest `json:"result_sha256"`
	// Added is the digest of the limitations of origin "run" that the executor
	// added when it took the result over or reused it; null when it added none.
	Added     *digest.Digest `json:"added"`
	BlockedBy string         `json:"blocked_by,omitempty"`
}

// A ManifestRecord names the final record.
type ManifestRecord struct {
	Stage  string        `json:"stage"`
	Name   string        `json:"name"`
	SHA256 digest.Digest `json:"sha256"`
}

// ManifestLimitations is the closure over all that the run published.
type ManifestLimitations struct {
	Count  int           `json:"count"`
	SHA256 digest.Digest `json:"sha256"`
}
