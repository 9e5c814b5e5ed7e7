package prov

import (
	"context"
	"encoding/json"
	"path/filepath"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

// An Overview is `run show --json`: what became of a run and of each stage, and
// whether its artifacts are still what they were.
type Overview struct {
	Run         string          `json:"run"`
	Plan        ManifestPlan    `json:"plan"`
	Base        *string         `json:"base"`
	Tool        *stage.Tool     `json:"tool"` // null while the run has no run.json
	Status      Status          `json:"status"`
	Exit        *int            `json:"exit"` // null while the run has no run.json
	StartedAt   stage.Time      `json:"started_at"`
	FinishedAt  *stage.Time     `json:"finished_at"` // null while the run has no run.json
	Stages      []OverviewStage `json:"stages"`
	Record      *ManifestRecord `json:"record"`
	Limitations OverviewLimits  `json:"limitations"`
	Problems    []Problem       `json:"problems"` // objects that are missing or damaged

	// Stated are the plan's own limitations of a run that made no record, which
	// would hold them: no artifact of the run carries them.
	Stated stage.LimitationSet `json:"-"`
}

// An OverviewStage is one stage of the run.
type OverviewStage struct {
	ManifestStage
	Attempts []Attempt       `json:"attempts"` // of this run, oldest first
	Outputs  []Output        `json:"outputs"`  // with the limitation sets that they have in this run
	Findings []stage.Finding `json:"findings"`
	Error    *ResultError    `json:"error"`
}

// An Attempt is one execution of a stage in this run.
type Attempt struct {
	Attempt    int            `json:"attempt"`
	Status     Status         `json:"status"` // lost while nothing says how it ended
	StartedAt  stage.Time     `json:"started_at"`
	FinishedAt *stage.Time    `json:"finished_at"`
	Result     *digest.Digest `json:"result_sha256"`
}

// OverviewLimits are all limitations of what the run published.
type OverviewLimits struct {
	ManifestLimitations
	Set stage.LimitationSet `json:"set"`
}

// Describe reads an overview and hashes every artifact that the run published.
// What it cannot read is named under Problems.
func Describe(ctx context.Context, run *Run, vault Vault) (*Overview, error) {
	m, err := run.State()
	if err != nil {
		return nil, err
	}
	chain, err := run.Journal()
	if err != nil && len(chain.Lines) == 0 {
		return nil, err
	}
	o := &Overview{
		Run: m.Run, Plan: m.Plan, Base: m.Base, Status: m.Status, StartedAt: m.StartedAt,
		Record: m.Record, Stages: []OverviewStage{}, Problems: []Problem{},
	}
	if run.Manifest != nil {
		o.Tool, o.Exit, o.FinishedAt = &m.Tool, &m.Exit, &m.FinishedAt
	}
	attempts := attemptsOf(chain.Lines)
	v := &verifier{run: run, vault: vault, r: NewReader(vault), m: m, results: map[digest.Digest]*Result{}, objects: map[digest.Digest]object{}}
	var sets []stage.LimitationSet
	for _, st := range m.Stages {
		s, set := v.overview(ctx, st)
		s.Attempts = append(s.Attempts, attempts[st.ID]...)
		o.Stages = append(o.Stages, s)
		sets = append(sets, set)
	}
	if err := v.hashObjects(ctx); err != nil {
		return nil, err
	}
	v.report.finish()
	o.Problems = append(o.Problems, v.report.Problems...)
	if o.Record == nil {
		o.Stated = stated(run)
	}
	o.Limitations.Set = stage.LimitationSet(nil).Union(sets...)
	o.Limitations.Count = len(o.Limitations.Set)
	_, o.Limitations.SHA256 = o.Limitations.Set.Canonical()
	return o, nil
}

// stated reads the plan's own limitations; none where the plan cannot be read,
// which verify reports.
func stated(run *Run) stage.LimitationSet {
	raw, err := run.ReadFile(ResolvedPlanName)
	if err != nil {
		return nil
	}
	var head struct {
		Limitations stage.LimitationSet `json:"limitations"`
	}
	if json.Unmarshal(raw, &head) != nil {
		return nil
	}
	return head.Limitations
}

func (v *verifier) overview(ctx context.Context, st ManifestStage) (OverviewStage, stage.LimitationSet) {
	s := OverviewStage{ManifestStage: st, Attempts: []Attempt{}, Outputs: []Output{}, Findings: []stage.Finding{}}
	if st.ResultSHA256 == nil {
		return s, nil
	}
	res := v.read(ctx, *st.ResultSHA256, st.ID)
	if res == nil {
		return s, nil
	}
	s.Findings, s.Error = append(s.Findings, res.Findings...), res.Error
	for _, o := range res.Outputs {
		v.want(o.SHA256, o.Size, st.ID, o.Name)
	}
	set, ok := v.inRun(ctx, st, res)
	if !ok {
		return s, res.Limitations
	}
	outputs, err := Published(ctx, v.r, st)
	if err == nil {
		s.Outputs = append(s.Outputs, outputs...)
	}
	return s, set
}

// attemptsOf reads from a journal which attempts each stage had.
func attemptsOf(lines []Line) map[string][]Attempt {
	out := map[string][]Attempt{}
	for _, l := range lines {
		list := out[l.Stage]
		switch {
		case l.Stage == "" || l.Attempt == 0:
		case l.Event == StageStarted:
			out[l.Stage] = append(list, Attempt{Attempt: l.Attempt, Status: Lost, StartedAt: l.At})
		case l.Event == StageFinished || l.Event == StageLost:
			for i := range list {
				if list[i].Attempt == l.Attempt {
					at := l.At
					list[i].FinishedAt, list[i].Status, list[i].Result = &at, l.Status, l.Result
				}
			}
		}
	}
	return out
}

// A Listed is one line of `artifact list --json`.
type Listed struct {
	Stage string `json:"stage"`
	Name  string `json:"name"`
	stage.Ref
	Path string `json:"path"` // of the object, from the workspace
}

// Artifacts lists what a run published, each with the limitation set that it
// has in this run. Workspace is the folder from which the paths are told.
func Artifacts(ctx context.Context, run *Run, vault Vault, workspace string) ([]Listed, error) {
	m, err := run.State()
	if err != nil {
		return nil, err
	}
	r := NewReader(vault)
	out := []Listed{}
	for _, st := range m.Stages {
		outputs, err := Published(ctx, r, st)
		if err != nil {
			return nil, err
		}
		for _, o := range outputs {
			p := vault.Path(o.SHA256)
			if rel, err := filepath.Rel(workspace, p); err == nil {
				p = filepath.ToSlash(rel)
			}
			out = append(out, Listed{Stage: st.ID, Name: o.Name, Ref: o.Ref, Path: p})
		}
	}
	return out, nil
}
