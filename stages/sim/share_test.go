package sim_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"anvil/stages/internal/kindtest"
	"anvil/stages/measure"
	"anvil/stages/record"
)

// A share of 1 is every request, however few tokens a request allows and however
// the engine packs them, in every variant of the fault.
func TestEveryRequestOfAShareOf1HasItsOutcome(t *testing.T) {
	const requests = 6 // as many as any outcome has variants
	engines := map[string]map[string]any{
		"a token an event":       {},
		"5 an event, 3 thoughts": {"tokens_per_event": 5, "reasoning_tokens": 3},
		"nothing but thoughts":   {"reasoning_tokens": 300},
	}
	words := func(n int) map[string]any { return map[string]any{"response_words": n, "controlled_output": "strict"} }
	canaries := map[string]any{"canaries": true}
	for _, tc := range []struct {
		outcome  record.Outcome
		workload map[string]any
		limits   map[string]any
		room     int // tokens without which no answer holds what is asked for
	}{
		{outcome: record.OutcomeRefusedLoad},
		{outcome: record.OutcomeHTTPError},
		{outcome: record.OutcomeInBandError},
		{outcome: record.OutcomeMalformed},
		{outcome: record.OutcomeCut},
		{outcome: record.OutcomeStalledFirst, limits: map[string]any{"first_output": "60ms"}},
		{outcome: record.OutcomeStalledMid, limits: map[string]any{"gap": "60ms"}},
		{outcome: record.OutcomeTotalTimeout, limits: map[string]any{"total": "150ms"}},
		{outcome: record.OutcomeTransport},
		{outcome: record.OutcomeEmpty},
		{outcome: record.OutcomeEmpty, workload: canaries},
		{outcome: record.OutcomeTruncated},
		{outcome: record.OutcomeTruncated, workload: canaries, room: 16},
		{outcome: record.OutcomeTruncated, workload: words(8), room: 256},
		{outcome: record.OutcomeCanaryFailed, workload: canaries},
		{outcome: record.OutcomeLengthMismatch, workload: words(1)},
		{outcome: record.OutcomeLengthMismatch, workload: words(3)},
	} {
		for name, engine := range engines {
			caps := []int{1, 2, 16, 256}
			if tc.outcome == record.OutcomeLengthMismatch {
				caps = append(caps, 9) // those of 3 code words
			}
			for _, cap := range caps {
				if cap < tc.room || tc.room > 0 && engine["reasoning_tokens"] != nil {
					continue
				}
				t.Run(fmt.Sprintf("%s %v in %d tokens, %s", tc.outcome, tc.workload, cap, name), func(t *testing.T) {
					t.Parallel()
					sim := map[string]any{"decode_tok_s": 1e5, "prefill_tok_s": 1e6, "seed": 1, "faults": map[string]any{string(tc.outcome): 1}}
					maps.Copy(sim, engine)
					load := map[string]any{"source": "synthetic", "context_tokens": 16}
					maps.Copy(load, tc.workload)
					limits := tc.limits
					if limits == nil {
						limits = map[string]any{}
					}
					out, err := kindtest.New(t, measure.Kind, map[string]any{"sim": sim}, map[string]any{
						"load":     map[string]any{"mode": "closed", "concurrency": requests, "requests": requests},
						"workload": load, "max_tokens": cap, "limits": limits, "gate": map[string]any{"canary": false},
					}).Run(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					var m record.Measurement
					if err := json.NewDecoder(bytes.NewReader(out.Documents["measurement.json"])).Decode(&m); err != nil {
						t.Fatal(err)
					}
					if got := m.Accounting.Outcomes[tc.outcome]; got != requests {
						t.Errorf("%d of %d requests: %v", got, requests, m.Accounting.Outcomes)
					}
				})
			}
		}
	}
}
