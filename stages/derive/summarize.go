package derive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// SummarizeContract is the version of the record's derivation: raise it when
// the same inputs may give another record.
const SummarizeContract = 8

// A SummarizeConfig is the resolved configuration of summarize. What comes from
// the plan's top level stands in it too, so that the record is a function of
// the configuration and the inputs, the plan's digests excepted.
type SummarizeConfig struct {
	Quantile       string                `json:"quantile"`
	Confidence     float64               `json:"confidence"`
	Bootstrap      Bootstrap             `json:"bootstrap"`
	SteadyState    bool                  `json:"steady_state"`
	Objectives     Objectives            `json:"objectives"`
	Conventions    []string              `json:"conventions"`
	Per            []string              `json:"per"`
	ServingCell    *ServingCellConfig    `json:"serving_cell"`
	DerivedSummary *DerivedSummaryConfig `json:"derived_summary"`
	Name           string                `json:"name"`
	Deployment     map[string]any        `json:"deployment"`
	Conditions     []record.Condition    `json:"conditions"`
	Limitations    stage.LimitationSet   `json:"limitations"`
}

// Bootstrap configures resampled intervals.
type Bootstrap struct {
	B    int    `json:"b"`
	Seed *int64 `json:"seed"`
}

var summarizePorts = []stage.Port{
	{Name: "attempts", Schema: record.AttemptsSchema, Many: true},
	{Name: "measurement", Schema: record.MeasurementSchema, Many: true, Optional: true},
	{Name: "schedule", Schema: "anvil.schedule/v1", Many: true, Optional: true},
	{Name: "benchmark", Schema: "anvil-serving.benchmark/v1", Many: true, Optional: true},
	{Name: "live", Schema: "anvil.live-http-run/v1", Many: true, Optional: true},
	{Name: "scout", Schema: "anvil.scout/v1", Many: true, Optional: true},
	{Name: "weights", Schema: "anvil.weights-verification/v1", Many: true, Optional: true},
	{Name: "calibration", Schema: "anvil.calibration/v1", Many: true, Optional: true},
	{Name: "grades", Schema: record.GradesSchema, Many: true, Optional: true},
}

// SummarizePorts returns the input ports of summarize.
func SummarizePorts() []stage.Port { return slices.Clone(summarizePorts) }

// A Summary is a final record that lacks only the limitation set of its
// outputs, which the executor forms.
type Summary struct {
	// Limitations are what summarize raises: the plan's own, of origin "plan",
	// and what the evidence shows, whose origin the executor sets.
	Limitations []stage.Limitation
	// Withheld are documents that the plan asks for and the evidence does not
	// allow; the record says so too.
	Withheld []stage.Finding

	config  SummarizeConfig
	record  record.Final
	cells   []*cell
	weights []weightFacts
	source  summarySource
	formats []Format
}

// Summarize makes the final record from the artifacts on summarize's ports.
func Summarize(ctx context.Context, c SummarizeConfig, ports map[string][]stage.Artifact, plan stage.PlanIdentity) (*Summary, error) {
	cells, err := readCells(ctx, c, ports)
	if err != nil {
		return nil, err
	}
	if len(cells) == 0 {
		return nil, errors.New("no attempts: there is nothing to summarize")
	}
	facts, err := readFacts(ctx, ports)
	if err != nil {
		return nil, err
	}
	s := &Summary{config: c, cells: cells, weights: facts.weights}
	s.record = record.Final{
		Schema: record.FinalSchema, ID: record.BlankID, Status: "completed",
		Plan:         record.FinalPlan{Name: c.Name, SHA256: plan.SHA256, ResolvedSHA256: plan.ResolvedSHA256},
		Declared:     declared(c.Deployment),
		Observed:     observe(facts, cells),
		EvidenceMode: "actual_inference",
		Conditions:   append(slices.Clone(c.Conditions), ownConditions(facts, cells)...),
		Groups:       []record.Group{},
		Evidence:     evidence(ports),
		NotComputed:  notComputedOf(c),
	}
	for _, cell := range cells {
		cell.compare(c, facts)
		if cell.out.Status != "completed" {
			s.record.Status = "aborted"
		}
		if cell.simulated() {
			s.record.EvidenceMode = "controlled"
		}
	}
	s.record.ClientTool, s.record.ClientToolReason = clientTool(cells)
	s.Limitations = append(slices.Clone(c.Limitations), raised(facts, cells)...)
	if c.DerivedSummary != nil {
		if s.source, err = readSource(ctx, ports["benchmark"]); err != nil {
			return nil, err
		}
	}
	s.choose(ports)
	return s, nil
}

