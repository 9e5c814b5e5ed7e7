package derive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/internal/stat"
	"anvil/stages/record"
)

// A ServingCellConfig asks for serving-cell.json; nulls stand for what the
// deployment claims or the evidence shows.
type ServingCellConfig struct {
	PublicID          string  `json:"public_id"`
	SuiteVersion      string  `json:"suite_version"`
	TargetInputTokens *int    `json:"target_input_tokens"`
	TokenAccounting   *string `json:"token_accounting"`
	Profile           *string `json:"profile"`
	ComparisonKey     *string `json:"comparison_key"`
}

var servingCellFormat = Format{
	Name: "serving-cell.json", Schema: record.ServingCellSchema, Optional: true,
	Wanted: func(c SummarizeConfig) bool { return c.ServingCell != nil },
	Build:  (*Summary).servingCell,
}

// servingCell writes the one cell of the record in the published kind.
func (s *Summary) servingCell(set stage.LimitationSet) ([]byte, error) {
	if len(s.cells) != 1 {
		return nil, fmt.Errorf("the record has %d cells, a serving cell is one", len(s.cells))
	}
	in, err := s.servingInput(s.cells[0], set)
	if err != nil {
		return nil, err
	}
	doc, err := record.BuildServingCell(in)
	if err != nil {
		return nil, err
	}
	// What the rules of the kind refuse is not published.
	for _, p := range record.CheckReader("serving-cell.json", bytes.NewReader(doc), record.Options{}).Problems {
		return nil, fmt.Errorf("%s: %s", p.Pointer, p.Text)
	}
	return doc, nil
}

func (s *Summary) servingInput(c *cell, set stage.LimitationSet) (in record.ServingCellInput, err error) {
	config := s.config.ServingCell
	in = record.ServingCellInput{
		PublicID: config.PublicID, SuiteVersion: config.SuiteVersion, ComparisonKey: config.ComparisonKey,
		EvidenceMode: s.record.EvidenceMode, CacheState: "unknown", TokenAccounting: "unknown",
		Conditions: slices.Clone(s.record.Conditions),
	}
	say := func(label, value string) {
		in.Conditions = append(in.Conditions, record.Condition{Label: label, Value: value})
	}
	var prompts []digest.Digest
	if in.Cases, prompts, err = c.servingCases(); err != nil {
		return in, err
	}
	if err := c.servingDigests(&in, prompts); err != nil {
		return in, err
	}
	in.Deployment = s.servingDeployment(c, say)
	in.ClientConcurrencyLimit = c.clientLimit(say)
	why := c.withholding(set, s.cells)
	if in.TargetInputTokens, err = c.targetTokens(config.TargetInputTokens, why["prompt_tokens_p50"], say); err != nil {
		return in, err
	}
	if config.TokenAccounting != nil {
		in.TokenAccounting = *config.TokenAccounting
	}
	if c.measurement != nil {
		in.CacheState = c.measurement.Cache.State
	}
	if c.tally.unknownSpans() == "" {
		in.ObservedPeakInflight = new(record.PeakInflight(c.tally.spans))
	}
	in.ChunkIntervalsMS = c.chunkIntervals()
	c.servingTimes(&in)
	servingWithheld(&in, why, say)
	in.Status = c.servingStatus(&in, set)
	if in.Status == "aborted" {
		in.CompletedAt = nil
	}
	for _, l := range set {
		in.Limitations = append(in.Limitations, l.Text)
	}
	return in, nil
}

func (c *cell) servingDigests(in *record.ServingCellInput, prompts []digest.Digest) (err error) {
	var dataset *digest.Digest
	var graders json.RawMessage
	if c.grades != nil {
		dataset, graders = &c.grades.header.DatasetSHA256, c.grades.header.Graders
	}
	if in.SuiteSHA256, err = record.SuiteDigest(dataset, nil, prompts); err != nil {
		return err
	}
	in.EvaluatorSHA256, err = record.EvaluatorDigest(SummarizeContract, graders)
	return err
}

// servingDeployment copies the plan's claims; the three that the kind requires
// have a stand-in, which a condition names.
func (s *Summary) servingDeployment(c *cell, say func(label, value string)) record.ServingDeployment {
	config, claims := s.config.ServingCell, s.config.Deployment
	text := func(name string) *string {
		v, ok := claims[name].(string)
		if !ok || v == "" {
			return nil
		}
		return &v
	}
	count := func(name string) *int {
		n, ok := wholeNumber(claims[name])
		if !ok {
			return nil
		}
		return &n
	}
	d := record.ServingDeployment{
		Revision: text("revision"), Variant: text("variant"), Quantization: text("quantization"), Hardware: text("hardware"),
		Runtime: text("runtime"), RuntimeVersion: text("runtime_version"), SourceURL: text("source_url"),
		NodeCount: count("node_count"), ContextLimit: count("context_limit"), Concurrency: count("concurrency"),
	}
	stand := func(claim *string, name, other string) string {
		if claim != nil {
			return *claim
		}
		say("Deployment "+name, "Not declared; stated here: "+other)
		return other
	}
	d.ID = stand(text("id"), "id", config.PublicID)
	d.Model = stand(text("model"), "model", c.header.Endpoint.Model)
	profile := config.Profile
	if profile == nil {
		profile = text("profile")
	}
	d.Profile = stand(profile, "profile", loadInWords(c.header.Load))
	d.Revision, d.WeightsVerified = s.verifiedRevision(d.Revision)
	return d
}

