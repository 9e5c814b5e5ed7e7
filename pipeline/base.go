package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"anvil/pipeline/digest"
	"anvil/pipeline/plan"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
)

// A Base is the run that a derived run builds on.
type Base struct {
	Run    string         // its id
	Name   string         // by which it is found again: its id, or a path where it stands outside the workspace
	Params map[string]any // as that run's plan resolved them: string, bool, json.Number or nil
}

// FindBase finds the run that opt.Only or opt.From build on, before the plan is
// parsed: a derived run starts from the base's parameters. needs are the ids of
// the plan's stages as it writes them, each with the ids that it needs.
//
// It is opt.Base where that names one; else the newest run of the same plan in
// which every stage is ok that must be taken over. It returns nil when opt asks
// for no derived run, and a *BaseError when there is none.
func (x *Executor) FindBase(ctx context.Context, planName string, needs map[string][]string, opt Options) (base *Base, err error) {
	if len(opt.Only) == 0 && len(opt.From) == 0 {
		return nil, nil
	}
	if opt.Base != "" {
		r, err := prov.OpenRun(x.Workspace, opt.Base)
		if err != nil {
			return nil, &BaseError{Base: opt.Base, Reason: err.Error()}
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		return x.baseOf(r)
	}
	wanted := takenOver(needs, opt)
	ids, err := prov.NewestRuns(x.Workspace)
	if err != nil {
		return nil, err
	}
	reader := prov.NewReader(x.Store)
	for id := range ids {
		if name, _, _ := prov.SplitRunID(id); name != planName {
			continue
		}
		if base := x.serving(ctx, reader, id, wanted, opt.AcceptAborted); base != nil {
			return base, nil
		}
	}
	reason := fmt.Sprintf("no run of plan %q has finished", planName)
	if len(wanted) > 0 {
		reason += " " + strings.Join(wanted, ", ")
	}
	return nil, &BaseError{Reason: reason}
}

// takenOver are the stages that a base must supply, as the plan writes them.
func takenOver(needs map[string][]string, opt Options) []string {
	written := func(names []string) map[string]bool {
		out := map[string]bool{}
		for _, name := range names {
			of, _, _ := strings.Cut(name, "[")
			out[of] = true
		}
		return out
	}
	again := written(slices.Concat(opt.Only, opt.From))
	if len(opt.From) > 0 {
		grow(again, func(id string) bool { return slices.ContainsFunc(needs[id], func(d string) bool { return again[d] }) }, needs)
	}
	upstream := map[string]bool{}
	for id := range again {
		for _, d := range needs[id] {
			upstream[d] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, id := range keys(upstream) {
			for _, d := range needs[id] {
				if !upstream[d] {
					upstream[d], grown = true, true
				}
			}
		}
	}
	maps.DeleteFunc(upstream, func(id string, _ bool) bool { return again[id] })
	return slices.Sorted(maps.Keys(upstream))
}

// grow adds to set every stage for which more holds, until none does.
func grow(set map[string]bool, more func(string) bool, among map[string][]string) {
	for grown := true; grown; {
		grown = false
		for id := range among {
			if !set[id] && more(id) {
				set[id], grown = true, true
			}
		}
	}
}

// serving is the run as a base when every wanted stage of it can be taken
// over, else nil. A run that cannot be read serves nothing: an older one may.
func (x *Executor) serving(ctx context.Context, reader *prov.Reader, id string, wanted []string, aborted bool) *Base {
	r, err := prov.OpenRun(x.Workspace, id)
	if err != nil {
		return nil
	}
	run, err := loadRun(ctx, r, reader)
	base, baseErr := x.baseOf(r)
	if errors.Join(err, baseErr, r.Close()) != nil {
		return nil
	}
	for _, of := range wanted {
		if !run.has(of, aborted) {
			return nil
		}
	}
	return base
}

func (x *Executor) baseOf(r *prov.Run) (*Base, error) {
	raw, err := r.ReadFile(prov.ResolvedPlanName)
	if err != nil {
		return nil, &BaseError{Base: r.ID, Reason: err.Error()}
	}
	var resolved struct {
		Params map[string]any `json:"params"`
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&resolved); err != nil {
		return nil, &BaseError{Base: r.ID, Reason: prov.ResolvedPlanName + ": " + err.Error()}
	}
	return &Base{Run: r.ID, Name: x.lasting(r), Params: resolved.Params}, nil
}

// lasting is the name of a run that goes on to mean it: its id, which "latest"
// or a prefix may not be tomorrow, or its path where the id does not find it.
func (x *Executor) lasting(r *prov.Run) string {
	if filepath.Clean(r.Dir) == filepath.Join(x.Workspace, prov.RunsFolder, r.ID) {
		return r.ID
	}
	return r.Dir
}

// An earlierRun is what an earlier run published, by stage. A nil one
// published nothing.
type earlierRun struct {
	run    string
	dir    string          // its folder
	ended  bool            // it has a run.json
	gone   bool            // it was removed since this run began
	ctx    context.Context //nolint:containedctx // of the command that reads it
	reader *prov.Reader
	stages map[string]prov.ManifestStage
}

func (r *earlierRun) id() string {
	if r == nil {
		return ""
	}
	return r.run
}

// loadRun reads which result each stage of a run stands on: from run.json, or
// from the journal where a run did not come to its end.
func loadRun(ctx context.Context, r *prov.Run, reader *prov.Reader) (*earlierRun, error) {
	out := &earlierRun{run: r.ID, dir: r.Dir, ended: r.Manifest != nil, ctx: ctx, reader: reader, stages: map[string]prov.ManifestStage{}}
	m, err := r.State()
	if err != nil {
		return nil, err
	}
	for _, st := range m.Stages {
		out.stages[st.ID] = st
	}
	return out, nil
}

// at is the run as the lines of its journal have it.
func (r *earlierRun) at(lines []prov.Line) *earlierRun {
	now := *r
	now.stages = map[string]prov.ManifestStage{}
	for _, st := range prov.StateOf(r.run, lines).Stages {
		now.stages[st.ID] = st
	}
	return &now
}

// has tells whether a stage, with all its children, can be taken over.
func (r *earlierRun) has(of string, aborted bool) bool {
	found := false
	for id, st := range r.stages {
		if written, _, _ := strings.Cut(id, "["); written != of {
			continue
		}
		switch {
		case st.Status == prov.OK && st.ResultSHA256 != nil:
		case aborted && (st.Status == prov.Aborted || st.Status == prov.Lost):
		default:
			return false
		}
		found = true
	}
	return found
}

// standing returns the result that a stage of the run stands on, nil when there
// is none; a *BrokenError when there was one and it cannot be read any more.
func (r *earlierRun) standing(id string) (*standing, error) {
	if r == nil || r.gone {
		return nil, nil
	}
	st, ok := r.stages[id]
	if !ok || st.ResultSHA256 == nil {
		return nil, nil
	}
	res, err := r.reader.Result(r.ctx, *st.ResultSHA256)
	if mismatch := (*digest.MismatchError)(nil); errors.As(err, &mismatch) || errors.Is(err, store.ErrNotFound) {
		return nil, &BrokenError{Stage: id, Name: prov.ResultName, Digest: *st.ResultSHA256, Err: err}
	}
	if err != nil {
		return nil, err
	}
	s := &standing{sum: *st.ResultSHA256, res: res}
	if st.How != nil {
		s.how = *st.How
	}
	if st.Added != nil {
		s.added, err = r.reader.Set(r.ctx, *st.Added)
	}
	return s, err
}

// Needs are the needs of a parsed plan as FindBase takes them: the ids as the
// plan writes them.
func Needs(p *plan.Plan) map[string][]string {
	of := make(map[string]string, len(p.Stages))
	for _, st := range p.Stages {
		of[st.ID] = st.Of
	}
	needs := make(map[string][]string, len(p.Stages))
	for _, st := range p.Stages {
		list := needs[st.Of]
		for _, id := range st.Needs {
			if w := of[id]; !slices.Contains(list, w) {
				list = append(list, w)
			}
		}
		needs[st.Of] = list
	}
	return needs
}

// reusedLimitation is what the executor adds to evidence that was asked to be
// used again.
func reusedLimitation() stage.Limitation {
	l := stage.Limit("run.reused-evidence")
	l.Origin = stage.OriginRun
	return l
}
