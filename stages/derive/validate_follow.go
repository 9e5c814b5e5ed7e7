package derive

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// ofStage finds what the stage made under a name.
func (v *validation) ofStage(id, name string) (stage.Artifact, bool) {
	all := v.artifacts()
	i := slices.IndexFunc(all, func(a stage.Artifact) bool { return a.Stage == id && a.Name == name })
	if i < 0 {
		return stage.Artifact{}, false
	}
	return all[i], true
}

// checkBenchmark makes the record of a closed loop again: it follows from the
// attempts, the measurement and the configuration.
func (v *validation) checkBenchmark(p *phase, a stage.Artifact) error {
	stored, err := v.object(a)
	if err != nil {
		return err
	}
	sampling, known := p.sampling()
	m := p.measurement
	in := record.BenchmarkInput{
		Protocol: p.header.Request.Protocol, StartedUnixNS: m.Phase.StartedAtUnixNS, FinishUnixNS: m.Phase.FinishedAtUnixNS, WallClockMS: m.Phase.WallClockMS,
		ClockDomainID: p.config.ClockDomainID, BaseURL: "embedded", Model: p.header.Endpoint.Model,
		Concurrency: p.load.Concurrency, ContextSeed: p.header.Seed, MaxContextTokens: m.ServedWindow, MaxTokens: p.header.Request.MaxTokens,
		ResponseWords: p.workload.ResponseWords, ControlledOutputPolicy: cmp.Or(p.workload.ControlledOutput, "observe"),
		PromptCacheMode: cmp.Or(p.workload.CacheMode, "unique"), SharedPrefixTokens: p.workload.SharedPrefixTokens, RequestCanaries: p.workload.Canaries,
		Temperature:  record.SamplingInput{Requested: sampling.TemperatureRequested, Effective: sampling.Temperature},
		TopP:         record.SamplingInput{Requested: sampling.TopP, Effective: sampling.TopP},
		ThinkingMode: p.config.Sampling.Thinking, NoThinking: p.config.Sampling.Thinking == "disabled", ReasoningEffort: sampling.ReasoningEffort,
		Rows: p.following.Rows, Failures: p.following.Failures,
	}
	if url := p.header.Endpoint.BaseURL; url != nil {
		in.BaseURL = *url
	}
	if n := p.workload.ContextTokens.Fixed; p.workload.Synthetic() && n > 0 {
		in.ContextTokens = &n
	}
	if m.Simulated {
		in.Engine, in.GPU = new(p.engine(stored)), new(record.SimulatedGPU)
	}
	doc, err := record.BuildBenchmark(in)
	if err != nil {
		return err
	}
	except := []string{}
	if !known {
		except = append(except, "sampling", "serve_flags")
	}
	if !p.sized {
		except = append(except, "context_distribution")
	}
	if !p.known() {
		except = append(except, "timing_methodology", "timestamp_precision")
	}
	return v.sameAgain(p, a, stored, doc, except...)
}

// sentSampling is the part of a sampling that a benchmark record repeats.
type sentSampling struct {
	Temperature          *float64 `json:"temperature"`
	TemperatureRequested *float64 `json:"temperature_requested"`
	TopP                 *float64 `json:"top_p"`
	ReasoningEffort      *string  `json:"reasoning_effort"`
}

// sampling is what was sent; known is false where extra_body put values of a type
// that no server takes in its place, and nobody knows what became of it.
func (p *phase) sampling() (s sentSampling, known bool) {
	return s, again(p.header.Request.Sampling, &s) == nil
}

// engine is how the record names the simulator. Of one behind a base_url, and of
// one whose client was killed, the attempts do not tell the version.
func (p *phase) engine(stored map[string]any) string {
	if said, ok := stored["engine"].(string); ok && strings.HasPrefix(said, record.SimulatedEngine("")) && (p.header.Endpoint.BaseURL != nil || p.killed()) {
		return said
	}
	var tool struct {
		Version string `json:"version"`
	}
	if again(p.measurement.Tool, &tool) != nil {
		return record.SimulatedEngine("")
	}
	return record.SimulatedEngine(cmp.Or(tool.Version, "of unknown version"))
}

// LiveScope is what every live run says of itself under MeasureContract.
const LiveScope = "One open-loop phase of one plan; the run's record says what may be concluded."

