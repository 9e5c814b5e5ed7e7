package derive

import (
	"context"
	"errors"
	"fmt"

	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// notGraded is the reason where no grades stand beside the attempts.
const notGraded = "not graded"

// gradesRead is one grades.jsonl, its verdicts in order of index.
type gradesRead struct {
	artifact stage.Artifact
	header   record.GradesHeader
	footer   record.GradesFooter
	verdicts []record.Verdict
	outcomes []record.Outcome
	used     bool
}

func readGrades(ctx context.Context, artifacts []stage.Artifact) ([]*gradesRead, error) {
	var out []*gradesRead
	for _, a := range artifacts {
		g, err := readGradesFile(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("grades of %s: %w", a.Stage, err)
		}
		out = append(out, g)
	}
	return out, nil
}

func readGradesFile(ctx context.Context, a stage.Artifact) (g *gradesRead, err error) {
	file, err := a.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r, err := record.NewGradesReader(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	g = &gradesRead{artifact: a, header: r.Header()}
	for row, err := range r.All() {
		if err != nil {
			return nil, err
		}
		if row.Index != len(g.verdicts) {
			return nil, fmt.Errorf("line %d: index %d, want %d", len(g.verdicts)+2, row.Index, len(g.verdicts))
		}
		g.verdicts = append(g.verdicts, row.Verdict)
		g.outcomes = append(g.outcomes, row.Outcome)
	}
	g.footer = *r.Footer()
	return g, nil
}

// takeGrades finds the grades that were made of this cell's attempts and fills
// the verdicts, each planned request having exactly one.
func (c *cell) takeGrades(all []*gradesRead) error {
	for _, g := range all {
		if g.header.AttemptsSHA256 != c.attempts.SHA256 {
			continue
		}
		if c.grades != nil {
			return fmt.Errorf("graded twice, by %s and by %s", c.grades.artifact.Stage, g.artifact.Stage)
		}
		g.used, c.grades = true, g
		c.own = append(c.own, g.artifact)
	}
	if c.grades == nil {
		c.out.Accounting.VerdictsReason, c.out.CorrectnessReason = new(notGraded), new(notGraded)
		return nil
	}
	g := c.grades
	if len(g.verdicts) != c.tally.planned {
		return fmt.Errorf("%s for %s", plural(len(g.verdicts), "verdict"), plural(c.tally.planned, "planned request"))
	}
	counts := countVerdicts(nil)
	for i := range g.verdicts {
		if g.outcomes[i] != c.tally.cases[i].Outcome {
			return fmt.Errorf("request %d: graded with outcome %s, the attempt has %s", i, g.outcomes[i], c.tally.cases[i].Outcome)
		}
		c.tally.cases[i].Verdict = &g.verdicts[i]
		counts[g.verdicts[i]]++
	}
	c.out.Accounting.Verdicts = counts
	c.out.Correctness = correctness(counts, c.tally.planned, g.footer.Reduced, c.shares())
	return nil
}

// countVerdicts tallies; all four verdicts are there, at 0.
func countVerdicts(rows []record.Grade) map[record.Verdict]int {
	counts := map[record.Verdict]int{}
	for _, v := range record.Verdicts() {
		counts[v] = 0
	}
	for i := range rows {
		counts[rows[i].Verdict]++
	}
	return counts
}

// shares says how far the shares of this cell can be bounded: attempts at one
// item are no independent trials.
func (c *cell) shares() share {
	seen := map[string]bool{}
	for _, k := range c.tally.cases {
		if k.Item == nil {
			continue
		}
		if seen[*k.Item] {
			return share{without: "items were asked several times: their attempts are not independent"}
		}
		seen[*k.Item] = true
	}
	return share{level: c.level}
}

func correctness(counts map[record.Verdict]int, planned int, reduced *record.Reduced, s share) *record.Correctness {
	pass, judged := counts[record.Pass], counts[record.Pass]+counts[record.Fail]
	return &record.Correctness{
		Strict:   s.of(pass, planned, nothingPlanned),
		Answered: s.of(pass, judged, "no answer was judged pass or fail"),
		Coverage: s.of(judged, planned, nothingPlanned),
		Reduced:  reduced,
	}
}