// Formats returns the documents that can be written of those that the plan
// asks for.
func (s *Summary) Formats() []Format { return s.formats }

// choose tries what was asked for on request with the limitations that are
// known by now, those of all inputs among them: the executor adds only texts.
func (s *Summary) choose(ports map[string][]stage.Artifact) {
	set := stage.NewLimitationSet(s.Limitations...)
	for _, as := range ports {
		for _, a := range as {
			set = set.Union(a.LimitationSet())
		}
	}
	for _, f := range Formats() {
		if !f.Wanted(s.config) {
			continue
		}
		if f.Optional {
			if _, err := f.Build(s, set); err != nil {
				s.withhold(f.Name, err)
				continue
			}
		}
		s.formats = append(s.formats, f)
	}
}

// withhold notes why a document is not written; the record stands without it.
func (s *Summary) withhold(name string, why error) {
	s.record.NotComputed = append(s.record.NotComputed, record.NotComputed{What: name, Reason: why.Error()})
	s.Withheld = append(s.Withheld, stage.Finding{Code: "summarize.withheld", Text: fmt.Sprintf("%s is not written: %v", name, why)})
}

// Document lays the record out with the limitation set of the outputs and gives
// it its id. Metrics that a void limitation applies to are withheld here: the
// set is complete only now.
func (s *Summary) Document(set stage.LimitationSet) ([]byte, error) {
	r := s.record
	r.Cells = make([]record.Cell, len(s.cells))
	for i, c := range s.cells {
		r.Cells[i] = c.withheld(set, s.cells)
	}
	r.Groups = groups(r.Cells)
	r.Count = len(set)
	_, r.SetSHA256 = set.Canonical()
	doc, err := stage.MarshalDocument(r, set)
	if err != nil {
		return nil, fmt.Errorf("lay out the record: %w", err)
	}
	return record.MintID(doc)
}

// declared holds every key of the plan's deployment block; never nil.
func declared(deployment map[string]any) map[string]any {
	if deployment == nil {
		return map[string]any{}
	}
	return deployment
}

func evidence(ports map[string][]stage.Artifact) []record.Evidence {
	out := []record.Evidence{}
	for _, p := range summarizePorts {
		for _, a := range ports[p.Name] {
			out = append(out, record.Evidence{Stage: a.Stage, Name: a.Name, Ref: a.Ref})
		}
	}
	return out
}

// notComputedOf names what a plan may ask for and no record holds yet. A plan
// that asks for one of the optional ones by name is refused when it is read.
func notComputedOf(c SummarizeConfig) []record.NotComputed {
	out := []record.NotComputed{{What: fmt.Sprintf("intervals of metrics at level %v", c.Confidence), Reason: notComputed}}
	if c.SteadyState {
		out = append(out, record.NotComputed{What: "steady state", Reason: notComputed})
	}
	for _, name := range c.Conventions {
		out = append(out, record.NotComputed{What: "figures under the convention of " + name, Reason: notComputed})
	}
	return out
}

func clientTool(cells []*cell) (tool any, reason *string) {
	for i, c := range cells {
		switch {
		case c.measurement == nil:
			return nil, new("no measurement document stands beside the attempts of " + c.out.ID)
		case i > 0 && !equalJSON(tool, c.measurement.Tool):
			return nil, new("the cells were measured by different builds")
		}
		tool = c.measurement.Tool
	}
	if tool == nil {
		return nil, new("the measurement document does not name it")
	}
	return tool, nil
}

// equalJSON compares two values as JSON has them.
func equalJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}
