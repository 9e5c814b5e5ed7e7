package measure

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/derive"
	"anvil/stages/internal/load"
	"anvil/stages/internal/target"
	"anvil/stages/record"
)

// A witness takes in the attempts one after the other and says what the phase
// was worth.
type witness struct {
	measure measure
	env     stage.Env
	target  *target.Target
	scout   scouted
	seen    *target.Sent
	drive   *target.Drive
	phase   phase
	planned int
	papers  papers
	recount *recount

	schedule schedule

	outcomes          map[record.Outcome]int
	lags              []int64
	edges             []edge
	events, coalesced int
	firstOutputs      int // attempts with output
	firstCoalesced    int // of them, those whose first output came together with later output
	answered          int // successes
	retried           int // requests with more than one try
	unknownUsage      int // of them
	written           int // requests that reached the server whole, each try for itself
	canaries          int // answers that were looked at
	canaryFailed      int
	models            map[string]int   // that answers name, other than the one asked for
	warm              map[string][]int // requests whose prompts had been sent before, by the stage or by what tells it
	sent              []digest.Digest  // prompts that went out now
}

// An edge is where a request begins or ends.
type edge struct {
	at    int64
	delta int
}

func (w *witness) count(a *record.Attempt) {
	if w.outcomes == nil {
		w.outcomes, w.models, w.warm = map[record.Outcome]int{}, map[string]int{}, map[string][]int{}
	}
	w.outcomes[a.Outcome]++
	if first := tries(a)[0].T; first.Start != nil && first.Due != nil {
		w.lags = append(w.lags, *first.Start-*first.Due) // a further try is the plan's, no lag of the client's
	}
	if a.T.Start != nil && a.T.End != nil {
		w.edges = append(w.edges, edge{*a.T.Start, 1}, edge{*a.T.End, -1})
	}
	w.events += len(a.ArrivalKinds)
	w.coalesced += strings.Count(a.Coalesced, "1")
	if a.Coalesced != "" {
		w.firstOutputs++
		if a.Coalesced[0] == '1' {
			w.firstCoalesced++
		}
	}
	if len(a.Tries) > 1 {
		w.retried++
	}
	if a.Outcome.Success() {
		w.answered++
		if a.Usage.Output == nil {
			w.unknownUsage++
		}
	}
	if a.Canary != nil {
		w.canaries++
		if !a.Canary.Passed {
			w.canaryFailed++
		}
	}
	if a.Model != nil && *a.Model != w.target.Model() {
		w.models[*a.Model]++
	}
	w.countPrompt(a)
	w.countWritten(a)
}

// countWritten counts what the server may have counted as a request: every try
// that was written whole.
func (w *witness) countWritten(a *record.Attempt) {
	for _, try := range tries(a) {
		if try.T.Written != nil {
			w.written++
		}
	}
}

// tries are those of a request, one where the plan does not retry.
func tries(a *record.Attempt) []record.Try {
	if len(a.Tries) > 0 {
		return a.Tries
	}
	return []record.Try{{T: a.T}}
}

// countPrompt notes a prompt that the engine had seen: by what this run
// remembers, or by the scout's document, which may be of an earlier run.
func (w *witness) countPrompt(a *record.Attempt) {
	if a.T.Sent == nil {
		return
	}
	w.sent = append(w.sent, a.PromptSHA256)
	by := w.seen.By(a.PromptSHA256)
	if by == "" && w.phase.reset != target.ResetDone && w.scout.Prompts[a.PromptSHA256] {
		by = w.scout.Stage
	}
	if by == "" && w.fromCache(a.Usage) {
		by = byServer
	}
	if by != "" {
		w.warm[by] = append(w.warm[by], a.Index)
	}
}

// byServer stands where the server's own usage says that it knew a prompt.
const byServer = "the server's count of cached tokens"

// fromCache tells whether the server took at least half of a prompt from its
// cache, leaving aside the prefix that the plan shares between prompts: what a
// template puts before each, or a block of it, is less.
func (w *witness) fromCache(u record.Usage) bool {
	if u.Cached == nil || u.Input == nil {
		return false
	}
	shared := int64(w.measure.Workload.SharedPrefixTokens)
	return *u.Cached > shared && 2*(*u.Cached-shared) >= *u.Input-shared
}

