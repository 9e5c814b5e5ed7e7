package sim_test

import (
	"fmt"

	"anvil/stages/sim"
)

// One slot: the second request waits until the first is done, and the third
// finds the queue full.
func ExamplePlan() {
	cfg := sim.DefaultConfig()
	cfg.Slots, cfg.Queue, cfg.PrefillTokS, cfg.DecodeTokS = 1, 1, 1000, 10
	for _, t := range sim.Plan(cfg, []sim.Arrival{
		{At: 0, Prompt: 500, Content: 2},
		{At: 1, Prompt: 500, Cached: 400, Content: 1},
		{At: 2, Prompt: 500, Content: 1},
	}) {
		fmt.Println(t.Refused, t.Begin, t.Events, t.End)
	}
	// Output:
	// false 0s [600ms 700ms] 700ms
	// false 700ms [900ms] 900ms
	// true 0s [] 0s
}
