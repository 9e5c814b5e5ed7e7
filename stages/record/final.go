package record

import (
	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/schemas"
)

// FinalSchema is the id of record.json.
const FinalSchema schemas.ID = "anvil.record/v1"

// A Final is the final record: what was measured, on what, how many failed,
// what is only claimed, and what may not be concluded. Its limitations are the
// last member of the document and are injected when it is written.
type Final struct {
	Schema           schemas.ID     `json:"schema"`
	ID               string         `json:"id"`     // MintID
	Status           string         `json:"status"` // completed or aborted
	Plan             FinalPlan      `json:"plan"`
	ClientTool       any            `json:"client_tool"` // stage.Tool of the client that measured; null with its reason
	ClientToolReason *string        `json:"client_tool_reason"`
	Declared         map[string]any `json:"declared"` // the plan's deployment: claims
	Observed         Observed       `json:"observed"`
	EvidenceMode     string         `json:"evidence_mode"` // actual_inference or controlled
	Conditions       []Condition    `json:"conditions"`
	Cells            []Cell         `json:"cells"`
	Groups           []Group        `json:"groups"`
	Evidence         []Evidence     `json:"evidence"`
	NotComputed      []NotComputed  `json:"not_computed"`
	Count            int            `json:"limitations_count"`
	SetSHA256        digest.Digest  `json:"limitations_sha256"`
	// Limitations is read from a document and nil while one is written: the set is injected then.
	Limitations stage.LimitationSet `json:"limitations,omitempty"`
}

// FinalPlan names the plan that the record was made under.
type FinalPlan struct {
	Name           string        `json:"name"`
	SHA256         digest.Digest `json:"sha256"`
	ResolvedSHA256 digest.Digest `json:"resolved_sha256"`
}

// Observed are facts that were seen; null with a reason where nothing was.
type Observed struct {
	Engine       *string           `json:"engine"`
	Version      *string           `json:"version"`
	Model        *string           `json:"model"` // as the answers name it
	Weights      ObservedWeights   `json:"weights"`
	ServedWindow *int              `json:"served_window"` // tokens
	Reasons      map[string]string `json:"reasons"`       // by the name of a null member
}

// ObservedWeights says which checkpoint was hashed, not what the endpoint serves.
type ObservedWeights struct {
	ManifestSHA256 *digest.Digest `json:"manifest_sha256"`
	Verified       bool           `json:"verified"` // equal to a pinned manifest
	Replicas       []string       `json:"replicas"`
}

// A Condition is one fact about the set-up, in words.
type Condition struct {
	Label string `json:"label"`
	Value any    `json:"value"` // text, or what the plan wrote
}

// A Cell is one point of the matrix that was measured.
type Cell struct {
	ID                string         `json:"id"` // of the stage that made the attempts
	Axes              map[string]any `json:"axes"`
	Status            string         `json:"status"` // completed or aborted
	Accounting        CellAccounting `json:"accounting"`
	Correctness       *Correctness   `json:"correctness"`
	CorrectnessReason *string        `json:"correctness_reason"`
	Metrics           []Metric       `json:"metrics"`
	Cases             []Case         `json:"cases"`
	Comparison        Comparison     `json:"comparison"`
}

// CellAccounting adds up: outcomes and verdicts each sum to Planned. Verdicts
// is null without a grade stage, for the reason beside it.
type CellAccounting struct {
	Planned        int             `json:"planned"`
	Outcomes       map[Outcome]int `json:"outcomes"` // zero counts left out
	Verdicts       map[Verdict]int `json:"verdicts"` // all four
	VerdictsReason *string         `json:"verdicts_reason"`
}

// Correctness is three shares, so that none hides another, and what the
// reducer made of items that were asked several times.
type Correctness struct {
	Strict   Proportion `json:"strict"`   // pass / planned
	Answered Proportion `json:"answered"` // pass / (pass + fail)
	Coverage Proportion `json:"coverage"` // (pass + fail) / planned
	Reduced  *Reduced   `json:"reduced"`
}

// A Proportion is a share with its counts. Value is null when the denominator
// is 0; the bounds are null for the reason beside them.
type Proportion struct {
	Value          *float64 `json:"value"`
	Numerator      int      `json:"numerator"`
	Denominator    int      `json:"denominator"`
	Low            *float64 `json:"low"`
	High           *float64 `json:"high"`
	Level          *float64 `json:"level"`
	Method         *string  `json:"method"` // of the bounds: wilson
	Reason         *string  `json:"reason"`
	IntervalReason *string  `json:"interval_reason"`
}

// Reduced is the mean over items of what a reducer made of their attempts.
type Reduced struct {
	Reducer string   `json:"reducer"`
	K       *int     `json:"k"`
	Items   int      `json:"items"`
	Value   *float64 `json:"value"`            // null for the reason beside it
	Reason  string   `json:"reason,omitempty"` // left out with a value
}

// A Metric is a figure with everything that is needed to read it. Samples and
// Excluded sum to the planned requests of the cell.
type Metric struct {
	ID             string    `json:"id"`
	Label          string    `json:"label"`
	Value          *float64  `json:"value"` // null for the reason beside it
	Unit           string    `json:"unit"`
	Direction      *string   `json:"direction"` // which way is better: lower, higher, null
	Samples        int       `json:"samples"`
	Excluded       int       `json:"excluded"`
	Observations   *int      `json:"observations"` // values behind the figure where a request gives several; else null
	Definition     string    `json:"definition"`
	Method         string    `json:"method"`
	Interval       *Interval `json:"interval"`
	IntervalReason *string   `json:"interval_reason"`
	Reason         *string   `json:"reason"`
}

// An Interval bounds a metric at a level of confidence.
type Interval struct {
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Level  float64 `json:"level"`
	Method string  `json:"method"`
}

// A Case is one planned request.
type Case struct {
	Item    *string  `json:"item"`
	Index   int      `json:"index"`
	Outcome Outcome  `json:"outcome"`
	Verdict *Verdict `json:"verdict"`
}

// Comparison holds what two cells must have equal before their figures may be
// compared. Key is null, for the reason beside it, when one of them is unknown.
type Comparison struct {
	Key        *digest.Digest `json:"key"` // SHA-256 of the JCS form of Conditions
	KeyReason  *string        `json:"key_reason"`
	Conditions map[string]any `json:"conditions"` // null: known to be absent, or unknown
	Unknown    []string       `json:"unknown"`    // names of the unknown ones
}

// A Group is the cells that differ in their repetition alone.
type Group struct {
	Axes    map[string]any `json:"axes"`
	Cells   []string       `json:"cells"`
	Metrics []GroupMetric  `json:"metrics"`
}

// A GroupMetric is the mean over repetitions of one figure, with its range.
// Samples counts repetitions that state the figure, Excluded the others.
type GroupMetric struct {
	Metric
	Min *float64 `json:"min"`
	Max *float64 `json:"max"`
}

// Evidence is one artifact that the record was made from.
type Evidence struct {
	Stage string `json:"stage"`
	Name  string `json:"name"`
	stage.Ref
}

// NotComputed names what a plan may ask for and this record does not hold.
type NotComputed struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
}
