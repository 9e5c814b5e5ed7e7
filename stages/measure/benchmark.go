package measure

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"anvil/pipeline/stage"
	"anvil/stages/derive"
	"anvil/stages/record"
)

const (
	benchmarkName = "benchmark.json"
	liveName      = "live-http-run.json"
)

// papers are the records of other producers' kinds that a phase is written as.
// Everything in them follows from the attempts and the measurement.
type papers struct{ record.Following }

// add takes an attempt without its text: all texts may be larger than the memory.
func (p *papers) add(a *record.Attempt, closed bool) {
	bare := *a
	bare.Text = nil
	p.Add(&bare, closed)
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
	sent, _ := w.target.SentSampling(m.Sampling, m.raw.sampling)
	in := record.BenchmarkInput{
		Protocol: m.Protocol, StartedUnixNS: phase.StartedAtUnixNS, FinishUnixNS: phase.FinishedAtUnixNS, WallClockMS: phase.WallClockMS,
		ClockDomainID: m.ClockDomainID, BaseURL: w.recordURL(), Model: w.target.Model(),
		Concurrency: m.Load.Concurrency, ContextSeed: m.Workload.Seed, MaxContextTokens: w.scout.ContextWindow, MaxTokens: w.outputCap(),
		ResponseWords: m.Workload.ResponseWords, ControlledOutputPolicy: cmp.Or(m.Workload.ControlledOutput, "observe"),
		PromptCacheMode: cmp.Or(m.Workload.CacheMode, "unique"), SharedPrefixTokens: m.Workload.SharedPrefixTokens, RequestCanaries: m.Workload.Canaries,
		Temperature:     record.SamplingInput{Requested: sent.TemperatureRequested, Effective: sent.Temperature},
		TopP:            record.SamplingInput{Requested: sent.TopP, Effective: sent.TopP},
		ThinkingMode:    m.Sampling.Thinking,
		ReasoningEffort: sent.ReasoningEffort, NoThinking: m.Sampling.Thinking == "disabled",
		TimingMethodology: methodology(), Rows: p.Rows, Failures: p.Failures,
	}
	if m.Workload.Synthetic() && m.Workload.ContextTokens.Fixed > 0 {
		in.ContextTokens = &m.Workload.ContextTokens.Fixed
	}
	if w.target.Simulated {
		engine, gpu := record.SimulatedEngine(cmp.Or(w.target.SimVersion, "of unknown version")), record.SimulatedGPU
		in.Engine, in.GPU = &engine, &gpu
	}
	raw, err := record.BuildBenchmark(in)
	if err != nil {
		return err
	}
	_, err = to.Write(raw)
	return err
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
		ClientShed: p.Shed, DurationS: float64(p.LastEnd) / 1e9, TTFTSLOMS: w.measure.Objectives.TTFTMS,
		Context: record.LiveContext{
			Model:   w.target.Model(),
			Sources: []record.NamedDigest{{Name: "anvil", SHA256: w.env.Tool.BinarySHA256.String()}},
			Scope:   derive.LiveScope,
		},
	}
	command := "anvil plan run: stage " + w.env.Stage + " of plan " + w.env.Plan.Name
	in.Context.Command = &command
	if w.target.Simulated {
		device := record.SimulatedDevice
		in.Context.Device, in.Limits = &device, record.LiveLimitsSimulated
	}
	for i, r := range p.Live() {
		if r.Error == "" && w.measure.StoreText {
			r.LateText = func() (*string, error) { return w.text(i) }
		}
		in.Requests = append(in.Requests, r)
	}
	return record.WriteLiveRun(to, in)
}

// text decodes a request once more for its text.
func (w *witness) text(i int) (*string, error) {
	a, err := w.drive.Attempt(i)
	if err != nil {
		return nil, fmt.Errorf("decode request %d: %w", i, err)
	}
	return a.Text, nil
}
