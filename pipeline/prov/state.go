package prov

import (
	"fmt"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

// State returns run.json, or what the journal and the plan's files tell of a run
// that has none: its status is then Unfinished and its end, tool and files are
// empty.
func (r *Run) State() (*Manifest, error) {
	if r.Broken != nil {
		return nil, fmt.Errorf("run %s: %w", r.ID, r.Broken)
	}
	if r.Manifest != nil {
		return r.Manifest, nil
	}
	chain, err := r.Journal()
	if err != nil {
		return nil, err
	}
	m := fromJournal(r.ID, chain.Lines)
	for name, d := range map[string]*digest.Digest{PlanName: &m.Plan.SHA256, ResolvedPlanName: &m.Plan.ResolvedSHA256} {
		if raw, err := r.ReadFile(name); err == nil {
			*d = digest.FromBytes(raw)
		}
	}
	return m, nil
}

func fromJournal(id string, lines []Line) *Manifest {
	plan, began, _ := SplitRunID(id)
	m := &Manifest{Schema: ManifestSchema, Run: id, Status: Unfinished, StartedAt: stage.Time{Time: began}, Stages: []ManifestStage{}}
	m.Plan.Name = plan
	at := map[string]int{}
	for i, l := range lines {
		if i == 0 {
			m.StartedAt, m.Plan.Path = l.At, l.Path
			if l.Base != "" {
				m.Base = &l.Base
			}
		}
		if l.Stage == "" {
			continue
		}
		j, ok := at[l.Stage]
		if !ok {
			j = len(m.Stages)
			at[l.Stage] = j
			m.Stages = append(m.Stages, ManifestStage{ID: l.Stage, Status: NotStarted})
		}
		m.Stages[j].note(l)
	}
	return m
}

// note brings the stage up to date with a line.
func (s *ManifestStage) note(l Line) {
	if l.Kind != "" {
		s.Kind = l.Kind
	}
	if l.Attempt != 0 {
		s.Attempt = &l.Attempt
	}
	how, known := ways(l.Event)
	switch {
	case known && l.Result != nil:
		s.How, s.ResultSHA256, s.Added, s.Status = &how, l.Result, l.Added, OK
	case l.Event == StageStarted:
		s.How, s.ResultSHA256, s.Added, s.Status = nil, nil, nil, Lost
	}
	if l.Status != "" {
		s.Status = l.Status
	}
}

// ways says how a stage came by the result that a line of that event names.
func ways(event string) (How, bool) {
	switch event {
	case StageFinished:
		return Executed, true
	case StageRestored:
		return Restored, true
	case StageTakenOver:
		return TakenOver, true
	case StageReused:
		return Reused, true
	}
	return "", false
}

// StateOf is what the lines of a journal say of a run.
func StateOf(id string, lines []Line) *Manifest { return fromJournal(id, lines) }
