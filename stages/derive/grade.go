package derive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gowebpki/jcs"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/internal/rows"
	"anvil/stages/record"
)

// GradeContract is the version of the verdict functions: raise it when the same
// answer may get another verdict.
const GradeContract = 3

// A GradeConfig is the resolved configuration of grade. Dataset is a file: it is
// read from the inputs and stands in no key.
type GradeConfig struct {
	Dataset *string           `json:"dataset"`
	Graders []json.RawMessage `json:"graders"`
	Reducer string            `json:"reducer"`
	K       *int              `json:"k"`
	Gate    Gate              `json:"gate"`
}

// Graded is a whole grades.jsonl.
type Graded struct {
	Header record.GradesHeader
	Rows   []record.Grade // in order of index
	Footer record.GradesFooter
}

// Grade judges every attempt. It fails only when there is nothing to judge by:
// an unreadable dataset, a grader that cannot be built, incomplete attempts.
//
// Files are those that graders name, by JSON pointer into the configuration.
func Grade(ctx context.Context, c GradeConfig, attempts, data stage.Artifact, files map[string]stage.Artifact) (*Graded, error) {
	b := &builder{files: map[string][]byte{}}
	for _, pointer := range GraderFiles(c.Graders) {
		if a, ok := files[pointer]; ok {
			src, err := a.Bytes(ctx)
			if err != nil {
				return nil, err
			}
			b.files[pointer] = src
		}
	}
	set, err := b.graderSet(c.Graders)
	if err != nil {
		return nil, err
	}
	d, err := readDataset(ctx, data, set.members)
	if err != nil {
		return nil, fmt.Errorf("dataset %s: %w", data.Name, err)
	}
	if err := set.checkRows(d); err != nil {
		return nil, fmt.Errorf("dataset %s: %w", data.Name, err)
	}
	g := &Graded{}
	if g.Rows, err = set.judgeAll(ctx, attempts, d); err != nil {
		return nil, fmt.Errorf("attempts of %s: %w", attempts.Stage, err)
	}
	if err := c.settleReducer(g.Rows); err != nil {
		return nil, err
	}
	if g.Header, err = b.header(c, attempts.SHA256, data.SHA256); err != nil {
		return nil, err
	}
	counts := countVerdicts(g.Rows)
	g.Footer = record.GradesFooter{
		Footer: true, Lines: len(g.Rows), Complete: true, Counts: counts,
		Reduced: reduce(c.Reducer, c.K, g.Rows), Gate: c.Gate.check(g.Rows, set.graderTags()),
	}
	return g, nil
}

func (b *builder) header(c GradeConfig, attempts, data digest.Digest) (record.GradesHeader, error) {
	graders, spec, err := b.gradeSpec(c)
	return record.GradesHeader{
		Schema: record.GradesSchema, Graders: graders, SpecSHA256: spec,
		DatasetSHA256: data, AttemptsSHA256: attempts, Reducer: c.Reducer, K: c.K,
	}, err
}

// gradeSpec is the resolved list of graders in JCS form, and the digest of all
// that decides a verdict but the evidence. Files stand in both by their digest.
func (b *builder) gradeSpec(c GradeConfig) (json.RawMessage, digest.Digest, error) {
	list := make([]any, len(c.Graders))
	for i, raw := range c.Graders {
		v, err := decodeNumbers(raw)
		if err != nil {
			return nil, digest.Digest{}, err
		}
		if err := fillDeep(v); err != nil {
			return nil, digest.Digest{}, err
		}
		eachGrader(v, graderPointer(i), func(m map[string]any, at string) {
			if t, err := graderTypeOf(fmt.Sprint(m["type"])); err == nil {
				settleFrom(t, m)
			}
			for _, key := range fileKeys {
				if src, ok := b.files[at+"/"+key]; ok {
					m[key] = "sha256:" + digest.FromBytes(src).String()
				} else if _, ok := m[key]; ok {
					m[key] = nil
				}
			}
		})
		list[i] = v
	}
	raw, err := json.Marshal(list)
	if err == nil {
		raw, err = jcs.Transform(raw)
	}
	if err != nil {
		return nil, digest.Digest{}, fmt.Errorf("graders: %w", err)
	}
	spec, err := canonicalDigest(map[string]any{
		"v": "anvil.grade-spec/v1", "contract": GradeContract, "graders": json.RawMessage(raw), "reducer": c.Reducer, "k": c.K,
	})
	return raw, spec, err
}

// fillDeep fills the defaults of a grader and of those within it.
func fillDeep(v any) error {
	m, ok := v.(map[string]any)
	if !ok {
		return errors.New("a grader is an object")
	}
	if _, err := fillGrader(m); err != nil {
		return err
	}
	of, _ := m["of"].([]any)
	for i, member := range of {
		if err := fillDeep(member); err != nil {
			return fmt.Errorf("of[%d]: %w", i, err)
		}
	}
	return nil
}

// A graderSet is the graders of one stage.
type graderSet struct {
	graders []*wrapped
	members []string // of a dataset's row that some grader points into
}

