package record

import (
	"anvil/schemas"
	"anvil/stages/internal/jsontree"
)

// BenchmarkSchema is the id of capacity cells.
const BenchmarkSchema schemas.ID = "anvil-serving.benchmark/v1"

// A Shape is one of the forms that benchmark records had in time.
type Shape string

// The shapes, oldest first.
const (
	ShapeNone   Shape = "none"
	ShapeV2     Shape = "capacity-v2"
	ShapeV3     Shape = "capacity-v3"
	ShapeV4     Shape = "capacity-v4-reasoning"
	ShapeNewest Shape = "newest"
)

// benchmarkCore are the members that every shape has. The alien record with the
// same label has seven of them.
var benchmarkCore = []string{
	"base_url", "completed", "concurrency", "context_tokens", "max_context_tokens", "max_tokens", "metrics", "model", "requests",
	"run_id", "schema", "serve_flags",
}

// newestMarks are members that only the newest shape has; the schema tells it
// by the same ones.
var newestMarks = []string{"metric_population", "performance_eligible", "responses_received", "sampling"}

func benchmarkShape(doc jsontree.Value) Shape {
	for _, name := range newestMarks {
		if doc.Get(name).Exists() {
			return ShapeNewest
		}
	}
	switch p := doc.Get("measurement_protocol"); Shape(p.Str()) {
	case ShapeV2, ShapeV3, ShapeV4:
		return Shape(p.Str())
	default:
		if !p.Exists() {
			return ShapeNone
		}
		return "" // a protocol that nobody knows: the schema says so
	}
}

// A capacityCell is a benchmark record in the middle of its check.
type capacityCell struct {
	*checker
	doc   jsontree.Value
	shape Shape

	requests, completed, failed int64
	concurrency                 int64
	wall                        figure
	hasRows                     bool
	first                       bool // rows know their first output: it is the boundary, not ttft
	rows                        []capacityRow
	failures                    []capacityFailure
	metrics                     metricSet // recomputed; nil without rows
}

func checkBenchmark(c *checker, doc jsontree.Value) {
	b := &capacityCell{checker: c, doc: doc, shape: benchmarkShape(doc)}
	if b.shape != "" && !missesCore(doc) {
		shape := string(b.shape)
		c.report.Shape = &shape
	}
	c.report.runID = doc.Get("run_id").Str()
	c.conforms(BenchmarkSchema, doc)
	b.read()
	b.checkShape()
	b.checkCounts()
	b.checkWorkload()
	b.checkClock()
	b.checkRows()
	b.checkFailures()
	b.checkCoverage()
	b.checkPlausible()
	b.checkMetrics()
	b.checkPopulation()
	c.noTexts(doc)
	b.addNotes()
}

// missesCore tells a record of another kind under the same label.
func missesCore(doc jsontree.Value) bool {
	n := 0
	for _, name := range benchmarkCore {
		if doc.Get(name).Exists() {
			n++
		}
	}
	return n < len(benchmarkCore)-2
}

// read takes what several rules need. Values of a wrong type stay zero; the
// schema has named them.
func (b *capacityCell) read() {
	b.requests, _ = b.doc.Get("requests").Int()
	b.completed, _ = b.doc.Get("completed").Int()
	b.failed, _ = b.doc.Get("failed").Int()
	b.concurrency, _ = b.doc.Get("concurrency").Int()
	b.wall = figureOf(b.doc.Get("wall_clock_ms"))
	rows := b.doc.Get("request_timings")
	b.hasRows = rows.Is(jsontree.Array)
	b.first = b.doc.At("metrics", "time_to_first_output_p50_ms").Exists() || b.shape == ShapeNewest || b.shape == ShapeV4
	for i, v := range rows.Elems() {
		b.rows = append(b.rows, b.readRow(v, jsontree.Index("/request_timings", i)))
	}
	for i, v := range b.doc.Get("failures").Elems() {
		b.failures = append(b.failures, b.readFailure(v, jsontree.Index("/failures", i)))
	}
	if !b.hasRows {
		b.unverified = true
	}
}

