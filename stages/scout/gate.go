package scout

import (
	"fmt"
	"strings"

	"anvil/pipeline/stage"
	"anvil/stages/internal/target"
	"anvil/stages/record"
)

func (s scout) limit(t *target.Target, doc *document, in stage.Inputs, out *stage.Outputs) {
	out.Limit(t.Limitations()...)
	if _, ok := in.One("weights"); ok {
		out.Limit(stage.Limit("weights.unbound"))
	}
	if r := doc.CacheReset; r == target.ResetNotOffered || r == target.ResetFailed {
		out.Limit(stage.Limit("cache.reset-not-offered"))
	}
	if c := doc.Canary; c != nil && !c.Passed {
		out.Limit(stage.Limit("canary.failed", "count", c.failed(), "planned", len(c.Answers)))
	}
	ok := 0
	for o, n := range doc.Outcomes {
		if o.Success() {
			ok += n
		}
	}
	if failed := len(doc.Requests) - ok; failed > 0 {
		out.Limit(stage.Limit("requests.failed", "count", failed, "planned", len(doc.Requests), "classes", record.Failures(doc.Outcomes)).For(stage.Every))
	}
}

// gate holds what was seen against what the plan wants before a measurement.
func (s scout) gate(doc *document, out *stage.Outputs) {
	ok := 0
	for _, a := range doc.Requests {
		if a.Outcome.Success() {
			ok++
		}
	}
	if n := len(doc.Requests); n > 0 && float64(ok)/float64(n) < s.Gate.MinOK {
		out.Finding("gate.min_ok", fmt.Sprintf("%d of %d requests succeeded (%s); the gate wants a share of %.4g%s", ok, n, record.Failures(doc.Outcomes), s.Gate.MinOK, firstError(doc)))
	}
	if listed := doc.Facts.ModelListed; s.Gate.ModelListed && (listed == nil || !*listed) {
		why := fmt.Sprintf("the endpoint lists %s", strings.Join(doc.Facts.Models, ", "))
		if listed == nil {
			why = "no list of models: " + doc.Facts.Unknown["models"]
		}
		out.Finding("gate.model_listed", fmt.Sprintf("model %q is not listed; %s", doc.Endpoint.Model, why))
	}
	if most := s.Gate.MaxFirstOutput; most != nil {
		limit := float64(*most) / 1e6
		switch {
		case doc.MaxFirstMS == nil:
			out.Finding("gate.max_first_output", "no request had any output")
		case *doc.MaxFirstMS > limit:
			out.Finding("gate.max_first_output", fmt.Sprintf("the first output came after %.1f ms; the gate wants %.1f ms", *doc.MaxFirstMS, limit))
		}
	}
	if doc.Canary != nil && !doc.Canary.Passed && s.Gate.Canary {
		out.Finding("gate.canary", "a canary failed: "+firstWhy(doc.Canary))
	}
}

func (c *canary) failed() (n int) {
	for _, a := range c.Answers {
		if !a.Passed {
			n++
		}
	}
	return n
}

func firstWhy(c *canary) string {
	for i, a := range c.Answers {
		if a.Why != nil {
			return fmt.Sprintf("prompt %d: %s", i+1, *a.Why)
		}
	}
	return ""
}

func firstError(doc *document) string {
	for _, a := range doc.Requests {
		if a.Error != nil {
			return fmt.Sprintf("; first error: %s: %s", a.Error.Class, a.Error.Message)
		}
	}
	return ""
}
