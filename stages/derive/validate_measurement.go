package derive

import (
	"encoding/json"
	"slices"
	"time"

	"anvil/pipeline/stage"
	"anvil/stages/internal/load"
	"anvil/stages/record"
)

// clientFacts is what the client observed of itself and its verdict stands on.
type clientFacts struct {
	Scheduler struct {
		P99US *float64 `json:"p99_us"`
	} `json:"scheduler"`
	CPU struct {
		Share         *float64 `json:"share"`
		ThrottledS    *float64 `json:"throttled_s"`
		IncludesModel bool     `json:"includes_engine"`
	} `json:"cpu"`
	Limits struct {
		CaptureWaits *int64 `json:"capture_waits"`
	} `json:"limits"`
}

// clientOf reads them; the schema has named what is of another form.
func clientOf(m *record.Measurement) (f clientFacts) {
	raw, err := json.Marshal(m.Client)
	if err != nil || json.Unmarshal(raw, &f) != nil {
		return clientFacts{}
	}
	return f
}

// checkMeasurement holds the measurement against what attempts and configuration
// determine of it. The rest is observed: what the client took, what the transport
// did, what the server counted.
func (v *validation) checkMeasurement(p *phase, a stage.Artifact) error {
	v.checkRaised(p, a)
	m := p.measurement
	lags := load.LagsOf(slices.Clone(p.seen.lags), LagBudget)
	limits := map[string]any{"overlap": record.PeakInflight(p.seen.spans)}
	client := map[string]any{"coalesced_share": p.seen.coalescedShare(), "limits": limits}
	if p.known() {
		limits["send_lag_p99_us"], limits["scheduler_p99_us"] = float64(LagBudget/time.Microsecond), float64(WaitLimit/time.Microsecond)
		limits["cpu_share_marginal"], limits["cpu_share_bound"] = BusyShare, FullShare
		client["send_lag"], client["verdict"] = lags, p.clientVerdict(lags)
		client["stamp_shares"] = stampShares(p.header.Stamps)
	}
	connections := map[string]any{"compression": map[string]any{"asked": p.config.Endpoint.Compression}}
	if ports := m.Connections.LocalPorts; ports != nil {
		connections["local_ports"] = map[string]any{"opened": m.Connections.Opened, "headroom": ports.Range - m.Connections.Opened}
	}
	return v.differs(a, map[string]any{
		"phase":         p.phaseFacts(),
		"client":        client,
		"connections":   connections,
		"served_window": p.scout.ContextWindow,
		"cache":         p.cacheFacts(),
		"sequence":      p.config.Cache.Sequence,
		"simulated":     p.simulated(),
		"accounting":    record.Accounting{Planned: p.seen.planned(), Outcomes: p.seen.allOutcomes()},
		"tokens":        map[string]any{"counted": p.seen.counted, "difference": m.Tokens.Engine - m.Tokens.Usage},
	}, "the attempts and the configuration")
}

func stampShares(stamps string) map[string]float64 {
	shares := map[string]float64{"kernel": 0, "kernel_tls": 0, "user": 0}
	shares[stamps] = 1
	return shares
}

const wallLabel = "2006-01-02T15:04:05.000000000Z"

func (p *phase) phaseFacts() map[string]any {
	clock := p.header.Clock
	out := map[string]any{
		"status": p.footer.Status, "started_at": clock.WallStartAt, "started_at_unix_ns": clock.WallStartUnixNS,
		"finished_at": time.Unix(0, p.measurement.Phase.FinishedAtUnixNS).UTC().Format(wallLabel),
	}
	// What says by what it ended also ends with its last answer.
	if p.measurement.Phase.EndedBy != "" && p.following.LastEnd > 0 {
		out["wall_clock_ms"] = float64(p.following.LastEnd) / nsPerMS
	}
	switch {
	case p.measurement.Phase.EndedBy == "": // it was not always said
	case p.footer.Status == "aborted":
		out["ended_by"] = "interrupt"
	case p.load.Requests != nil:
		out["ended_by"] = "requests"
	case !p.load.closed():
		out["ended_by"] = "duration"
	}
	return out
}

func (p *phase) cacheFacts() map[string]any {
	out := map[string]any{"state": p.config.Cache.State}
	switch p.config.Cache.Reset {
	case "off":
		out["reset"] = "off"
	case "require":
		out["reset"] = "done"
	}
	return out
}

