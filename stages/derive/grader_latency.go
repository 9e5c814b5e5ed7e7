package derive

import (
	"fmt"
	"strings"

	"anvil/stages/record"
)

// latency: a figure of the request itself is at most so large.
var latencyGrader = graderType{name: "latency", subject: theAnswer, keys: map[string]any{"metric": nil, "at_most": nil}, build: buildLatency}

type latency struct {
	name   string
	value  func(*record.Attempt) (float64, bool)
	atMost float64
}

func buildLatency(s GraderSpec, _ *builder) (grader, error) {
	if s.AtMost == nil {
		return nil, &keyError{"at_most", "is required", "at_most: 500"}
	}
	var known []string
	for _, f := range figures {
		if f.duration == nil && f.name != "tpot" {
			continue
		}
		known = append(known, f.name+"_ms")
		if s.Metric == f.name+"_ms" {
			return &latency{s.Metric, f.inUnit, *s.AtMost}, nil
		}
	}
	return nil, &keyError{"metric", fmt.Sprintf("%q is no figure of one request", s.Metric), suggest(s.Metric, known)}
}

// inUnit is the figure of one request in the metric's unit.
func (f figure) inUnit(a *record.Attempt) (float64, bool) {
	if f.duration == nil {
		return f.number(a)
	}
	ns, ok := f.duration(a)
	return float64(ns) / nsPerMS, ok
}

func (g *latency) judge(a *answer) judgement {
	v, ok := g.value(a.attempt)
	if !ok {
		return unscorable(strings.TrimSuffix(g.name, "_ms") + " of the request is unknown")
	}
	return passWhen(v <= g.atMost, fmt.Sprintf("%s %v, at most %v", g.name, v, g.atMost))
}
