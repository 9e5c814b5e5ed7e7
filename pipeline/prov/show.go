package prov

import (
	"context"
	"encoding/json"
	"fmt"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

// A Document is `provenance show --json`.
type Document struct {
	Run    string          `json:"run"`
	Base   *string         `json:"base"`
	Status Status          `json:"status"` // "unfinished" while the run has no run.json
	Record *ManifestRecord `json:"record"`
	Tool   *stage.Tool     `json:"tool"` // null while the run has no run.json
	Plan   ManifestPlan    `json:"plan"`
	Stages []ShownStage    `json:"stages"` // of the run in plan order, then attempts of other runs that its results stand on
	Level  int             `json:"level"`  // Verify's; the caller fills it in
}

// A ShownStage is a stage of the run. With a result it is the result's fields
// and those here; without one it is stage, kind and status alone.
type ShownStage struct {
	Stage  string
	Kind   string
	Status Status

	Result       *Result
	ResultSHA256 digest.Digest
	How          *How           // nil on an attempt of another run
	Added        *digest.Digest // the limitations that the executor added when it took the result over
	Upstream     bool           // an attempt of another run that a result of this one stands on
}

// MarshalJSON writes the shape of contracts.md 5.
func (s ShownStage) MarshalJSON() ([]byte, error) {
	if s.Result == nil {
		return json.Marshal(struct {
			Stage  string `json:"stage"`
			Kind   string `json:"kind"`
			Status Status `json:"status"`
		}{s.Stage, s.Kind, s.Status})
	}
	return json.Marshal(struct {
		*Result
		Stage        string         `json:"stage"` // as this run calls it
		How          *How           `json:"how"`
		ResultSHA256 digest.Digest  `json:"result_sha256"`
		Added        *digest.Digest `json:"added"`
		Upstream     bool           `json:"upstream"`
	}{s.Result, s.Stage, s.How, s.ResultSHA256, s.Added, s.Upstream})
}

// Show describes a run: what came from what, down to every digest. Of a run
// that has no run.json it shows what the journal knows.
func Show(ctx context.Context, run *Run, r *Reader) (*Document, error) {
	m, err := run.State()
	if err != nil {
		return nil, err
	}
	doc := &Document{Run: m.Run, Base: m.Base, Status: m.Status, Record: m.Record, Plan: m.Plan}
	if run.Manifest != nil {
		doc.Tool = &m.Tool
	}
	shown := map[digest.Digest]bool{}
	for _, st := range m.Stages {
		s := ShownStage{Stage: st.ID, Kind: st.Kind, Status: st.Status, How: st.How, Added: st.Added}
		if st.ResultSHA256 != nil {
			s.ResultSHA256 = *st.ResultSHA256
			if s.Result, err = r.Result(ctx, s.ResultSHA256); err != nil {
				return nil, fmt.Errorf("stage %s: %w", st.ID, err)
			}
			shown[s.ResultSHA256] = true
		}
		doc.Stages = append(doc.Stages, s)
	}
	if doc.Stages == nil {
		doc.Stages = []ShownStage{}
	}
	return doc, doc.follow(ctx, r, shown)
}

// follow adds the attempts of other runs, each once, nearest first.
func (doc *Document) follow(ctx context.Context, r *Reader, shown map[digest.Digest]bool) error {
	for i := 0; i < len(doc.Stages); i++ {
		if doc.Stages[i].Result == nil {
			continue
		}
		for _, in := range doc.Stages[i].Result.Inputs {
			if in.From == nil || shown[in.From.Result] {
				continue
			}
			shown[in.From.Result] = true
			res, err := r.Result(ctx, in.From.Result)
			if err != nil {
				return fmt.Errorf("stage %s, input %s: %w", doc.Stages[i].Stage, in.Name, err)
			}
			doc.Stages = append(doc.Stages, ShownStage{
				Stage: res.Stage, Kind: res.Kind, Status: res.Status,
				Result: res, ResultSHA256: in.From.Result, Upstream: true,
			})
		}
	}
	return nil
}
