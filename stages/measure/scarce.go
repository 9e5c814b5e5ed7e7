package measure

import (
	"encoding/json"
	"fmt"

	"anvil/pipeline/stage"
	"anvil/stages/internal/load"
)

// A scarceError says that a load is owed more requests than there are: of a
// dataset, the same row asked again would find the engine's cache warm; of
// steps, nothing says when the others would be due.
type scarceError struct{ text, hint string }

func (e *scarceError) Error() string { return e.text + "; " + e.hint }

func fewRows(requests, rows int) *scarceError {
	return &scarceError{
		fmt.Sprintf("%d requests are planned and the dataset has %d rows over all epochs", requests, rows),
		"raise workload.epochs or lower load.requests",
	}
}

func fewRowsInTime(rows int) *scarceError {
	return &scarceError{
		fmt.Sprintf("more requests are due than the dataset has rows over all epochs, %d", rows),
		"raise workload.epochs, or lower the rate or load.duration",
	}
}

func fewArrivals(requests, due int) *scarceError {
	return &scarceError{
		fmt.Sprintf("%d requests are planned and the arrivals end after %d", requests, due),
		"lower load.requests or lengthen the steps",
	}
}

// resolveScarce refuses such a load while the plan is read. Prompts is how many
// there are, -1 for no end.
func resolveScarce(r *stage.Resolution, prompts int) {
	l, ok := declared(r.With)
	if !ok {
		return
	}
	switch {
	case l.Requests != nil && prompts >= 0 && *l.Requests > prompts:
		tell(r, "/load/requests", fewRows(*l.Requests, prompts))
	case l.closed() || l.Trace != nil:
	case l.Requests != nil && l.Arrival == "step":
		due, err := l.arrival(load.Plan{Requests: *l.Requests}).Schedule(nil)
		if err == nil && len(due) < *l.Requests {
			tell(r, "/load/requests", fewArrivals(*l.Requests, len(due)))
		}
	case l.Duration != nil && prompts >= 0 && (l.Rate > 0 || l.Arrival == "ramp" || l.Arrival == "step"):
		if m := (measure{config{Load: l}}); m.outgrows(r.With, prompts) {
			tell(r, "/load/duration", fewRowsInTime(prompts))
		}
	}
}

func tell(r *stage.Resolution, pointer string, e *scarceError) { r.Problem(pointer, e.text, e.hint) }

// declared is the load of a configuration; false where the schema has told what
// is wrong with it.
func declared(with map[string]any) (l loadConfig, ok bool) {
	raw, err := json.Marshal(with["load"])
	return l, err == nil && json.Unmarshal(raw, &l) == nil && (l.Requests == nil) != (l.Duration == nil)
}

// outgrows tells whether an open loop that time ends is owed more than that many
// requests. One more decides it, but for a ramp, whose length a count would set.
func (m measure) outgrows(with map[string]any, prompts int) bool {
	w, _ := with["workload"].(map[string]any)
	seed, _ := w["seed"].(json.Number)
	m.Workload.Seed, _ = seed.Int64()
	a := m.Load.arrival(load.Plan{Duration: m.Load.Duration.Std()})
	if a.Process != "ramp" {
		a.Requests = prompts + 1
	}
	due, err := a.Schedule(m.draws(arrivalStream))
	return err == nil && len(due) > prompts
}
