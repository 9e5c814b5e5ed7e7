package record

import "anvil/schemas"

// ValidationSchema is the id of validation.json.
const ValidationSchema schemas.ID = "anvil.validation/v1"

// The levels of a validation (design.md 8). Levels 4 and 5 are about signatures
// and are not reached here.
const (
	LevelUnreadable = 0
	LevelIntact     = 1 // every digest fits
	LevelConsistent = 2 // schemas, identities, accounting and the limitation closure hold
	LevelRederived  = 3 // everything that was derived comes out again
)

// A Validation says how far a final record and all that it stands on hold. The
// executor adds the limitations.
type Validation struct {
	Schema     schemas.ID          `json:"schema"`
	OK         bool                `json:"ok"` // no problems
	Level      int                 `json:"level"`
	Record     ValidatedRecord     `json:"record"`
	BytesEqual *bool               `json:"bytes_equal"` // the record comes out byte for byte; null when it was not made again
	Artifacts  int                 `json:"artifacts"`   // read and hashed, the record among them
	Rederived  []string            `json:"rederived"`   // stage/name of what was made again
	Problems   []ValidationProblem `json:"problems"`
	Notes      []ValidationProblem `json:"notes"` // what is true and no fault
}

// ValidatedRecord names the record.
type ValidatedRecord struct {
	ID     *string `json:"id"`
	SHA256 string  `json:"sha256"`
	Status *string `json:"status"`
}

// A ValidationProblem is one fault. Level is the level that it keeps the record
// below: a fault of level 2 leaves it at 1.
type ValidationProblem struct {
	Artifact string `json:"artifact"` // stage/name
	Pointer  string `json:"pointer"`  // JSON pointer into it; begins with "/line/N" in JSON Lines
	Rule     string `json:"rule"`
	Level    int    `json:"level"`
	Stored   any    `json:"stored"`
	Computed any    `json:"computed"`
	Text     string `json:"text"`
}
