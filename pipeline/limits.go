package pipeline

import (
	"slices"

	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

// limitations forms the set of an attempt's outputs: everything that its
// inputs bear, and what it and the executor raised. A stage adds and can take
// nothing away, because it never holds the set.
func (a *attempt) limitations(status prov.Status) stage.LimitationSet {
	all := slices.Clone(a.b.set)
	if a.outputs != nil {
		c := a.outputs.out.Collect()
		for _, l := range c.Limitations {
			all = append(all, a.raised(l))
		}
		all = append(all, c.Carried...)
	}
	return stage.NewLimitationSet(append(all, a.ownLimitations(status)...)...)
}

// raised completes a limitation that the stage raised. Its origin is the
// stage; "plan" stays only on a limitation that the plan itself states.
func (a *attempt) raised(l stage.Limitation) stage.Limitation {
	stated := l.Origin == stage.OriginPlan && len(stage.NewLimitationSet(l).Missing(a.e.plan.Limitations)) == 0
	if stated {
		return l
	}
	l.Origin = a.n.ID
	l.Text = a.e.secrets.Redact(l.Text)
	if len(l.AppliesTo) == 0 {
		l.AppliesTo = []string{stage.Every}
	}
	if l.Severity == "" {
		l.Severity = severityOf(l.Code)
	}
	return l
}

func severityOf(code string) stage.Severity {
	for _, c := range stage.LimitationCodes() {
		if c.Code == code {
			return c.Severity
		}
	}
	return stage.Caveat
}

// ownLimitations are what the executor raises about an attempt. Only
// observations are weakened by having been tried again or cut short: a pure
// stage gives the same bytes whatever happened before.
func (a *attempt) ownLimitations(status prov.Status) []stage.Limitation {
	if a.n.spec.Class != stage.Observational {
		return nil
	}
	var out []stage.Limitation
	if status == prov.Aborted {
		out = append(out, stage.Limit("run.interrupted"))
	}
	if a.number > 1 {
		out = append(out, stage.Limit("run.retried", "count", a.number))
	}
	if a.e.resumed {
		out = append(out, stage.Limit("run.resumed"))
	}
	for i := range out {
		out[i].Origin = stage.OriginRun
	}
	return out
}
