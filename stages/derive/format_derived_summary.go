package derive

import (
	"context"
	"errors"
	"fmt"

	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// A DerivedSummaryConfig asks for derived-summary.json.
type DerivedSummaryConfig struct {
	CacheCaveat       string `json:"cache_caveat"`
	P99Interpretation string `json:"p99_interpretation"`
}

var derivedSummaryFormat = Format{
	Name: "derived-summary.json", Schema: record.DerivedSummarySchema, Optional: true,
	Wanted: func(c SummarizeConfig) bool { return c.DerivedSummary != nil },
	Build:  (*Summary).derivedSummary,
}

// derivedSummary copies from the one benchmark record of the inputs.
func (s *Summary) derivedSummary(set stage.LimitationSet) ([]byte, error) {
	if s.source.err != nil {
		return nil, s.source.err
	}
	if err := s.summaryWithheld(set); err != nil {
		return nil, err
	}
	c := s.config.DerivedSummary
	return record.BuildDerivedSummary(s.source.bytes, s.source.artifact.Name, c.CacheCaveat, c.P99Interpretation)
}

// A summarySource is the benchmark record that a summary copies from, or why
// there is none.
type summarySource struct {
	artifact stage.Artifact
	bytes    []byte
	err      error
}

// readSource reads the benchmark record before the summary is built: it must
// be one.
func readSource(ctx context.Context, benchmarks []stage.Artifact) (s summarySource, err error) {
	switch len(benchmarks) {
	case 0:
		s.err = errors.New("no benchmark record stands in the evidence: a closed loop that sends a request writes one")
		return s, nil
	case 1:
		s.artifact = benchmarks[0]
		s.bytes, err = benchmarks[0].Bytes(ctx)
		return s, err
	}
	s.err = fmt.Errorf("%d benchmark records stand in the evidence, a derived summary has one source", len(benchmarks))
	return s, nil
}