// simulated tells whether the simulator answered: the embedded one, or one that
// the answers gave away, which the limitation says.
func (p *phase) simulated() bool {
	return p.header.Endpoint.BaseURL == nil || p.bears("engine.simulated")
}

// bears tells whether the phase itself raised a limitation.
func (p *phase) bears(code string) bool {
	return slices.ContainsFunc(p.attempts.LimitationSet(), func(l stage.Limitation) bool { return l.Code == code && l.Origin == p.made.Stage })
}

func (p *phase) clientVerdict(lags load.Lags) string {
	cpu := clientOf(p.measurement).CPU
	busy := cpu.Share != nil && *cpu.Share >= BusyShare && !cpu.IncludesModel
	switch {
	case p.bound():
		return "bound"
	case p.late(lags) || busy || p.killed(): // nobody lived to say that it was not
		return "marginal"
	}
	return "ok"
}

// bound tells whether the client may have been the bottleneck.
func (p *phase) bound() bool {
	f, wallS := clientOf(p.measurement), p.measurement.Phase.WallClockMS/1e3
	return f.CPU.Share != nil && *f.CPU.Share >= FullShare && !f.CPU.IncludesModel ||
		f.CPU.ThrottledS != nil && *f.CPU.ThrottledS > ThrottleLimit*wallS ||
		f.Scheduler.P99US != nil && *f.Scheduler.P99US > float64(WaitLimit/time.Microsecond)
}

// late tells whether the client sent or read later than it should.
func (p *phase) late(lags load.Lags) bool {
	waits := clientOf(p.measurement).Limits.CaptureWaits
	return waits != nil && *waits > 0 ||
		float64(p.seen.sharedFirsts) > CoalescedLimit*float64(p.seen.withEvents) ||
		lags.P99US != nil && *lags.P99US > lags.BudgetUS
}

// checkRaised holds the limitations that the phase raised against what it raises
// them for, as far as attempts, measurement and configuration tell.
func (v *validation) checkRaised(p *phase, a stage.Artifact) {
	if !p.known() {
		return
	}
	due := p.raises()
	for _, code := range sortedKeys(due) {
		switch have := p.bears(code); {
		case due[code] && !have:
			v.problem(record.LevelRederived, a, "/limitations", "limitation-missing", nil, code, "the attempts and the configuration call for %s of %s", code, p.made.Stage)
		case have && !due[code]:
			v.problem(record.LevelRederived, a, "/limitations", "limitation-unwitnessed", code, nil, "nothing in the attempts and the configuration calls for %s of %s", code, p.made.Stage)
		}
	}
}

// raises tells for each code that can be told of whether the phase raises it.
func (p *phase) raises() map[string]bool {
	m, s := p.measurement, p.seen
	planned := s.planned()
	workers := min(p.load.Concurrency, planned)
	ramp, _ := lasting(&p.load.Ramp)
	return map[string]bool{
		"engine.simulated":             m.Simulated,
		"stamps.user-space":            p.header.Stamps == "user",
		"weights.unbound":              len(p.made.Inputs["weights"]) > 0,
		"client.uncalibrated":          len(p.made.Inputs["calibration"]) == 0,
		"client.bound":                 p.bound(),
		"client.lag":                   p.late(load.LagsOf(slices.Clone(s.lags), LagBudget)),
		"tokens.disagree":              m.Tokens.Differing > 0,
		"cache.reset-not-offered":      m.Cache.Reset == "not_offered" || m.Cache.Reset == "failed",
		"cache.state-unknown":          m.Cache.State == "unknown" && m.Cache.Reset != "done",
		"proxy.used":                   p.config.Endpoint.Proxy != nil,
		"requests.failed":              s.answered < planned,
		"outputs.truncated":            s.outcomes[record.OutcomeTruncated] > 0,
		"usage.missing":                s.withoutUsage > 0,
		"canary.failed":                s.canaryFailed > 0,
		"model.name-differs":           s.otherModel,
		"load.shed":                    s.outcomes[record.OutcomeClientShed] > 0,
		"load.ramp-included":           p.load.closed() && p.load.Concurrency > 1 && (ramp == nil || *ramp == 0),
		"load.concurrency-not-reached": p.load.closed() && record.PeakInflight(s.spans) < workers && s.answered > 0,
	}
}
