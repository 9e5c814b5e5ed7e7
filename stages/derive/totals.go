package derive

import (
	"fmt"

	"anvil/stages/internal/stat"
	"anvil/stages/record"
)

// figures of a whole cell, by metric id: each row of metrics.json without a
// figure has one here.
var totals = map[string]func(*tally, float64) figureValue{
	"prompt_tokens_total": func(t *tally, _ float64) figureValue { return t.total(t.tokensIn, noUsage) },
	"output_tokens_total": func(t *tally, _ float64) figureValue { return t.total(t.tokensOut, noUsage) },
	"reasoning_tokens_total": func(t *tally, _ float64) figureValue {
		return t.total(t.tokensReasoning, "the server counted no reasoning tokens apart")
	},
	"output_tokens_per_s": func(t *tally, wall float64) figureValue { return t.throughput(t.tokensOut, wall) },
	"prompt_tokens_per_s": func(t *tally, wall float64) figureValue { return t.throughput(t.tokensIn, wall) },
	"requests_per_s":      (*tally).requestRate,
	"goodput_per_s": func(t *tally, wall float64) figureValue {
		o := t.objectives
		return t.goodput("all", o.TTFTMS != nil || o.TPOTMS != nil || o.E2EMS != nil, wall)
	},
	"goodput_ttft_per_s": func(t *tally, wall float64) figureValue {
		return t.goodput("ttft", t.objectives.TTFTMS != nil, wall)
	},
	"goodput_tpot_per_s": func(t *tally, wall float64) figureValue {
		return t.goodput("tpot", t.objectives.TPOTMS != nil, wall)
	},
	"goodput_e2e_per_s": func(t *tally, wall float64) figureValue {
		return t.goodput("e2e", t.objectives.E2EMS != nil, wall)
	},
	"error_rate":                    func(t *tally, _ float64) figureValue { return t.share(t.planned - t.succeeded()) },
	"truncated_share":               func(t *tally, _ float64) figureValue { return t.share(t.outcomes[record.OutcomeTruncated]) },
	"controlled_output_exact_share": (*tally).adherenceShare,
	"cached_input_share":            (*tally).cachedShare,
	"coalesced_share":               (*tally).coalescedShare,
	"in_flight_peak":                (*tally).inFlightPeak,
	"in_flight_mean":                (*tally).inFlightMean,
	"duration_s":                    (*tally).duration,
}

const (
	nothingPlanned = "no request was planned"
	noWall         = "the duration of the phase is unknown"
	noObjective    = "the plan sets no such objective"
)

// total sums what every success reported.
func (t *tally) total(c counter, none string) figureValue {
	v := figureValue{value: float64(c.sum), samples: c.requests}
	switch {
	case t.planned == 0:
		v.reason = nothingPlanned
	case c.requests == 0:
		v.reason = none
	case c.requests < t.succeeded():
		v.reason = fmt.Sprintf("withheld: %d of %d successful answers carry no believable count", t.succeeded()-c.requests, t.succeeded())
	}
	return v
}

// throughput is withheld for a partial population: a server that refuses load
// must not look faster.
func (t *tally) throughput(c counter, wallMS float64) figureValue {
	v := t.total(c, noUsage)
	if reason := t.partial(wallMS); reason != "" {
		v.reason = reason
	}
	if v.reason == "" {
		v.value = record.Throughput(v.value, wallMS)
	}
	return v
}

func (t *tally) requestRate(wallMS float64) figureValue {
	v := figureValue{samples: t.succeeded(), reason: t.partial(wallMS)}
	if v.reason == "" {
		v.value = float64(t.succeeded()) / (wallMS / msPerS)
	}
	return v
}

// partial says why a rate over the whole plan cannot be stated.
func (t *tally) partial(wallMS float64) string {
	switch {
	case t.planned == 0:
		return nothingPlanned
	case t.succeeded() < t.planned:
		return fmt.Sprintf("withheld: %d of %d planned requests did not succeed", t.planned-t.succeeded(), t.planned)
	case wallMS <= 0:
		return noWall
	}
	return ""
}

func (t *tally) goodput(objective string, set bool, wallMS float64) figureValue {
	v := figureValue{samples: t.planned}
	switch {
	case !set:
		v.reason, v.samples = noObjective, 0
	case t.planned == 0:
		v.reason = nothingPlanned
	case wallMS <= 0:
		v.reason = noWall
	default:
		v.value = float64(t.met[objective]) / (wallMS / msPerS)
	}
	return v
}

func (t *tally) share(n int) figureValue {
	if t.planned == 0 {
		return figureValue{reason: nothingPlanned}
	}
	return figureValue{value: float64(n) / float64(t.planned), samples: t.planned}
}

func (t *tally) cachedShare(float64) figureValue {
	if len(t.cached) == 0 {
		return figureValue{reason: "the server said of no successful request how much of its prompt was cached"}
	}
	return figureValue{value: stat.Mean(t.cached), samples: len(t.cached)}
}

func (t *tally) coalescedShare(float64) figureValue {
	if t.events == 0 {
		return figureValue{reason: "no successful request had output"}
	}
	return figureValue{value: float64(t.sharedEvents) / float64(t.events), samples: t.withEvents, observations: &t.events}
}

func (t *tally) inFlightPeak(float64) figureValue {
	v := figureValue{value: float64(record.PeakInflight(t.spans)), samples: len(t.spans), reason: t.unknownSpans()}
	return v
}

func (t *tally) inFlightMean(wallMS float64) figureValue {
	v := figureValue{samples: len(t.spans), reason: t.unknownSpans()}
	switch {
	case v.reason != "":
	case wallMS <= 0:
		v.reason = noWall
	default:
		v.value = float64(t.busy()) / nsPerMS / wallMS
	}
	return v
}

func (t *tally) unknownSpans() string {
	switch {
	case t.open > 0:
		return fmt.Sprintf("withheld: the start or the end of %d of %s that began is unknown", t.open, plural(t.began, "request"))
	case t.began == 0:
		return "no request began"
	}
	return ""
}

func (t *tally) duration(wallMS float64) figureValue {
	if wallMS <= 0 {
		return figureValue{reason: noWall, samples: t.planned}
	}
	return figureValue{value: wallMS / msPerS, samples: t.planned}
}
