package derive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// ValidateContract is the version of what Validate looks at: raise it when it may
// say something else of the same record.
const ValidateContract = 3

// Validate proves a final record as far as its closure carries: digests,
// schemas, identities, accounting, the limitation closure, and everything that
// was derived, made again: the documents that summarize wrote beside the record
// too, of those that are handed in. It reports every fault at once; the error
// is for what kept it from looking, such as a cancelled context.
func Validate(ctx context.Context, rec stage.Artifact, closure stage.Closure, beside ...stage.Artifact) (record.Validation, error) {
	v := &validation{ctx: ctx, rec: rec, closure: closure, beside: siblings(rec, beside)}
	v.out = record.Validation{
		Schema: record.ValidationSchema, Record: record.ValidatedRecord{SHA256: rec.SHA256.String()},
		Rederived: []string{}, Problems: []record.ValidationProblem{}, Notes: []record.ValidationProblem{},
	}
	v.readAll()
	if err := ctx.Err(); err != nil {
		return v.out, err
	}
	if v.doc != nil {
		v.checkIdentities()
		v.checkEvidence()
		v.checkLimitations()
		v.checkPhases()
		v.checkWeights()
		v.rederiveGrades()
		v.rederiveRecord()
	}
	if err := ctx.Err(); err != nil {
		return v.out, err
	}
	v.out.Level = record.LevelRederived
	for _, p := range v.out.Problems {
		v.out.Level = min(v.out.Level, p.Level-1)
	}
	v.out.OK = len(v.out.Problems) == 0
	return v.out, nil
}

// A validation is one run of Validate.
type validation struct {
	ctx     context.Context
	rec     stage.Artifact
	closure stage.Closure
	beside  []stage.Artifact // of the stage that made the record
	all     []stage.Artifact // see artifacts
	out     record.Validation

	bytes []byte        // of the record
	doc   any           // the record as it lies there, numbers as text
	final *record.Final // nil when it does not decode
}

// problem notes a fault that keeps the record below a level.
func (v *validation) problem(level int, a stage.Artifact, pointer, rule string, stored, computed any, format string, args ...any) {
	v.out.Problems = append(v.out.Problems, record.ValidationProblem{
		Artifact: a.Stage + "/" + a.Name, Pointer: pointer, Rule: rule, Level: level,
		Stored: stored, Computed: computed, Text: fmt.Sprintf(format, args...),
	})
}

// artifacts are the record, everything in its closure and what stands beside
// it, each once.
func (v *validation) artifacts() []stage.Artifact {
	if v.all != nil {
		return v.all
	}
	out := []stage.Artifact{v.rec}
	seen := map[digest.Digest]bool{v.rec.SHA256: true}
	add := func(a stage.Artifact) {
		if !seen[a.SHA256] {
			seen[a.SHA256] = true
			out = append(out, a)
		}
	}
	for a := range v.closure.All() {
		add(a)
	}
	for _, a := range v.beside {
		add(a)
	}
	v.all = out
	return out
}

// checkEvidence looks up every artifact that the record says it stands on.
func (v *validation) checkEvidence() {
	absent := map[digest.Digest]bool{}
	for _, ref := range v.closure.Absent() {
		absent[ref.SHA256] = true
	}
	for i, e := range v.final.Evidence {
		at := fmt.Sprintf("/evidence/%d", i)
		a, ok := v.closure.Get(e.SHA256)
		switch {
		case absent[e.SHA256]: // said below: what was imported without it is no less consistent
		case !ok:
			v.problem(record.LevelConsistent, v.rec, at+"/sha256", "evidence", e.SHA256, nil, "nothing in the closure has this digest")
		case a.Size != e.Size || a.Schema != e.Schema:
			v.problem(record.LevelConsistent, v.rec, at, "evidence", e.Ref, a.Ref, "the closure has it with another size or schema")
		}
	}
	for _, ref := range v.closure.Absent() {
		v.problem(record.LevelRederived, v.rec, "", "absent", nil, ref, "an imported document refers to %s %s, which is not here", ref.Schema, ref.SHA256)
	}
}