// overlap is the largest number of requests that were open at once.
func (w *witness) overlap() int {
	slices.SortFunc(w.edges, func(a, b edge) int {
		switch {
		case a.at != b.at:
			return int(min(max(a.at-b.at, -1), 1))
		default:
			return a.delta - b.delta // an end before the start of the same moment
		}
	})
	open, most := 0, 0
	for _, e := range w.edges {
		open += e.delta
		most = max(most, open)
	}
	return most
}

type clientLimits struct {
	SendLagP99US   float64 `json:"send_lag_p99_us"`
	CPUShareBusy   float64 `json:"cpu_share_marginal"`
	CPUShareBound  float64 `json:"cpu_share_bound"`
	SchedulerP99US float64 `json:"scheduler_p99_us"`
	CaptureWaits   *int64  `json:"capture_waits"` // workers that waited for the capture; null when nobody lived to say
	Overlap        int     `json:"overlap"`       // most requests open at once
}

// bound says why the client may have been the bottleneck, lag why it was late;
// "" for neither.
func (w *witness) bound() string {
	e := w.phase.evidence
	wall, _ := w.interval()
	switch {
	case e.CPU.Share != nil && *e.CPU.Share >= derive.FullShare && !e.CPU.IncludesModel:
		return fmt.Sprintf("it used %.0f%% of its %d cores", 100**e.CPU.Share, e.CPU.Cores)
	case e.CPU.ThrottledS != nil && *e.CPU.ThrottledS > derive.ThrottleLimit*wall.Seconds():
		return fmt.Sprintf("its control group was throttled for %.2f s of %.2f s", *e.CPU.ThrottledS, wall.Seconds())
	case e.Scheduler.P99US != nil && *e.Scheduler.P99US > float64(derive.WaitLimit/time.Microsecond):
		return fmt.Sprintf("its goroutines waited %.1f ms for a core at p99", *e.Scheduler.P99US/1e3)
	}
	return ""
}

func (w *witness) lag(l load.Lags) string {
	switch {
	case w.phase.waits > 0:
		return fmt.Sprintf("%d times a worker waited for the capture file", w.phase.waits)
	case float64(w.firstCoalesced) > derive.CoalescedLimit*float64(w.firstOutputs):
		return fmt.Sprintf("in %d of %d answers the first output was read together with later output", w.firstCoalesced, w.firstOutputs)
	case l.P99US != nil && *l.P99US > l.BudgetUS:
		return fmt.Sprintf("send lag p99 %.1f ms, budget %.1f ms", *l.P99US/1e3, l.BudgetUS/1e3)
	}
	return ""
}

func (w *witness) clientVerdict(l load.Lags) string {
	e := w.phase.evidence
	busy := e.CPU.Share != nil && *e.CPU.Share >= derive.BusyShare && !e.CPU.IncludesModel
	switch {
	case w.bound() != "":
		return "bound"
	case w.lag(l) != "" || busy || w.phase.killed: // nobody lived to say that it was not
		return "marginal"
	}
	return "ok"
}

// interval ends with the last answer: what the client does afterwards, as to wait
// for the rest of a body so that a connection can be used again, is no time of
// the server's.
func (w *witness) interval() (wall time.Duration, to time.Time) {
	wall, to = w.phase.wall, w.phase.to
	if last := time.Duration(w.papers.LastEnd); last > 0 {
		return last, to.Add(last - wall)
	}
	return wall, to
}

