package pipeline

import (
	"context"
	"fmt"
	"path/filepath"

	"anvil/pipeline/digest"
	"anvil/pipeline/event"
	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/schemas"
)

// RecordSchema is the shape of a final record.
const RecordSchema schemas.ID = "anvil.record/v1"

// finish writes run.json and its statement, and tells the end.
func (e *execution) finish(ctx context.Context, fault error) (*Run, error) {
	r := e.result(ctx)
	r.blame(fault)
	err := e.writePapers(ctx, r)
	r.blame(err)
	ev := event.Event{Event: event.RunFinished, Status: string(r.Status), Elapsed: r.Finished.Sub(r.Started)}
	ev.Finished = &event.Finished{Exit: r.Exit, Limitations: len(r.Limitations)}
	if r.Record != nil {
		ev.Finished.Record = &event.Record{Path: r.Record.Path, SHA256: r.Record.SHA256.String(), ID: r.Record.ID}
	}
	e.events.emit(ev)
	return r, err
}

// blame gives a run whose papers could not be written the exit code of that,
// where no stage has given it one.
func (r *Run) blame(err error) {
	if err == nil || r.Exit != exitOK {
		return
	}
	r.Status, r.Exit = prov.Failed, exitInternal
	if codeOf(err, "") != "" {
		r.Exit = exitStage
	}
}

// result gathers what became of the run.
func (e *execution) result(ctx context.Context) *Run {
	r := &Run{
		ID: e.id, Base: e.base.id(), Dir: e.folder.disk.Dir(),
		Started: e.began, Finished: e.x.now(), Status: prov.OK,
	}
	seen := map[digest.Digest]bool{}
	var all stage.LimitationSet
	for _, n := range e.graph.order {
		r.Stages = append(r.Stages, n.result())
		for _, f := range n.outcome.findings() {
			r.Findings = append(r.Findings, StageFinding{n.ID, f, n.outcome.how() == prov.TakenOver || n.outcome.how() == prov.Reused})
		}
		all = append(all, n.outcome.newLimitations(seen)...)
	}
	r.Limitations = stage.NewLimitationSet(all...)
	r.Exit = e.exit(r)
	r.Status = e.status()
	r.Record = e.record(ctx)
	r.Refresh = e.refresh()
	return r
}

// newLimitations is the set that the stage has in this run, unless one of the
// same digest was seen: thousands of children share theirs.
func (o *outcome) newLimitations(seen map[digest.Digest]bool) stage.LimitationSet {
	if o.standing == nil {
		return nil
	}
	if len(o.artifacts) > 0 { // all of them have the one set
		d := o.artifacts[0].Limitations
		if seen[d] {
			return nil
		}
		seen[d] = true
	}
	return o.standing.set()
}

func (n *node) result() StageResult {
	o := &n.outcome
	s := StageResult{
		ID: n.ID, Of: n.Of, Kind: n.spec.Name, Status: o.status, How: o.how(),
		BlockedBy: o.blockedBy, Reason: o.reason, Error: o.err, Elapsed: o.elapsed,
	}
	if o.status == "" {
		s.Status = prov.NotStarted
	}
	if o.standing != nil {
		s.Attempt, s.Result, s.Outputs = o.standing.res.Attempt, o.standing.sum, o.standing.outputs()
	}
	return s
}

// status is the run's: aborted when it was interrupted before its end, failed
// when a stage is failed or blocked.
func (e *execution) status() prov.Status {
	status := prov.OK
	for _, n := range e.graph.order {
		switch o := &n.outcome; {
		case o.status == "" || o.status == prov.NotStarted:
			if e.halt.halted() {
				return prov.Aborted
			}
			status = prov.Failed
		case o.serves() || o.status == prov.Stale || o.status == prov.Skipped:
		case o.err != nil && (o.err.Code == CodeInterrupted || o.err.Code == CodeChanged && e.halt.halted()):
			return prov.Aborted
		default:
			status = prov.Failed
		}
	}
	return status
}

// The exit codes of a run; of several that apply the first counts.
const (
	exitOK           = 0
	exitInternal     = 1
	exitStage        = 4
	exitFinding      = 5
	exitIncomparable = 7
	exitInsufficient = 9
	exitInterrupted  = 130
)

// The codes of findings that have an exit code of their own.
const (
	FindingIncomparable = "not_comparable"
	FindingInsufficient = "insufficient_data"
)

func (e *execution) exit(r *Run) int {
	applies := map[int]bool{}
	if e.status() == prov.Aborted {
		applies[exitInterrupted] = true
	}
	for _, n := range e.graph.order {
		o := &n.outcome
		applies[exitInternal] = applies[exitInternal] || o.internal
		applies[exitStage] = applies[exitStage] || o.status == prov.Failed || o.status == prov.Aborted && !o.expected
		// What a gate of a stage that was taken over keeps from running is a
		// finding of this run, too.
		applies[exitFinding] = applies[exitFinding] || o.status == prov.Blocked
	}
	for _, f := range r.Findings {
		if !f.TakenOver {
			applies[findingExit(f.Code)] = true
		}
	}
	for _, code := range []int{exitInterrupted, exitInternal, exitStage, exitIncomparable, exitFinding, exitInsufficient} {
		if applies[code] {
			return code
		}
	}
	return exitOK
}

func findingExit(code string) int {
	switch code {
	case FindingIncomparable:
		return exitIncomparable
	case FindingInsufficient:
		return exitInsufficient
	}
	return exitFinding
}