func (b *capacityCell) checkCounts() {
	count := func(name string, computed int64) {
		b.recomputed = append(b.recomputed, jsontree.Member{Name: name, Value: computed})
	}
	failures := b.doc.Get("failures")
	if failures.Is(jsontree.Array) {
		b.intIs("/failed", "counts.failed", b.doc.Get("failed"), int64(len(b.failures)), "%s failed, but %d failures are listed", b.doc.Get("failed").Raw(), len(b.failures))
	}
	if b.hasRows {
		b.intIs("/completed", "counts.completed", b.doc.Get("completed"), int64(len(b.rows)), "%s completed, but there are %d rows", b.doc.Get("completed").Raw(), len(b.rows))
	}
	if b.hasRows && failures.Is(jsontree.Array) {
		planned := int64(len(b.rows) + len(b.failures))
		count("requests", planned)
		count("completed", int64(len(b.rows)))
		count("failed", int64(len(b.failures)))
		b.intIs("/requests", "counts.requests", b.doc.Get("requests"), planned, "%s requests, but rows and failures are %d", b.doc.Get("requests").Raw(), planned)
	} else if failures.Is(jsontree.Array) {
		count("failed", int64(len(b.failures)))
	}
	if b.shape != ShapeNone && b.shape != "" {
		sum := totalOf(b.completed, b.failed)
		b.holds(sum.is(b.requests), "/requests", "counts.sum", b.doc.Get("requests"), sum.any(),
			"completed %d and failed %d do not add up to %d requests", b.completed, b.failed, b.requests)
	} else {
		b.holds(b.completed <= b.requests, "/completed", "counts.sum", b.doc.Get("completed"), nil, "more completed (%d) than requests (%d)", b.completed, b.requests)
	}
	if b.shape != ShapeNewest {
		return
	}
	received, eligible := totalOf(b.answered()), b.eligible()
	for _, f := range b.failures {
		received.add(one(f.received))
	}
	if b.hasRows {
		b.recomputed = append(b.recomputed, jsontree.Member{Name: "responses_received", Value: received.any()}, jsontree.Member{Name: "performance_eligible", Value: eligible})
	}
	b.totalIs("/responses_received", "counts.responses-received", b.doc.Get("responses_received"), received, "completed requests and failures with an answer are %v", received)
	b.boolIs("/performance_eligible", "counts.eligible", b.doc.Get("performance_eligible"), eligible, "true exactly when every request completed")
}

// answered is how many requests completed: the rows, where there are any to
// count, else what is stated.
func (b *capacityCell) answered() int64 {
	if b.hasRows {
		return int64(len(b.rows))
	}
	return b.completed
}

// eligible tells whether every request completed.
func (b *capacityCell) eligible() bool { return b.answered() == b.requests && len(b.failures) == 0 }

// checkCoverage: rows and failures together are the requests 0 to n−1, each
// list in order.
func (b *capacityCell) checkCoverage() {
	if b.shape == ShapeNone || b.shape == "" {
		return
	}
	seen := map[int64]bool{}
	last := int64(-1)
	visit := func(v jsontree.Value, pointer string, index int64, ok bool) {
		if !ok {
			return
		}
		at := pointer + "/request_index"
		b.holds(index > last, at, "index.order", v.Get("request_index"), nil, "index %d follows %d: want ascending order", index, last)
		b.holds(index < b.requests, at, "index.range", v.Get("request_index"), nil, "index %d of %d requests", index, b.requests)
		b.holds(!seen[index], at, "index.once", v.Get("request_index"), nil, "request %d has a row or a failure already", index)
		seen[index], last = true, index
	}
	for _, r := range b.rows {
		visit(r.v, r.pointer, r.index, r.hasIndex)
	}
	last = -1
	for _, f := range b.failures {
		visit(f.v, f.pointer, f.index, f.hasIndex)
	}
}

// checkPlausible: nothing outlasts the cell, and no more ran than there were workers.
func (b *capacityCell) checkPlausible() {
	if !b.wall.ok {
		b.impliedWall()
		return
	}
	sum := 0.0
	outlasts := func(v jsontree.Value, pointer string, ms figure) {
		if !ms.ok {
			return
		}
		sum += ms.v
		b.holds(ms.v <= b.wall.v || near(ms.v, b.wall.v), pointer, "wall.slowest", v, nil, "%v ms outlast the cell's %v ms", ms.v, b.wall.v)
	}
	for _, r := range b.rows {
		outlasts(r.v.Get("e2e_ms"), r.pointer+"/e2e_ms", r.e2e)
	}
	for _, f := range b.failures {
		outlasts(f.v.Get("elapsed_ms"), f.pointer+"/elapsed_ms", f.elapsed)
	}
	limit := b.wall.v * float64(b.concurrency)
	b.holds(sum <= limit || near(sum, limit), "/concurrency", "wall.in-flight", b.doc.Get("concurrency"), nil,
		"requests lasted %.1f ms in all, more than %d workers have in %.1f ms", sum, b.concurrency, b.wall.v)
}

// impliedWall bounds what has no rows: tokens over throughput is the wall clock.
func (b *capacityCell) impliedWall() {
	m := b.doc.Get("metrics")
	tokens, rate, p95 := figureOf(m.Get("output_tokens")), figureOf(m.Get("throughput_tok_s")), figureOf(m.Get("e2e_p95_ms"))
	if !tokens.ok || !rate.ok || !p95.ok || rate.v <= 0 {
		return
	}
	wall := tokens.v / rate.v * 1000
	b.holds(p95.v <= wall || near(p95.v, wall), "/metrics/e2e_p95_ms", "wall.slowest", m.Get("e2e_p95_ms"), nil,
		"it outlasts the wall clock of %.1f ms that output tokens and throughput imply", wall)
}