func (w *witness) measurement() record.Measurement {
	lags := load.LagsOf(w.lags, derive.LagBudget)
	c := w.drive.Connections()
	var version *string
	if c.TLS != "" {
		version = &c.TLS
	}
	wall, to := w.interval()
	m := record.Measurement{
		Schema: record.MeasurementSchema,
		Phase: record.Phase{
			Status: w.status(), EndedBy: w.endedBy(), WallClockMS: float64(wall) / 1e6,
			StartedAt: target.Wall(w.phase.from), FinishedAt: target.Wall(to),
			StartedAtUnixNS: w.phase.from.UnixNano(), FinishedAtUnixNS: to.UnixNano(),
		},
		Tool: w.phase.tool,
		Client: record.MeasurementClient{
			SendLag:        lags,
			StampShares:    map[string]float64{"kernel": 0, "kernel_tls": 0, "user": 1},
			CoalescedShare: w.coalescedShare(),
			Limits: clientLimits{
				SendLagP99US: float64(derive.LagBudget / time.Microsecond), CPUShareBusy: derive.BusyShare, CPUShareBound: derive.FullShare,
				SchedulerP99US: float64(derive.WaitLimit / time.Microsecond), CaptureWaits: w.waits(), Overlap: w.overlap(),
			},
			Verdict: w.clientVerdict(lags),
		},
		Connections: record.Connections{
			Opened: int(c.Opened), Reused: int(c.Reused), Replaced: int(c.Replaced), Protocol: c.Protocol, TLS: version,
		},
		ServedWindow: w.scout.ContextWindow,
		Counters:     w.counters(),
		Cache:        record.CacheFacts{State: w.measure.Cache.State, Reset: w.phase.reset},
		Sequence:     w.measure.Cache.Sequence,
		Simulated:    w.target.Simulated,
		Accounting:   record.Accounting{Planned: w.planned, Outcomes: w.allOutcomes()},
	}
	if e := w.phase.evidence; !w.phase.killed {
		m.Client.GC, m.Client.Scheduler, m.Client.CPU = e.GC, e.Scheduler, e.CPU
	}
	w.remarks(&m)
	return m
}

// waits is how often a worker waited for the capture.
func (w *witness) waits() *int64 {
	if w.phase.killed {
		return nil
	}
	return &w.phase.waits
}

// counters are the server's own, null where it has none.
func (w *witness) counters() (c record.CounterPair) {
	if w.phase.before != nil && w.phase.after != nil {
		c.Before, c.After = w.phase.before, w.phase.after
	}
	return c
}

// coalescedShare is null without events: nothing was observed.
func (w *witness) coalescedShare() *float64 {
	if w.events == 0 {
		return nil
	}
	share := float64(w.coalesced) / float64(w.events)
	return &share
}

func (w *witness) allOutcomes() map[record.Outcome]int {
	out := map[record.Outcome]int{}
	for _, o := range record.Outcomes() {
		out[o] = w.outcomes[o]
	}
	return out
}

func (w *witness) limit(out *stage.Outputs, in stage.Inputs) {
	out.Limit(w.target.Limitations()...)
	out.Limit(stage.Limit("stamps.user-space"))
	w.limitInputs(out, in)
	w.limitClient(out)
	w.limitAnswers(out)
	w.limitLoad(out)
}

func (w *witness) limitInputs(out *stage.Outputs, in stage.Inputs) {
	if _, ok := in.One("weights"); ok {
		out.Limit(stage.Limit("weights.unbound"))
	}
	if _, ok := in.One("calibration"); !ok {
		out.Limit(stage.Limit("client.uncalibrated"))
	}
	if !w.measure.Workload.Synthetic() || !w.scout.Counted {
		out.Limit(stage.Limit("tokens.estimated"))
	}
	if r := w.phase.reset; r == target.ResetNotOffered || r == target.ResetFailed {
		out.Limit(stage.Limit("cache.reset-not-offered"))
	}
	if w.measure.Cache.State == "unknown" && w.phase.reset != target.ResetDone {
		out.Limit(stage.Limit("cache.state-unknown"))
	}
	for _, by := range slices.Sorted(maps.Keys(w.warm)) {
		slices.Sort(w.warm[by])
		out.Limit(stage.Limit("cache.warm-prompts", "requests", fmt.Sprintf("requests %s, by %s", indexes(w.warm[by]), by)))
	}
}

func (w *witness) limitClient(out *stage.Outputs) {
	lags := load.LagsOf(w.lags, derive.LagBudget)
	if why := w.lag(lags); why != "" {
		out.Limit(stage.Limit("client.lag", "why", why))
	}
	if why := w.bound(); why != "" {
		out.Limit(stage.Limit("client.bound", "why", why))
	}
}

func (w *witness) limitAnswers(out *stage.Outputs) {
	if failed := w.planned - w.answered; failed > 0 {
		out.Limit(stage.Limit("requests.failed", "count", failed, "planned", w.planned, "classes", record.Failures(w.outcomes)))
	}
	if w.retried > 0 {
		out.Limit(stage.Limit("requests.retried", "count", w.retried, "planned", w.planned))
	}
	if n := w.outcomes[record.OutcomeTruncated]; n > 0 {
		out.Limit(stage.Limit("outputs.truncated", "count", n, "planned", w.planned))
	}
	if w.unknownUsage > 0 {
		out.Limit(stage.Limit("usage.missing", "count", w.unknownUsage, "planned", w.planned))
	}
	if w.canaryFailed > 0 {
		out.Limit(stage.Limit("canary.failed", "count", w.canaryFailed, "planned", w.planned))
	}
	if len(w.models) > 0 {
		names := slices.Sorted(maps.Keys(w.models))
		out.Limit(stage.Limit("model.name-differs", "answered", quoted(names), "asked", fmt.Sprintf("%q", w.target.Model())))
	}
}

