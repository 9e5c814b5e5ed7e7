package derive

import (
	"fmt"
	"time"

	"anvil/pipeline/stage"
	"anvil/stages/internal/load"
	"anvil/stages/record"
)

// checkSchedule makes schedule.json again: the load and the seed are those of the
// phase, and a request was due when its attempt says. What never began has no
// such moment, and only the order of the times around it witnesses its own.
func (v *validation) checkSchedule(p *phase, a stage.Artifact) error {
	duration, err := lasting(p.load.Duration)
	if err != nil {
		return err
	}
	want := map[string]any{
		"client": p.header.Client, "clients": 1, "mode": p.load.Mode, "arrival": nil, "stream": nil, "seed": p.header.Seed,
		"planned": p.header.Planned, "duration_ns": duration, "workers": nil, "due_ns": nil, "gaps": nil,
	}
	if p.load.closed() {
		want["planned"] = p.load.Requests
		if want["workers"], err = workers(p.load); err != nil {
			return err
		}
		return v.differs(a, want, "the load")
	}
	want["arrival"] = p.load.Arrival
	if process := p.load.Arrival; process != nil && (*process == "poisson" || *process == "gamma") {
		want["stream"] = "arrivals"
	}
	stored, err := stage.Decode[struct {
		DueNS []int64 `json:"due_ns"`
	}](v.ctx, a)
	if err != nil {
		return err
	}
	delete(want, "due_ns") // compared below, by the index of each request
	want["gaps"] = load.GapsOf(stored.DueNS)
	v.checkDue(p, a, stored.DueNS)
	return v.differs(a, want, "the load and the attempts")
}

func (v *validation) checkDue(p *phase, a stage.Artifact, due []int64) {
	if n := p.seen.planned(); len(due) != n {
		v.problem(record.LevelRederived, a, "/due_ns", "rederive", len(due), n, "there is not one time for each planned request")
		return
	}
	for i, at := range due {
		pointer := fmt.Sprintf("/due_ns/%d", i)
		if want, ok := p.seen.due[i]; ok && want != at {
			v.problem(record.LevelRederived, a, pointer, "rederive", at, want, "the attempt was due at another time")
		}
		if i > 0 && at < due[i-1] {
			v.problem(record.LevelRederived, a, pointer, "rederive", at, nil, "it is due before the request that precedes it")
		}
	}
}

func workers(l phaseLoad) ([]int64, error) {
	ramp, err := lasting(&l.Ramp)
	switch {
	case err != nil:
		return nil, err
	case l.Concurrency < 1 || l.Concurrency > load.MaxArrivals: // as no plan has: room is made for them
		return nil, fmt.Errorf("the load of the attempts has %d workers", l.Concurrency)
	case ramp == nil:
		ramp = new(int64)
	}
	return load.Starts(l.Concurrency, *ramp), nil
}

// lasting is a duration in ns; nil for none.
func lasting(text *string) (*int64, error) {
	if text == nil || *text == "" {
		return nil, nil
	}
	d, err := time.ParseDuration(*text)
	if err != nil {
		return nil, fmt.Errorf("the load of the attempts: %w", err)
	}
	return new(int64(d)), nil
}