// verifiedRevision: the kind knows weights by their revision alone, so they are
// verified only when what was hashed is pinned to none or to this one.
func (s *Summary) verifiedRevision(claimed *string) (revision *string, verified bool) {
	pinned, _ := agreed(mapOf(s.weights, func(w weightFacts) *string { return w.Revision }), "none", "several")
	switch {
	case claimed == nil:
		claimed = pinned
	case pinned != nil && *pinned != *claimed:
		return claimed, false
	}
	return claimed, s.record.Observed.Weights.Verified && claimed != nil
}

func loadInWords(load any) string {
	m, _ := load.(map[string]any)
	mode, _ := m["mode"].(string)
	if n, ok := wholeNumber(m["concurrency"]); ok && mode == "closed" {
		return fmt.Sprintf("closed loop, %s", plural(n, "client worker"))
	}
	if arrival, ok := m["arrival"].(string); ok {
		return mode + " loop, " + arrival + " arrivals"
	}
	return "load not recorded"
}

// wholeNumber reads a positive whole number of a decoded JSON value.
func wholeNumber(v any) (int, bool) {
	switch v := v.(type) {
	case float64:
		return int(v), v == math.Trunc(v) && v >= 1 && v <= 1<<53
	case json.Number:
		n, err := strconv.Atoi(v.String())
		return n, err == nil && n >= 1
	case int:
		return v, v >= 1
	}
	return 0, false
}

// clientLimit is what the load allows in flight; where it sets no limit, only
// the count of requests is one.
func (c *cell) clientLimit(say func(label, value string)) int {
	load, _ := c.header.Load.(map[string]any)
	for _, name := range []string{"concurrency", "max_in_flight"} {
		if n, ok := wholeNumber(load[name]); ok {
			return n
		}
	}
	say("Client concurrency limit", "None was set; the count of requests stands for it")
	return max(c.tally.planned, 1)
}

// targetTokens is the size that the plan names or the workload asks for; a
// dataset has none, and there the server's own count stands for it.
func (c *cell) targetTokens(declared *int, withheld string, say func(label, value string)) (int, error) {
	if declared != nil {
		return *declared, nil
	}
	workload, _ := c.header.Request.Workload.(map[string]any)
	if n, ok := wholeNumber(workload["context_tokens"]); ok {
		return n, nil
	}
	if withheld != "" {
		return 0, fmt.Errorf("nothing says how large the inputs should be, and the server's counts are %s; write serving_cell.target_input_tokens", withheld)
	}
	var counts []float64
	for _, r := range c.rows {
		if r.InputTokens != nil {
			counts = append(counts, float64(*r.InputTokens))
		}
	}
	if len(counts) == 0 {
		return 0, errors.New("neither the workload nor the server says how large the inputs were; write serving_cell.target_input_tokens")
	}
	slices.Sort(counts)
	say("Target input tokens", fmt.Sprintf("Not declared; the median of the server's counts of %s stands for it", plural(len(counts), "request")))
	return max(int(math.Round(stat.Median(counts))), 1), nil
}

// chunkIntervals are the gaps between output events that each had an arrival of
// their own, in ms; nil when there is none.
func (c *cell) chunkIntervals() []float64 {
	var out []float64
	for i := range c.tally.gaps.len() {
		out = append(out, c.tally.gaps.at(i))
	}
	return out
}

// servingTimes labels the phase by the wall clock. The batch is of the
// monotonic one: where the wall clock was set back meanwhile, the end is stated
// late enough to hold it.
func (c *cell) servingTimes(in *record.ServingCellInput) {
	from, to := c.header.Clock.WallStartUnixNS, int64(0)
	if c.measurement != nil {
		from, to = c.measurement.Phase.StartedAtUnixNS, c.measurement.Phase.FinishedAtUnixNS
	}
	in.StartedAt = time.Unix(0, from).UTC()
	end := time.Unix(0, max(to, from+int64(math.Ceil(c.wallMS*nsPerMS)))).UTC()
	in.CompletedAt = &end
	if c.wallMS > 0 {
		in.BatchDurationSeconds = new(c.wallMS / msPerS)
	}
}

// servingStatus: a completed record has a timing and a grade for every case. A
// phase that ended without them, or that a void limitation applies to, is no
// evidence of that kind.
func (c *cell) servingStatus(in *record.ServingCellInput, set stage.LimitationSet) string {
	if c.out.Status != "completed" {
		return "aborted"
	}
	whole := func(k record.ServingCellCase) bool {
		return k.DurationMS != nil && (k.Outcome == "pass" || k.Outcome == "fail")
	}
	for _, k := range in.Cases {
		if !whole(k) {
			return "invalid"
		}
	}
	if slices.ContainsFunc(set, func(l stage.Limitation) bool { return l.Severity == stage.Void }) {
		return "invalid"
	}
	return "completed"
}
