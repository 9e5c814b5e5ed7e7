package measure

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"anvil/pipeline/stage"
	"anvil/stages/internal/prompt"
	"anvil/stages/record"
)

const (
	benchmarkName = "benchmark.json"
	liveName      = "live-http-run.json"
)

// papers are the records of other producers' kinds that a phase is written as.
// Everything in them follows from the attempts and the measurement.
type papers struct {
	rows     []record.BenchmarkRow
	failures []record.BenchmarkFailure
	live     []liveRow
	shed     int
	lastEnd  int64
}

type liveRow struct {
	index int
	record.LiveRequest
}

// noContent is what both kinds say of an answer that ended well without
// anything visible.
const noContent = "stream completed without visible content"

func (p *papers) add(a *record.Attempt, closed bool) {
	if a.T.End != nil {
		p.lastEnd = max(p.lastEnd, *a.T.End)
	}
	if !closed {
		p.addLive(a)
		return
	}
	row := benchmarkRow(a)
	if a.Outcome.Success() && row.TTFTMS != nil {
		p.rows = append(p.rows, row)
		return
	}
	p.failures = append(p.failures, failure(a, row))
}

// millis is the time from the start of the request.
func millis(a *record.Attempt, at *int64) *float64 {
	if at == nil || a.T.Start == nil {
		return nil
	}
	ms := float64(*at-*a.T.Start) / 1e6
	return &ms
}

func benchmarkRow(a *record.Attempt) record.BenchmarkRow {
	row := record.BenchmarkRow{
		Index: a.Index, PromptTokens: a.Usage.Input, OutputTokens: a.Usage.Output, CachedTokens: a.Usage.Cached,
		FirstOutputMS: millis(a, a.T.FirstOutput), TTFTMS: millis(a, a.T.FirstContent),
		VisibleContentTruncated: a.TextTruncated, Canary: a.Canary, ControlledOutput: a.ControlledOutput,
	}
	if a.PlannedInputTokens != nil {
		row.PlannedContextTokens = *a.PlannedInputTokens
	}
	if e2e := millis(a, a.T.End); e2e != nil {
		row.E2EMS = *e2e
	}
	for _, kind := range a.ArrivalKinds {
		switch kind {
		case 'r':
			row.ReasoningChunks++
		case 'c':
			row.ContentChunks++
		}
	}
	return row
}

// failure books an attempt by the table of streams.md 5.
func failure(a *record.Attempt, row record.BenchmarkRow) record.BenchmarkFailure {
	f := record.BenchmarkFailure{Index: a.Index, PlannedContextTokens: row.PlannedContextTokens, ElapsedMS: row.E2EMS}
	f.ErrorType = string(a.Outcome)
	if a.Error != nil {
		f.ErrorMessage = a.Error.Message
	}
	received := false
	switch a.Outcome {
	case record.OutcomeOK, record.OutcomeTruncated, record.OutcomeEmpty:
		f.Class, f.ErrorMessage, received = "stream_validation_failed", noContent, true
	case record.OutcomeInBandError, record.OutcomeMalformed, record.OutcomeCut:
		f.Class = "stream_validation_failed"
	case record.OutcomeCanaryFailed:
		f.Class, received = "request_canary_failed", true
	case record.OutcomeLengthMismatch:
		f.Class, received = "controlled_output_failed", true
	case record.OutcomeClientShed, record.OutcomeClientAbort, record.OutcomeNotStarted:
		f.Class = "runner_error"
	default:
		f.Class = "request_error"
	}
	if received {
		f.Answer = &record.BenchmarkAnswer{Timing: row, FinishReasons: a.FinishReasons, TerminalObserved: a.DoneMarker}
	}
	return f
}

func (p *papers) addLive(a *record.Attempt) {
	if a.Outcome == record.OutcomeClientShed {
		p.shed++
		return
	}
	row := liveRow{index: a.Index}
	ttft := millis(a, a.T.FirstContent)
	if e2e := millis(a, a.T.End); e2e != nil {
		row.E2EMS = *e2e
	}
	if !a.Outcome.Success() || ttft == nil {
		row.Error = string(a.Outcome)
		if a.Outcome.Success() {
			row.Error = noContent
		} else if a.Error != nil {
			row.Error += ": " + a.Error.Message
		}
		p.live = append(p.live, row)
		return
	}
	row.TTFTMS = *ttft
	row.EventGapsMS = contentGaps(a)
	p.live = append(p.live, row)
}

// contentGaps are the times between events with visible content.
func contentGaps(a *record.Attempt) []float64 {
	var gaps []float64
	at, before := int64(0), int64(-1)
	for i, kind := range a.ArrivalKinds {
		at += a.Arrivals[i]
		if kind != 'c' {
			continue
		}
		if before >= 0 {
			gaps = append(gaps, float64(at-before)/1e6)
		}
		before = at
	}
	return gaps
}

// write publishes the one that fits the load; a phase without a request, or
// without streams, has neither.
func (p *papers) write(w *witness, out *stage.Outputs) error {
	if w.planned == 0 {
		return nil
	}
	if why := w.unpublished(); why != nil {
		for name, reason := range why {
			w.env.Log.Info().Msgf("%s is not written: %s", name, reason)
		}
		return nil
	}
	name, build := liveName, p.buildLive
	if w.measure.Load.closed() {
		name, build = benchmarkName, p.buildBenchmark
	}
	f, err := out.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(build(w, f), f.Close())
}

