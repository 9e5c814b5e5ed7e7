package record

import (
	"bytes"
	"slices"
	"testing"
)

// A copy of a simulated record must not lose one of the two places that say so.
func TestSimulatedRecordsSayItTwice(t *testing.T) {
	run := func(device *string, limits string) []byte {
		doc, err := BuildLiveRun(LiveRunInput{DurationS: 1, Limits: limits, Context: LiveContext{Model: "m", Device: device}})
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	cell := func(engine, gpu *string) []byte {
		doc, err := BuildBenchmark(BenchmarkInput{
			Protocol: "capacity-v4-reasoning", StartedUnixNS: 1e18, FinishUnixNS: 1e18 + 5e8, WallClockMS: 500, BaseURL: "embedded", Model: "m", Engine: engine, GPU: gpu,
			Concurrency: 1, MaxTokens: 4, ControlledOutputPolicy: "observe", PromptCacheMode: "unique", ThinkingMode: "default",
			Failures: []BenchmarkFailure{{Class: "request_error", ErrorType: "transport", ErrorMessage: "x", ElapsedMS: 1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	sim, none := new(SimulatedEngine("1")), new(SimulatedGPU)
	for name, c := range map[string]struct {
		doc  []byte
		rule string
	}{
		"a simulated cell":         {cell(sim, none), ""},
		"a cell":                   {cell(nil, nil), ""},
		"another engine's cell":    {cell(new("vllm"), new("H100")), ""},
		"only the engine":          {cell(sim, new("H100")), "simulated.device"},
		"the engine, nothing else": {cell(sim, nil), "simulated.device"},
		"only the accelerator":     {cell(new("vllm"), none), "simulated.engine"},
		"a simulated run":          {run(new(SimulatedDevice), LiveLimitsSimulated), ""},
		"a run":                    {run(nil, ""), ""},
		"only the device":          {run(new(SimulatedDevice), ""), "simulated.limits"},
		"only the limits":          {run(new("H100"), LiveLimitsSimulated), "simulated.device"},
		"the limits and no device": {run(nil, LiveLimitsSimulated), "simulated.device"},
	} {
		t.Run(name, func(t *testing.T) {
			r := CheckReader("x.json", bytes.NewReader(c.doc), Options{})
			var rules []string
			for _, p := range r.Problems {
				rules = append(rules, p.Rule)
			}
			if c.rule == "" && len(rules) > 0 || c.rule != "" && !slices.Equal(rules, []string{c.rule}) {
				t.Errorf("rules %v, want %q", rules, c.rule)
			}
		})
	}
}