func (b *builder) graderSet(specs []json.RawMessage) (*graderSet, error) {
	if len(specs) == 0 {
		return nil, errors.New("no graders")
	}
	set := &graderSet{}
	for i, raw := range specs {
		w, err := b.grader(raw, graderPointer(i))
		if err != nil {
			return nil, fmt.Errorf("graders[%d]: %w", i, err)
		}
		set.graders = append(set.graders, w)
	}
	set.members = b.members
	return set, nil
}

// checkRows finds rows that name a grader which the plan does not have.
func (s *graderSet) checkRows(d dataset) error {
	known := mapOf(s.graders, func(w *wrapped) string { return w.spec.ID })
	for _, id := range sortedKeys(d.rows) {
		for _, name := range d.rows[id].graders {
			if !slices.Contains(known, name) {
				return rows.UnknownGrader(d.rows[id].line, id, name)
			}
		}
	}
	return nil
}

// graderTags gives, by tag, the ids of the graders that bear it.
func (s *graderSet) graderTags() map[string][]string {
	tags := map[string][]string{}
	for _, w := range s.graders {
		for _, tag := range w.spec.Tags {
			tags[tag] = append(tags[tag], w.spec.ID)
		}
	}
	return tags
}

func (s *graderSet) judgeAll(ctx context.Context, attempts stage.Artifact, d dataset) (rows []record.Grade, err error) {
	file, err := attempts.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r, err := record.NewAttemptsReader(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for a, err := range r.All() {
		if err != nil {
			return nil, err
		}
		rows = append(rows, s.judge(&a, d))
	}
	slices.SortFunc(rows, func(a, b record.Grade) int { return cmp.Compare(a.Index, b.Index) })
	for i := range rows {
		if rows[i].Index != i {
			return nil, fmt.Errorf("the planned requests 0 to %d are not there once each: at place %d stands index %d", len(rows)-1, i, rows[i].Index)
		}
	}
	return rows, nil
}

// judge gives one attempt its verdict. Without an answer it is unscorable, and
// the outcome is the reason.
func (s *graderSet) judge(a *record.Attempt, d dataset) record.Grade {
	g := record.Grade{
		Index: a.Index, Item: a.Item, Outcome: a.Outcome,
		Votes: []any{}, Graders: []record.GraderResult{}, Tags: []string{},
	}
	var row *datasetRow
	if a.Item != nil {
		row = d.rows[*a.Item]
	}
	if row != nil && row.tags != nil {
		g.Tags = row.tags
	}
	switch {
	case !a.Outcome.Success():
		g.Verdict, g.Reason = record.Unscorable, string(a.Outcome)
		return g
	case a.Item != nil && row == nil:
		g.Verdict, g.Reason = record.GraderError, fmt.Sprintf("item %s is not in the dataset", quoted(*a.Item))
		return g
	}
	s.judgeAnswer(&answer{attempt: a, row: row}, &g)
	return g
}

func (s *graderSet) judgeAnswer(a *answer, g *record.Grade) {
	var all []weighted
	for _, w := range s.graders {
		if a.row != nil && a.row.graders != nil && !slices.Contains(a.row.graders, w.spec.ID) {
			continue
		}
		j := w.judge(a)
		all = append(all, weighted{j, w.spec.Weight, w.spec.ID})
		g.Graders = append(g.Graders, result(w.spec.ID, j))
	}
	combine(all, g)
	if g.Outcome == record.OutcomeTruncated && g.Reason != string(g.Outcome) {
		g.Reason = "truncated answer: " + g.Reason
	}
}

func result(id string, j judgement) record.GraderResult {
	r := record.GraderResult{ID: id, Verdict: j.verdict, Extracted: j.extracted, Span: j.span, Reason: j.reason}
	if j.verdict == record.Pass || j.verdict == record.Fail {
		r.Score = new(j.score)
	}
	return r
}

type weighted struct {
	judgement
	weight float64
	id     string
}

// combine makes one verdict of several. An answer passes when every grader
// with a weight passes it; one failure fails it, whatever the others could not
// judge. The score is the weighted mean over those that judged.
func combine(all []weighted, g *record.Grade) {
	counting := slices.DeleteFunc(slices.Clone(all), func(w weighted) bool { return w.weight == 0 })
	if len(counting) == 0 {
		g.Verdict, g.Reason = record.Unscorable, "no grader judges this item"
		return
	}
	for _, v := range []record.Verdict{record.Fail, record.GraderError, record.Unscorable, record.Pass} {
		some := slices.DeleteFunc(slices.Clone(counting), func(w weighted) bool { return w.verdict != v })
		if len(some) == 0 {
			continue
		}
		g.Verdict, g.Extracted, g.Span = v, some[0].extracted, some[0].span
		g.Reason = reasons(some, len(all) > 1)
		break
	}
	if g.Verdict != record.Pass && g.Verdict != record.Fail {
		return
	}
	var sum, weights float64
	for _, w := range counting {
		if w.verdict == record.Pass || w.verdict == record.Fail {
			sum += float64(w.score * w.weight)
			weights += w.weight
		}
	}
	g.Score = new(sum / weights)
}

func reasons(some []weighted, named bool) string {
	var parts []string
	for _, w := range some {
		text := w.reason
		if named && w.verdict != record.Unscorable {
			text = w.id + ": " + text
		}
		parts = appendNew(parts, text)
	}
	return strings.Join(parts, "; ")
}
