package derive

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// A cell is one measure child on its way into the record.
type cell struct {
	attempts    stage.Artifact
	header      record.AttemptsHeader
	measurement *record.Measurement
	grades      *gradesRead
	own         []stage.Artifact // every artifact of this cell alone

	tally    *tally
	prompts  digest.Digest // of the prompts' digests in order of index
	contract *int          // of measure; nil without a measurement
	arrivals arrivals      // of an open loop
	keep     bool          // rows, for a serving cell
	level    float64       // of confidence
	rows     []servingRow
	wallMS   float64
	metrics  []record.Metric
	out      record.Cell
}

// readCells pairs what arrives on the ports: one cell for each attempts file,
// the documents that its stage or, of imported ones, the plan puts beside it.
func readCells(ctx context.Context, c SummarizeConfig, ports map[string][]stage.Artifact) ([]*cell, error) {
	var cells []*cell
	for _, a := range ports["attempts"] {
		if slices.ContainsFunc(cells, func(c *cell) bool { return c.attempts.Stage == a.Stage }) {
			return nil, fmt.Errorf("two attempts files of stage %s: one cell has one", a.Stage)
		}
		cells = append(cells, &cell{attempts: a, own: []stage.Artifact{a}})
	}
	grades, err := readGrades(ctx, ports["grades"])
	if err != nil {
		return nil, err
	}
	for _, cell := range cells {
		if err := cell.read(ctx, c, ports, grades); err != nil {
			return nil, fmt.Errorf("cell %s: %w", cell.attempts.Stage, err)
		}
	}
	for _, g := range grades {
		if !g.used {
			return nil, fmt.Errorf("the grades of %s were made of attempts %s, which is none of the inputs", g.artifact.Stage, g.header.AttemptsSHA256.Short())
		}
	}
	return cells, nil
}

func (c *cell) read(ctx context.Context, config SummarizeConfig, ports map[string][]stage.Artifact, grades []*gradesRead) error {
	c.tally = newTally(config.Objectives)
	c.keep, c.level = config.ServingCell != nil, config.Confidence
	status, err := c.readAttempts(ctx)
	if err != nil {
		return err
	}
	if err := c.readMeasurement(ctx, ports); err != nil {
		return err
	}
	if err := c.account(); err != nil {
		return err
	}
	if err := c.takeGrades(grades); err != nil {
		return err
	}
	c.wallMS = float64(c.tally.lastEnd) / nsPerMS
	if c.measurement != nil {
		c.wallMS = c.measurement.Phase.WallClockMS
		if c.measurement.Phase.Status != "completed" {
			status = c.measurement.Phase.Status
		}
	}
	c.metrics = c.tally.metrics(config.Quantile, c.wallMS)
	c.out.ID, c.out.Axes, c.out.Status = c.attempts.Stage, c.header.Cell, status
	if c.out.Axes == nil {
		c.out.Axes = map[string]any{}
	}
	c.out.Cases = c.tally.cases
	return nil
}