// rederiveGrades judges every attempt again.
func (v *validation) rederiveGrades() {
	for _, a := range v.artifacts() {
		if a.Schema != record.GradesSchema {
			continue
		}
		made, ok := v.closure.Made(a.SHA256)
		if !ok || made.Kind != "grade" {
			v.problem(record.LevelRederived, a, "", "not-rederived", nil, nil, "nothing here says how these grades were made")
			continue
		}
		if !v.sameContract(a, made, GradeContract) {
			continue
		}
		if err := v.rederiveGrade(a, made); err != nil {
			v.problem(record.LevelRederived, a, "", "rederive", nil, nil, "%v", err)
			continue
		}
		v.out.Rederived = append(v.out.Rederived, a.Stage+"/"+a.Name)
	}
}

// sameContract tells whether this build derives as the one that wrote did.
func (v *validation) sameContract(a stage.Artifact, made stage.Production, contract int) bool {
	if made.Contract == contract {
		return true
	}
	v.problem(record.LevelRederived, a, "", "contract", made.Contract, contract,
		"made under contract %d of %s; this build has %d and cannot make it again", made.Contract, made.Kind, contract)
	return false
}

func (v *validation) rederiveGrade(a stage.Artifact, made stage.Production) error {
	var c GradeConfig
	if err := decodeConfig(made.Config, &c); err != nil {
		return err
	}
	attempts, dataset := made.Inputs["attempts"], made.Inputs["with./dataset"]
	if len(attempts) != 1 || len(dataset) != 1 {
		return errors.New("the attempts or the dataset that these grades were made of are not among the inputs")
	}
	files := map[string]stage.Artifact{}
	for port, as := range made.Inputs {
		if pointer, ok := strings.CutPrefix(port, "with."); ok && len(as) == 1 {
			files[pointer] = as[0]
		}
	}
	again, err := Grade(v.ctx, c, attempts[0], dataset[0], files)
	if err != nil {
		return err
	}
	return v.compareGrades(a, again)
}

// rederiveRecord makes the record again from its inputs.
func (v *validation) rederiveRecord() {
	made, ok := v.closure.Made(v.rec.SHA256)
	if !ok || made.Kind != "summarize" {
		v.problem(record.LevelRederived, v.rec, "", "not-rederived", nil, nil, "nothing here says how this record was made: it was imported, or its result is lost")
		return
	}
	if !v.sameContract(v.rec, made, SummarizeContract) {
		return
	}
	var c SummarizeConfig
	if err := decodeConfig(made.Config, &c); err != nil {
		v.problem(record.LevelRederived, v.rec, "", "rederive", nil, nil, "%v", err)
		return
	}
	// The digests of the plan are no part of the closure: they are the record's own word.
	plan := stage.PlanIdentity{Name: c.Name, SHA256: v.final.Plan.SHA256, ResolvedSHA256: v.final.Plan.ResolvedSHA256}
	again, err := Summarize(v.ctx, c, made.Inputs, plan)
	if err != nil {
		v.problem(record.LevelRederived, v.rec, "", "rederive", nil, nil, "%v", err)
		return
	}
	set := v.expectedSet(made.Stage, again.Limitations)
	v.compareLimitations(set)
	doc, err := again.Document(set)
	if err != nil {
		v.problem(record.LevelRederived, v.rec, "", "rederive", nil, nil, "%v", err)
		return
	}
	v.compareRecord(doc)
	v.out.Rederived = append(v.out.Rederived, v.rec.Stage+"/"+v.rec.Name)
	v.rederiveBeside(again, set)
}

// expectedSet is the closure of limitations: of everything reached, of what
// summarize raises, and of the executor's own in the record's set, which
// nothing here can compute.
func (v *validation) expectedSet(origin string, raised []stage.Limitation) stage.LimitationSet {
	own := make([]stage.Limitation, len(raised))
	for i, l := range raised {
		if own[i] = l; l.Origin == "" {
			own[i].Origin = origin
		}
	}
	set := stage.NewLimitationSet(own...)
	for a := range v.closure.All() {
		set = set.Union(a.LimitationSet()) // one content may have been reached with two sets
	}
	run := slices.DeleteFunc(slices.Clone(v.final.Limitations), func(l stage.Limitation) bool { return l.Origin != stage.OriginRun })
	return set.Union(stage.NewLimitationSet(run...))
}

func decodeConfig(raw json.RawMessage, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the configuration that it was made with: %w", err)
	}
	return nil
}