// checkLive makes the record of an open loop again.
func (v *validation) checkLive(p *phase, a stage.Artifact) error {
	stored, err := v.object(a)
	if err != nil {
		return err
	}
	in := record.LiveRunInput{
		ClientShed: p.following.Shed, DurationS: float64(p.following.LastEnd) / 1e9, TTFTSLOMS: p.config.Objectives.TTFTMS,
		Requests: p.following.Requests(),
		Context: record.LiveContext{
			Model: p.header.Endpoint.Model, Command: new(p.command(v.final, stored)), Sources: p.sources(stored), Scope: LiveScope,
		},
	}
	if p.measurement.Simulated {
		in.Context.Device, in.Limits = new(record.SimulatedDevice), record.LiveLimitsSimulated
	}
	doc, err := record.BuildLiveRun(in)
	if err != nil {
		return err
	}
	nameTexts(stored["requests"])
	if !p.known() {
		return v.sameAgain(p, a, stored, doc, "limits", "run_context")
	}
	return v.sameAgain(p, a, stored, doc)
}

// command is what the client was called by. A phase that was taken over may be of
// another plan, which only the document names.
func (p *phase) command(final *record.Final, stored map[string]any) string {
	command := "anvil plan run: stage " + p.made.Stage + " of plan "
	run, _ := stored["run_context"].(map[string]any)
	said, _ := run["command"].(string)
	reused := slices.ContainsFunc(final.Limitations, func(l stage.Limitation) bool { return l.Origin == stage.OriginRun })
	if reused && strings.HasPrefix(said, command) {
		return said
	}
	return command + final.Plan.Name
}

// sources is the client's own program; after a kill it is that of who decoded.
func (p *phase) sources(stored map[string]any) []record.NamedDigest {
	var tool struct {
		BinarySHA256 string `json:"binary_sha256"`
	}
	if again(p.measurement.Tool, &tool) != nil {
		return nil
	}
	run, _ := stored["run_context"].(map[string]any)
	sums, _ := run["source_sha256"].(map[string]any)
	if said, ok := sums["anvil"].(string); ok && p.killed() {
		tool.BinarySHA256 = said
	}
	return []record.NamedDigest{{Name: "anvil", SHA256: tool.BinarySHA256}}
}

func (v *validation) object(a stage.Artifact) (map[string]any, error) {
	src, err := a.Bytes(v.ctx)
	if err != nil {
		return nil, err
	}
	doc, err := decodeNumbers(src)
	if err != nil {
		return nil, err
	}
	m, ok := doc.(map[string]any)
	if !ok {
		return nil, errors.New("it is no object")
	}
	return m, nil
}

// sameAgain compares a document with what was made again, but for the members that
// nothing here determines.
func (v *validation) sameAgain(p *phase, a stage.Artifact, stored map[string]any, doc []byte, except ...string) error {
	made, err := decodeNumbers(doc)
	if err != nil {
		return err
	}
	computed, ok := made.(map[string]any)
	if !ok {
		return errors.New("what follows is no object")
	}
	for _, name := range except {
		delete(stored, name)
		delete(computed, name)
	}
	if !p.sized {
		withoutSizes(stored)
		withoutSizes(computed)
	}
	compareTrees("", stored, computed, func(pointer string, s, c any, text string) {
		v.problem(record.LevelRederived, a, pointer, "rederive", s, c, "%s from the attempts and the configuration", text)
	})
	return nil
}

// named puts the digest of a text in its place: those of a phase may be many, and
// a report needs none of them.
func named(text *string) *string {
	if text == nil {
		return nil
	}
	return new(digest.FromBytes([]byte(*text)).String())
}

// nameTexts is named for the rows of a stored live run.
func nameTexts(requests any) {
	rows, _ := requests.([]any)
	for _, r := range rows {
		if row, ok := r.(map[string]any); ok {
			if text, ok := row["text"].(string); ok {
				row["text"] = *named(&text)
			}
		}
	}
}

// withoutSizes takes the sizes for which the prompts were made out of the rows
// and failures of a benchmark record.
func withoutSizes(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "planned_context_tokens")
		for _, e := range v {
			withoutSizes(e)
		}
	case []any:
		for _, e := range v {
			withoutSizes(e)
		}
	}
}
