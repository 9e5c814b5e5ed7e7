package record

import (
	"anvil/schemas"
	"anvil/stages/internal/jsontree"
	"anvil/stages/internal/stat"
)

// LiveRunSchema is the id of live open-loop HTTP runs; the documents do not
// bear it.
const LiveRunSchema schemas.ID = "anvil.live-http-run/v1"

var liveRunMembers = []string{
	"execution_mode", "offered_requests", "client_shed_requests", "duration_s", "ttft_slo_ms", "ttft_goodput_rps", "requests", "limits", "run_context",
}

// halfUnit is half a unit of the third decimal, which is all that is stored;
// the rest is for the doubles in between.
const halfUnit = 0.0005 + 1e-9

func checkLiveRun(c *checker, doc jsontree.Value) {
	c.conforms(LiveRunSchema, doc)
	offered := c.checkOffered(doc)
	within := int64(0)
	slo := figureOf(doc.Get("ttft_slo_ms"))
	duration := figureOf(doc.Get("duration_s"))
	for i, r := range doc.Get("requests").Elems() {
		at := jsontree.Index("/requests", i)
		e2e, ttft := figureOf(r.Get("e2e_ms")), figureOf(r.Get("ttft_ms"))
		c.holds(!e2e.ok || !duration.ok || e2e.v/1000 <= duration.v+2*halfUnit, at+"/e2e_ms", "live.duration", r.Get("e2e_ms"), nil, "outlasts the run of %v s", duration.v)
		if r.Get("status").Str() != "completed" {
			continue
		}
		within += one(slo.ok && ttft.ok && ttft.v <= slo.v)
		c.checkEvents(r, at, ttft, e2e)
	}
	c.recomputed = jsontree.Obj{{Name: "offered_requests", Value: offered.any()}}
	c.checkGoodput(doc, within, slo, duration)
}

// checkOffered returns how many requests were offered. Shed ones have no row,
// unless the rows are all that was offered: then they are among the failed.
func (c *checker) checkOffered(doc jsontree.Value) total {
	rows, failed := int64(0), int64(0)
	for _, r := range doc.Get("requests").Elems() {
		rows++
		failed += one(r.Get("status").Str() == "failed")
	}
	stated := doc.Get("client_shed_requests")
	shed, _ := stated.Int()
	offered := doc.Get("offered_requests")
	if n, ok := offered.Int(); ok && n == rows {
		c.holds(shed <= failed, "/client_shed_requests", "live.shed", stated, nil, "all %d requests offered have rows, and only %d failed: %d shed ones are not among them", rows, failed, shed)
		return totalOf(rows)
	}
	want := totalOf(rows, shed)
	c.totalIs("/offered_requests", "live.offered", offered, want, "%d rows and %d shed requests", rows, shed)
	return want
}

// checkEvents: one gap less than events, and all of them inside the request.
func (c *checker) checkEvents(r jsontree.Value, at string, ttft, e2e figure) {
	gaps := r.Get("event_gaps_ms")
	if gaps.Is(jsontree.Array) {
		c.intIs(at+"/content_events", "live.events", r.Get("content_events"), int64(gaps.Len()+1), "there are %d gaps", gaps.Len())
	}
	var spans []float64
	if ttft.ok {
		spans = append(spans, ttft.v)
	}
	for _, g := range gaps.Elems() {
		if f := figureOf(g); f.ok {
			spans = append(spans, f.v)
		}
	}
	sum := stat.Sum(spans)
	slack := halfUnit * float64(len(spans)+1) // each was rounded on its own
	c.holds(!e2e.ok || sum <= e2e.v+slack, at+"/e2e_ms", "live.order", r.Get("e2e_ms"), nil, "ttft and gaps are %.3f ms together", sum)
}

// checkGoodput divides by the duration that is stated, as the writer does
// (records.md 3.3).
func (c *checker) checkGoodput(doc jsontree.Value, within int64, slo, duration figure) {
	const pointer = "/ttft_goodput_rps"
	stored := doc.Get("ttft_goodput_rps")
	want := figure{}
	if slo.ok && duration.ok && duration.v > 0 {
		want = known(float64(within) / duration.v)
	}
	if !duration.ok || duration.v <= 0 {
		return
	}
	c.recomputed = append(c.recomputed, jsontree.Member{Name: "ttft_goodput_rps", Value: want.any()})
	c.figureWithin(pointer, "live.goodput", stored, want, halfUnit, "%d completed with a ttft within the objective in %v s; null without an objective", within, duration.v)
}
