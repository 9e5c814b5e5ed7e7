package record

import (
	"errors"
	"maps"
	"strconv"
	"time"

	"anvil/stages/internal/jsontree"
)

func (b *capacityCell) checkWorkload() {
	b.checkSizes()
	mode, shared := b.doc.Get("prompt_cache_mode").Str(), b.doc.Get("shared_prefix_tokens")
	if n, ok := shared.Int(); ok && mode != "" {
		b.holds((n == 0) == (mode == "unique"), "/shared_prefix_tokens", "workload.shared-prefix", shared, nil, "the prompt cache mode is %s", mode)
	}
	for _, name := range []string{"temperature", "top_p"} {
		s, at := b.doc.At("sampling", name), "/sampling/"+name
		if !s.Is(jsontree.Object) {
			continue
		}
		sent, requested := s.Get("effective_request"), s.Get("requested")
		b.boolIs(at+"/sent", "sampling.sent", s.Get("sent"), sent.Is(jsontree.Number), "sent exactly when effective_request has a value")
		if want := figureOf(requested); want.ok {
			b.figureIs(at+"/effective_request", "sampling.requested", sent, want, "what was asked for is what is sent")
		}
	}
}

// checkSizes: the plan of sizes adds up, respects target and window, and is
// what the rows were built for.
func (b *capacityCell) checkSizes() {
	plan := b.doc.Get("context_distribution")
	if !plan.Is(jsontree.Object) {
		return
	}
	sum, sizes := tallied(plan), map[int64]int64{}
	for name, v := range plan.Members() {
		at := jsontree.Child("/context_distribution", name)
		size, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			b.holds(!errors.Is(err, strconv.ErrRange), at, "number.int64", v, nil, "no int64 holds the size")
			continue // the schema names what is no number
		}
		n, _ := v.Int()
		sizes[size] += n
		b.checkSize(size, v, at)
	}
	b.totalIs("/requests", "workload.distribution", b.doc.Get("requests"), sum, "the context distribution adds up to %v", sum)
	b.checkPlanned(sizes)
}

func (b *capacityCell) checkSize(size int64, v jsontree.Value, at string) {
	target, hasTarget := b.doc.Get("context_tokens").Int()
	window, hasWindow := b.doc.Get("max_context_tokens").Int()
	limit, _ := b.doc.Get("max_tokens").Int()
	room := window - min(limit, window)
	b.holds(!hasWindow || limit <= window && size <= room, at, "workload.window", v, nil, "a prompt of %d and an answer of %d tokens do not fit the window of %d", size, limit, window)
	if hasTarget {
		// A target is only ever clamped, to what the window leaves.
		b.holds(size == target || size < target && hasWindow && target > room-maxClampMargin, at, "workload.target", v, nil,
			"the target is %d tokens, and no window makes it %d", target, size)
	}
}

// maxClampMargin is the largest margin seen between a clamped prompt and the
// window less the answer; anvil's own is 64.
const maxClampMargin = 4096

func (b *capacityCell) checkPlanned(sizes map[int64]int64) {
	left := maps.Clone(sizes)
	unknown := int64(0)
	take := func(v jsontree.Value, pointer string, size counted) {
		if !size.ok {
			unknown++
			return
		}
		left[size.n]--
		b.holds(left[size.n] >= 0, pointer+"/planned_context_tokens", "workload.planned", v.Get("planned_context_tokens"), nil,
			"more requests of %d tokens than the context distribution plans (%d)", size.n, sizes[size.n])
	}
	for _, r := range b.rows {
		take(r.v, r.pointer, r.planned)
	}
	for _, f := range b.failures {
		take(f.v, f.pointer, f.planned)
	}
	rest := totalOf(-unknown)
	for _, n := range left {
		rest.add(max(0, n))
	}
	if b.hasRows && int64(len(b.rows)+len(b.failures)) == b.requests {
		b.holds(rest.is(0), "/context_distribution", "workload.planned", b.doc.Get("context_distribution"), nil, "%v planned requests have no row and no failure", rest)
	}
}

const secondStamp = "2006-01-02T15:04:05Z"

// checkClock: the stamps tell one story (records.md 4.8).
func (b *capacityCell) checkClock() {
	id := b.doc.Get("run_id").Str()
	if _, err := time.Parse("benchmark-20060102T150405Z", id); err != nil && id != "" {
		b.problem("/run_id", "run-id.form", b.doc.Get("run_id"), nil, "want benchmark- and a start second such as 20260917T172104Z")
	}
	started, err1 := time.Parse(secondStamp, b.doc.Get("started_at").Str())
	finished, err2 := time.Parse(secondStamp, b.doc.Get("finished_at").Str())
	b.isTime(b.doc, "started_at", err1)
	b.isTime(b.doc, "finished_at", err2)
	if err1 == nil {
		b.textIs("/run_id", "run-id.second", b.doc.Get("run_id"), started.Format("benchmark-20060102T150405Z"), "spells the start second")
	}
	if err1 != nil || err2 != nil || !b.wall.ok {
		return
	}
	// Both labels lose up to a second.
	labels := float64(finished.Sub(started).Milliseconds())
	b.holds(abs(labels-b.wall.v) < 1000+b.clockSlack(), "/finished_at", "clock.labels", b.doc.Get("finished_at"), nil,
		"started_at and finished_at are %.0f ms apart, the wall clock says %.1f ms", labels, b.wall.v)
	b.checkStamps(started, finished)
}

func (b *capacityCell) clockSlack() float64 { return max(5, b.wall.v*1e-4) }

func (b *capacityCell) checkStamps(started, finished time.Time) {
	from, ok1 := b.doc.Get("started_at_unix_ns").Int()
	to, ok2 := b.doc.Get("finished_at_unix_ns").Int()
	for _, s := range []struct {
		name  string
		ns    int64
		ok    bool
		label time.Time
	}{{"started_at", from, ok1, started}, {"finished_at", to, ok2, finished}} {
		at := s.name + "_unix_ns"
		b.holds(!s.ok || s.ns/1e9 == s.label.Unix(), "/"+at, "clock.second", b.doc.Get(at), nil, "not in the second that %s labels", s.name)
	}
	if ok1 && ok2 {
		elapsed := betweenMS(from, to)
		b.holds(abs(elapsed-b.wall.v) <= b.clockSlack(), "/wall_clock_ms", "clock.agreement", b.doc.Get("wall_clock_ms"), elapsed,
			"the ns stamps are %.3f ms apart, the wall clock says %.3f ms", elapsed, b.wall.v)
	}
}

// betweenMS is the time between two ns stamps of any int64.
func betweenMS(from, to int64) float64 {
	if d := to - from; (d > 0) == (to > from) {
		return float64(d) / 1e6
	}
	return (float64(to) - float64(from)) / 1e6
}
