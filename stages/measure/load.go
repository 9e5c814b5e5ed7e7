package measure

import (
	"fmt"
	"math/rand/v2"
	"time"

	"anvil/pipeline/stage"
	"anvil/stages/internal/load"
	"anvil/stages/internal/target"
)

// loadConfig is the plan key load, in all its modes.
type loadConfig struct {
	Mode        string           `json:"mode"`
	Concurrency int              `json:"concurrency"`
	Ramp        target.Duration  `json:"ramp"`
	Requests    *int             `json:"requests"`
	Duration    *target.Duration `json:"duration"`

	Arrival     string  `json:"arrival"`
	MaxInFlight *int    `json:"max_in_flight"`
	Shed        bool    `json:"shed"`
	Pacing      string  `json:"pacing"`
	Rate        float64 `json:"rate"`
	CV          float64 `json:"cv"`
	Size        int     `json:"size"`
	RateFrom    float64 `json:"rate_from"`
	RateTo      float64 `json:"rate_to"`
	Steps       []struct {
		Rate     float64         `json:"rate"`
		Duration target.Duration `json:"duration"`
	} `json:"steps"`
	Trace *traceConfig `json:"trace"`
}

func (l loadConfig) closed() bool { return l.Mode == "closed" }

// arrivalStream names the random stream of the arrivals.
const arrivalStream = "arrivals"

// plan computes the load before the start. Prompts is how many there are, -1
// for no end: a dataset is not gone through twice unless it says epochs, and a
// closed loop that time should end ends when it is used up. Due are the arrivals
// of a trace, nil where the load is none.
func (m measure) plan(prompts int, due []int64) (load.Plan, error) {
	p := load.Plan{Drain: m.Drain.Std()}
	if m.Load.Requests != nil {
		p.Requests = *m.Load.Requests
	}
	if m.Load.Duration != nil {
		p.Duration = m.Load.Duration.Std()
	}
	if prompts >= 0 && p.Requests > prompts { // here and below: the file was changed since the plan was read
		return p, fewRows(p.Requests, prompts)
	}
	if m.Load.closed() {
		p.Workers = load.Starts(m.Load.Concurrency, int64(m.Load.Ramp))
		return p, nil
	}
	if m.Load.Trace == nil {
		var err error
		if due, err = m.Load.arrival(p).Schedule(m.draws(arrivalStream)); err != nil {
			return p, fmt.Errorf("schedule: %w", err)
		}
	}
	switch {
	case len(due) < p.Requests:
		return p, fewArrivals(p.Requests, len(due))
	case prompts >= 0 && len(due) > prompts:
		return p, fewRowsInTime(prompts)
	}
	p.Due, p.Shed, p.Precise = due, m.Load.Shed, m.Load.Pacing == "precise"
	if p.Due == nil {
		p.Due = []int64{}
	}
	if m.Load.MaxInFlight != nil {
		p.InFlight = *m.Load.MaxInFlight
	}
	return p, nil
}

// draws returns the workload's random stream of that name.
func (m measure) draws(name string) *rand.Rand {
	return stage.Env{Seed: stage.SeedOf(m.Workload.Seed)}.Rand(name)
}

func (l loadConfig) arrival(p load.Plan) load.Arrival {
	a := load.Arrival{
		Process: l.Arrival, Rate: l.Rate, CV: l.CV, Size: l.Size, From: l.RateFrom, To: l.RateTo,
		Requests: p.Requests, Duration: p.Duration,
	}
	for _, s := range l.Steps {
		a.Steps = append(a.Steps, load.Step{Rate: s.Rate, Duration: s.Duration.Std()})
	}
	return a
}

// planned is how many requests are known before the start; false where only
// time ends a closed loop.
func planned(p load.Plan) (int, bool) {
	switch {
	case p.Workers == nil:
		return len(p.Due), true
	case p.Requests > 0:
		return p.Requests, true
	}
	return 0, false
}

// schedule is schedule.json.
type schedule struct {
	Schema     string     `json:"schema"`
	Client     string     `json:"client"`
	Clients    int        `json:"clients"`
	Mode       string     `json:"mode"`
	Arrival    *string    `json:"arrival"`
	Planned    *int       `json:"planned"`
	DurationNS *int64     `json:"duration_ns"`
	Seed       int64      `json:"seed"`
	Stream     *string    `json:"stream"`
	Workers    []int64    `json:"workers"`
	DueNS      []int64    `json:"due_ns"`
	Gaps       *load.Gaps `json:"gaps"`
}

func (m measure) schedule(p load.Plan, n int, known bool) schedule {
	s := schedule{
		Schema: string(scheduleSchema), Client: "c0", Clients: 1, Mode: m.Load.Mode, Seed: m.Workload.Seed,
		Workers: p.Workers, DueNS: p.Due, Gaps: load.GapsOf(p.Due),
	}
	if known {
		s.Planned = &n
	}
	if p.Duration > 0 {
		ns := int64(p.Duration)
		s.DurationNS = &ns
	}
	if !m.Load.closed() {
		arrival := m.Load.Arrival
		s.Arrival = &arrival
		if arrival == "poisson" || arrival == "gamma" {
			stream := arrivalStream
			s.Stream = &stream
		}
	}
	return s
}

// cancel chooses the requests that are given up, each by a draw of its own, so
// that the choice does not depend on their order. Nil: none are.
func (m measure) cancel() func(i int) time.Duration {
	if m.Cancel.Share == 0 {
		return nil
	}
	return func(i int) time.Duration {
		if m.draws(fmt.Sprintf("cancel/%d", i)).Float64() >= m.Cancel.Share {
			return 0
		}
		return max(m.Cancel.AfterOutput.Std(), 1)
	}
}