func (c *cell) readAttempts(ctx context.Context) (status string, err error) {
	file, err := c.attempts.Open(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r, err := record.NewAttemptsReader(file)
	if err != nil {
		return "", fmt.Errorf("attempts: %w", err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	c.header = r.Header()
	c.tally.words.ask(c.header.Request.Workload)
	prompts := map[int]digest.Digest{}
	for a, err := range r.All() {
		if err != nil {
			return "", fmt.Errorf("attempts: %w", err)
		}
		prompts[a.Index] = a.PromptSHA256
		c.tally.add(&a)
		if c.open() {
			c.arrivals.add(&a)
		}
		if c.keep {
			c.rows = append(c.rows, c.servingRow(&a))
		}
	}
	if err := c.tally.finish(); err != nil {
		return "", fmt.Errorf("attempts: %w", err)
	}
	c.prompts = digestOf(prompts)
	if !r.Footer().Complete {
		return "aborted", nil
	}
	return r.Footer().Status, nil
}

// digestOf is the SHA-256 of the digests' text forms in order of index, a line each.
func digestOf(prompts map[int]digest.Digest) digest.Digest {
	h := sha256.New()
	for i := range len(prompts) {
		h.Write([]byte(prompts[i].String() + "\n"))
	}
	return digest.Digest(h.Sum(nil))
}

// readMeasurement takes the document of the same stage, or the only one where
// there is but one cell: imported files come from a stage each.
func (c *cell) readMeasurement(ctx context.Context, ports map[string][]stage.Artifact) error {
	for _, port := range []string{"measurement", "schedule", "benchmark", "live"} {
		a, ok := c.beside(ports[port], len(ports["attempts"]) == 1)
		if !ok {
			continue
		}
		c.own = append(c.own, a)
		if port != "measurement" {
			continue
		}
		m, err := stage.Decode[record.Measurement](ctx, a)
		if err != nil {
			return err
		}
		c.measurement = &m
		if err := c.readContract(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

func (c *cell) beside(as []stage.Artifact, alone bool) (stage.Artifact, bool) {
	for _, a := range as {
		if a.Stage == c.attempts.Stage {
			return a, true
		}
	}
	if alone && len(as) == 1 {
		return as[0], true
	}
	return stage.Artifact{}, false
}

// account checks that nothing planned is missing from the attempts.
func (c *cell) account() error {
	c.out.Accounting = record.CellAccounting{Planned: c.tally.planned, Outcomes: c.tally.outcomes}
	if c.header.Planned != nil && *c.header.Planned != c.tally.planned {
		return fmt.Errorf("attempts: %d lines for %s", c.tally.planned, plural(*c.header.Planned, "planned request"))
	}
	if m := c.measurement; m != nil {
		if m.Accounting.Planned != c.tally.planned {
			return fmt.Errorf("measurement plans %d requests, the attempts hold %d", m.Accounting.Planned, c.tally.planned)
		}
		for _, o := range record.Outcomes() {
			if m.Accounting.Outcomes[o] != c.tally.outcomes[o] {
				return fmt.Errorf("measurement counts %d of outcome %s, the attempts %d", m.Accounting.Outcomes[o], o, c.tally.outcomes[o])
			}
		}
	}
	return nil
}

// simulated tells whether the figures describe the embedded engine.
func (c *cell) simulated() bool {
	return c.header.Endpoint.BaseURL == nil || c.measurement != nil && c.measurement.Simulated
}

// limitations is the union of the sets of the cell's own artifacts.
func (c *cell) limitations() stage.LimitationSet {
	var set stage.LimitationSet
	for _, a := range c.own {
		set = set.Union(a.LimitationSet())
	}
	return set
}

// has tells whether the cell's evidence already bears a limitation of the code.
func (c *cell) has(code string) bool {
	return slices.ContainsFunc(c.limitations(), func(l stage.Limitation) bool { return l.Code == code })
}

// withheld returns the cell for a record whose limitation set is given: what is
// withheld has no value.
func (c *cell) withheld(set stage.LimitationSet, all []*cell) record.Cell {
	out := c.out
	out.Metrics = slices.Clone(c.metrics)
	why := c.withholding(set, all)
	for i := range out.Metrics {
		if reason := why[out.Metrics[i].ID]; reason != "" {
			withhold(&out.Metrics[i], reason)
		}
	}
	return out
}

// gateWithholds tells whether a failed gate of the grades takes the throughput
// away.
func (c *cell) gateWithholds() bool {
	if c.grades == nil || c.grades.footer.Gate == nil {
		return false
	}
	gate := c.grades.footer.Gate
	return gate.WithholdThroughput && !gate.Passed
}

// throughputs are what a failed correctness gate withholds when the plan says so.
var throughputs = map[string]bool{"output_tokens_per_s": true, "prompt_tokens_per_s": true, "requests_per_s": true}

func withhold(m *record.Metric, reason string) {
	if m.Value == nil {
		return
	}
	m.Value, m.Interval, m.Reason, m.IntervalReason = nil, nil, &reason, new("there is no value")
}

func foreign(l stage.Limitation, own stage.LimitationSet, c *cell, all []*cell) bool {
	holds := func(set stage.LimitationSet) bool { return len(stage.LimitationSet{l}.Missing(set)) == 0 }
	if holds(own) {
		return false
	}
	return slices.ContainsFunc(all, func(o *cell) bool { return o != c && holds(o.limitations()) })
}