func (p *papers) buildBenchmark(w *witness, to io.Writer) error {
	m, phase := w.measure, w.measurement().Phase
	in := record.BenchmarkInput{
		Protocol: m.Protocol, StartedUnixNS: phase.StartedAtUnixNS, FinishUnixNS: phase.FinishedAtUnixNS, WallClockMS: phase.WallClockMS,
		ClockDomainID: m.ClockDomainID, BaseURL: w.recordURL(), Model: w.target.Model(),
		Concurrency: m.Load.Concurrency, ContextSeed: m.Workload.Seed, MaxContextTokens: w.scout.ContextWindow, MaxTokens: w.outputCap(),
		ResponseWords: m.Workload.ResponseWords, ControlledOutputPolicy: cmp.Or(m.Workload.ControlledOutput, "observe"),
		PromptCacheMode: cmp.Or(m.Workload.CacheMode, "unique"), SharedPrefixTokens: m.Workload.SharedPrefixTokens, RequestCanaries: m.Workload.Canaries,
		Temperature:     record.SamplingInput{Requested: m.Sampling.TemperatureRequested, Effective: m.Sampling.Temperature},
		TopP:            record.SamplingInput{Requested: m.Sampling.TopP, Effective: m.Sampling.TopP},
		ThinkingMode:    m.Sampling.Thinking,
		ReasoningEffort: m.Sampling.ReasoningEffort, NoThinking: m.Sampling.Thinking == "disabled",
		TimingMethodology: methodology(), Rows: p.rows, Failures: p.failures,
	}
	if m.Workload.Synthetic() && m.Workload.ContextTokens.Fixed > 0 {
		in.ContextTokens = &m.Workload.ContextTokens.Fixed
	}
	if w.target.Simulated {
		engine, gpu := record.SimulatedEngine(cmp.Or(w.target.SimVersion, "of unknown version")), record.SimulatedGPU
		in.Engine, in.GPU = &engine, &gpu
	}
	p.plan(w)
	raw, err := record.BuildBenchmark(in)
	if err != nil {
		return err
	}
	_, err = to.Write(raw)
	return err
}

// plan estimates the sizes that nobody planned: the rows of a dataset are as
// long as they are, and the kind has no null there.
func (p *papers) plan(w *witness) {
	if w.measure.Workload.Synthetic() {
		return
	}
	size := func(i int) int {
		q := w.drive.Source.At(i)
		n := len(q.Text)
		for _, m := range q.Messages {
			n += len(m.Text)
		}
		ratio := w.scout.BytesPerToken
		if ratio == 0 {
			ratio = prompt.DefaultBytesPerToken
		}
		return max(int(math.Round(float64(n)/ratio)), 1)
	}
	for i := range p.rows {
		p.rows[i].PlannedContextTokens = size(p.rows[i].Index)
	}
	for i := range p.failures {
		f := &p.failures[i]
		f.PlannedContextTokens = size(f.Index)
		if f.Answer != nil {
			f.Answer.Timing.PlannedContextTokens = f.PlannedContextTokens
		}
	}
}

// methodology says where our capture differs from the original producer's.
func methodology() map[string]string {
	m := record.TimingMethodology()
	m["controlled_output"] = "adherence to the requested code words is recorded word by word over the whole visible answer; observe records only, strict makes a failure of any other output"
	return m
}

// recordURL is the endpoint without credentials; the embedded engine has no address.
func (w *witness) recordURL() string {
	if u := w.measure.Endpoint.RecordURL(); u != nil {
		return *u
	}
	return "embedded"
}

func (p *papers) buildLive(w *witness, to io.Writer) error {
	in := record.LiveRunInput{
		ClientShed: p.shed, DurationS: float64(p.lastEnd) / 1e9, TTFTSLOMS: w.measure.Objectives.TTFTMS,
		Context: record.LiveContext{
			Model:   w.target.Model(),
			Sources: []record.NamedDigest{{Name: "anvil", SHA256: w.env.Tool.BinarySHA256.String()}},
			Scope:   "One open-loop phase of one plan; the run's record says what may be concluded.",
		},
	}
	command := "anvil plan run: stage " + w.env.Stage + " of plan " + w.env.Plan.Name
	in.Context.Command = &command
	if w.target.Simulated {
		device := record.SimulatedDevice
		in.Context.Device, in.Limits = &device, record.LiveLimitsSimulated
	}
	rows := p.live
	sortByIndex(rows)
	for _, r := range rows {
		r.Error = clip(r.Error)
		if r.Error == "" && w.measure.StoreText {
			r.LateText = func() (*string, error) { return w.text(r.index) }
		}
		in.Requests = append(in.Requests, r.LiveRequest)
	}
	return record.WriteLiveRun(to, in)
}

// text decodes a request once more for its text: all of them may be larger than
// the memory.
func (w *witness) text(i int) (*string, error) {
	a, err := w.drive.Attempt(i)
	if err != nil {
		return nil, fmt.Errorf("decode request %d: %w", i, err)
	}
	return a.Text, nil
}

// clip keeps a message bounded at a rune's end.
func clip(s string) string {
	const most = 2048
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for len(s) > 0 && !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}

func sortByIndex(rows []liveRow) {
	slices.SortFunc(rows, func(a, b liveRow) int { return a.index - b.index })
}