// record finds the final record, the last in plan order, and makes its
// readable copy.
func (e *execution) record(ctx context.Context) *Record {
	var found *Record
	for _, n := range e.graph.order {
		for _, a := range n.outcome.artifacts {
			if a.Schema == RecordSchema && n.outcome.serves() {
				name := filepath.Join(prov.ArtifactsFolder, n.Dir, a.Name)
				found = &Record{Stage: n.ID, Name: a.Name, Ref: a.Ref, ID: recordID(ctx, a)}
				found.Path = filepath.Join(prov.RunsFolder, e.id, name)
				if n.outcome.how() == prov.Executed {
					continue
				}
				if err := e.x.Store.Export(a.SHA256, e.folder.disk.Root(), name); err != nil {
					e.warn(n, "copy_failed", fmt.Sprintf("the readable copy %s: %v", name, err))
				}
			}
		}
	}
	return found
}

func recordID(ctx context.Context, a stage.Artifact) string {
	head, err := stage.Decode[struct {
		ID string `json:"id"`
	}](ctx, a)
	if err != nil {
		return ""
	}
	return head.ID
}

// refresh are the arguments that bring stale stages up to date: the stale ones
// on which no other stale one stands behind.
func (e *execution) refresh() []string {
	var from []string
	for _, n := range e.graph.order {
		if n.outcome.status != prov.Stale {
			continue
		}
		first := true
		for _, need := range n.needs {
			first = first && need.outcome.status != prov.Stale
		}
		if first {
			from = append(from, n.ID)
		}
	}
	if len(from) == 0 {
		return nil
	}
	args := []string{"plan", "run", e.plan.File}
	for _, id := range from {
		args = append(args, "--from", id)
	}
	return append(args, "--base", e.id)
}

// writePapers ends the journal and writes run.json and its statement.
func (e *execution) writePapers(ctx context.Context, r *Run) error {
	raw, setSum := r.Limitations.Canonical()
	if _, err := e.x.Store.PutBytes(ctx, raw); err != nil {
		return err
	}
	if err := e.putAdded(ctx); err != nil {
		return err
	}
	tool, err := e.tool()
	if err != nil {
		return err
	}
	err = e.folder.journal.Append(prov.Line{Event: prov.RunFinished, Run: e.id, Status: r.Status, Exit: &r.Exit})
	if err == nil {
		err = e.folder.journal.Sync()
	}
	if err != nil {
		return err
	}
	files, err := prov.Files(e.folder.disk.Root())
	if err != nil {
		return err
	}
	m := prov.Manifest{
		Schema: prov.ManifestSchema, Run: e.id, Tool: tool, Status: r.Status, Exit: r.Exit,
		Plan:      prov.ManifestPlan{Name: e.plan.Name, Path: e.plan.File, SHA256: e.plan.Digest, ResolvedSHA256: e.plan.ResolvedDigest},
		StartedAt: stage.Time{Time: r.Started}, FinishedAt: stage.Time{Time: r.Finished}, Files: files, JournalSHA256: e.folder.journal.Head(),
		Limitations: prov.ManifestLimitations{Count: len(r.Limitations), SHA256: setSum},
	}
	if r.Base != "" {
		m.Base = &r.Base
	}
	if r.Record != nil {
		m.Record = &prov.ManifestRecord{Stage: r.Record.Stage, Name: r.Record.Name, SHA256: r.Record.SHA256}
	}
	for _, n := range e.graph.order {
		m.Stages = append(m.Stages, n.manifest())
	}
	return e.writeManifest(ctx, m)
}

// putAdded stores the sets that the executor added to what it took over.
func (e *execution) putAdded(ctx context.Context) error {
	for _, n := range e.graph.order {
		s := n.outcome.standing
		if s.addedSum() == nil {
			continue
		}
		for _, set := range []stage.LimitationSet{s.added, s.set()} {
			raw, _ := set.Canonical()
			if _, err := e.x.Store.PutBytes(ctx, raw); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *node) manifest() prov.ManifestStage {
	o := &n.outcome
	st := prov.ManifestStage{ID: n.ID, Kind: n.spec.Name, Status: n.result().Status, BlockedBy: o.blockedBy}
	if s := o.standing; s != nil {
		how := s.how
		st.How, st.Attempt, st.ResultSHA256, st.Added = &how, &s.res.Attempt, &s.sum, s.addedSum()
	}
	return st
}

func (e *execution) writeManifest(ctx context.Context, m prov.Manifest) error {
	raw, err := prov.EncodeManifest(m)
	if err != nil {
		return err
	}
	st, err := prov.RunStatement(ctx, raw, e.reader)
	if err != nil {
		return err
	}
	statement, err := st.Encode()
	if err != nil {
		return err
	}
	// run.json last: it says that the run has ended, and then nobody resumes it.
	d := e.folder.disk
	if err := d.WriteFile(prov.StatementName, statement); err != nil {
		return err
	}
	return d.WriteFile(prov.ManifestName, raw)
}

// dryRun says what a run would do, and writes nothing.
func (e *execution) dryRun(ctx context.Context) (*Run, error) {
	if err := e.openEarlier(ctx); err != nil {
		return nil, err
	}
	if err := e.decide(ctx); err != nil {
		return nil, err
	}
	r := &Run{ID: e.opt.Resume, Base: e.base.id(), Decisions: []Decision{}} // findResumed has made it an id
	for _, n := range e.graph.order {
		if n.decision.will == WillLeave {
			continue
		}
		d := Decision{ID: n.ID, Will: n.decision.will, Reason: n.decision.reason, Differences: n.decision.diffs}
		if d.Differences == nil {
			d.Differences = []Difference{}
		}
		r.Decisions = append(r.Decisions, d)
	}
	return r, nil
}

// planDir is where the plan's relative paths start.
func planDir(file string) string { return filepath.Dir(file) }
