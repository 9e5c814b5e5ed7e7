// Package plan turns the YAML of a plan into stages that can run: strict, with
// every problem at once and each at its place in the file.
package plan

import (
	"encoding/json"
	"time"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

// A Plan is resolved: defaults filled, references substituted, matrix expanded.
type Plan struct {
	File   string        // as the user named it
	Source []byte        // the file's bytes
	Digest digest.Digest // of Source

	Name        string
	Title       string
	Seed        int64
	Salt        string
	Params      map[string]any // resolved; string, bool, json.Number or nil
	Limitations stage.LimitationSet
	Endpoints   map[string]Endpoint
	Stages      []Stage // in plan order, children of a matrix in the order in which exclusive ones run

	// Resolved is plan.resolved.json as it is stored: everything above with
	// its defaults, no value of a secret. Its digest is ResolvedDigest.
	Resolved       []byte
	ResolvedDigest digest.Digest
}

// A Stage is one node of the DAG, with everything that its key needs but its inputs.
type Stage struct {
	ID        string // the child's in a matrix: "measure[concurrency=4,rep=1]"
	Of        string // the id as the plan writes it: "measure"
	Dir       string // the name of its directory
	Cell      stage.Cell
	Kind      stage.Kind
	With      json.RawMessage // the resolved configuration, whole: what Kind.New takes
	KeyConfig json.RawMessage // JCS of With less what is cosmetic, policy or a file: what enters the key
	Files     []File
	Inputs    []Binding // one for each bound port, in the kind's order
	Needs     []string  // ids of stages, children expanded, plan order, without duplicates; holds every stage of Inputs

	Timeout           time.Duration // 0: none
	Retries           int
	ContinueOnFailure bool
	Endpoint          *Endpoint // the one that With names, nil for none
	Pos               Pos       // of the stage in the file
}

// A File is a file that "with" names. It is stored as a leaf when the stage
// starts and enters the key as the input "with.<pointer>".
type File struct {
	Pointer  string // JSON pointer into With: "/dataset"
	Path     string // joined with the plan's folder: what to open
	Written  string // as the plan writes it
	Optional bool   // a file that may be missing: the limitation set beside an imported one
}

// A Binding says which outputs arrive on a port.
type Binding struct {
	Port string
	From []Source // plan order; more than one on a many port alone
}

// A Source is one output of one stage.
type Source struct{ Stage, Output string }

// An Endpoint is one of the plan's endpoints with its defaults filled.
type Endpoint struct {
	Name    string
	BaseURL string          // "" for the embedded engine
	Config  json.RawMessage // the whole of it, with "name"; this is what stands in a stage's With
}

// A Pos is a place in the plan file; line and column count from 1, the column in characters.
type Pos struct {
	File         string
	Line, Column int
}