// quoted lists at most eight names that a server made up.
func quoted(names []string) string {
	more := ""
	if len(names) > 8 {
		more = fmt.Sprintf(" and %d more", len(names)-8)
		names = names[:8]
	}
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%.80q", n)
	}
	return strings.Join(out, ", ") + more
}

// rateTolerance is how far the achieved rate may fall short of the planned one.
const rateTolerance = 0.005

func (w *witness) limitLoad(out *stage.Outputs) {
	l := w.measure.Load
	if n := target.Foreign(w.phase.before, w.phase.after, w.written); n > 0 {
		out.Limit(stage.Limit("endpoint.foreign-traffic", "foreign", n))
	}
	if n := w.outcomes[record.OutcomeClientShed]; n > 0 {
		out.Limit(stage.Limit("load.shed", "count", n, "planned", w.planned))
	}
	if !l.closed() {
		w.limitRate(out)
		return
	}
	want := min(l.Concurrency, w.planned)
	if l.Concurrency > 1 && l.Ramp == 0 {
		out.Limit(stage.Limit("load.ramp-included"))
	}
	if most := w.overlap(); most < want && w.answered > 0 {
		out.Limit(stage.Limit("load.concurrency-not-reached", "reached", most, "planned", want))
	}
}

// limitRate compares the starts with the schedule: both over the span from the
// first to the last arrival.
func (w *witness) limitRate(out *stage.Outputs) {
	due := w.drive.Plan.Due
	if len(due) < 2 || due[len(due)-1] == due[0] {
		return
	}
	var starts []int64
	for i := range w.phase.result.Begun {
		if w.drive.Sample(i).Begun {
			starts = append(starts, w.drive.Started(i))
		}
	}
	slices.Sort(starts)
	rate := func(stamps []int64) float64 {
		if len(stamps) < 2 || stamps[len(stamps)-1] == stamps[0] {
			return 0
		}
		return float64(len(stamps)-1) / (float64(stamps[len(stamps)-1]-stamps[0]) / 1e9)
	}
	planned, reached := rate(due), rate(starts)
	if reached < planned*(1-rateTolerance) {
		out.Limit(stage.Limit("load.rate-not-reached", "reached", fmt.Sprintf("%.4g", reached), "planned", fmt.Sprintf("%.4g", planned)))
	}
}

// indexes lists requests, runs of them as "0-7".
func indexes(sorted []int) string {
	var parts []string
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, fmt.Sprint(sorted[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", sorted[i], sorted[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

// gate turns what the plan does not accept into findings.
func (w *witness) gate(out *stage.Outputs) {
	g := w.measure.Gate
	if share := float64(w.answered) / float64(max(w.planned, 1)); g.MinOK > 0 && share < g.MinOK {
		out.Finding("gate.min_ok", fmt.Sprintf("%d of %d requests succeeded, share %.4g; the gate wants %.4g", w.answered, w.planned, share, g.MinOK))
	}
	if w.canaryFailed > 0 && g.Canary {
		out.Finding("gate.canary", fmt.Sprintf("%d of %d answers failed their canary", w.canaryFailed, w.canaries))
	}
	verdict := w.clientVerdict(load.LagsOf(w.lags, derive.LagBudget))
	if g.Client != "off" && worse(verdict, g.Client) {
		out.Finding("gate.client", fmt.Sprintf("the verdict on the client is %s; the gate passes %s", verdict, g.Client))
	}
}

func worse(verdict, worst string) bool {
	rank := []string{"ok", "marginal", "bound"}
	return slices.Index(rank, verdict) > slices.Index(rank, worst)
}

// scouted is what measure takes from a scout.
type scouted struct {
	Stage         string
	BytesPerToken float64
	Counted       bool // it comes from the engine's own tokenizer
	ContextWindow *int
	Prompts       map[digest.Digest]bool
}
