package record

import (
	"bytes"
	"encoding/json"

	"anvil/pipeline/stage"
	"anvil/schemas"
	"anvil/stages/internal/jsontree"
)

// ownDocument checks a document of an anvil schema: its schema, and the
// limitation set that it embeds.
func (c *checker) ownDocument(id schemas.ID, doc jsontree.Value) {
	c.validates(id, doc)
	if own := doc.Get("limitations"); own.Exists() {
		c.ownLimitations(own, "/limitations")
	}
}

// validates uses package schemas, which knows every keyword.
func (c *checker) validates(id schemas.ID, doc jsontree.Value) {
	vs, err := schemas.Validate(id, doc.Go(func(text string) any { return json.Number(text) }))
	if err != nil {
		c.problem("", "schema.missing", jsontree.Value{}, nil, "%v", err)
		return
	}
	for _, v := range vs {
		c.problem(v.Pointer, "schema.violation", at(doc, v.Pointer), nil, "%s", v.Message)
	}
}

// ownLimitations: sorted, without duplicates, each with its metrics sorted.
func (c *checker) ownLimitations(v jsontree.Value, pointer string) (stage.LimitationSet, bool) {
	var set stage.LimitationSet
	if err := json.Unmarshal(v.Raw(), &set); err != nil {
		return nil, false // the schema names what is wrong
	}
	if want := stage.NewLimitationSet(set...); !sameSet(set, want) {
		c.problem(pointer, "limitations.order", v, nil, "the set is not sorted by code, origin, text and the rest without duplicates")
		return nil, false
	}
	return set, true
}

func sameSet(a, b stage.LimitationSet) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// limitationSet checks a file that is a set of its own: its bytes are canonical.
func (c *checker) limitationSet(doc jsontree.Value, text []byte) {
	const id schemas.ID = "anvil.limitations/v1"
	for _, e := range doc.Elems() {
		if !e.Get("code").Exists() {
			c.problem("", "kind.unknown", jsontree.Value{}, nil, "no record of a known kind: the document is an array of something else than limitations")
			return
		}
	}
	c.kind(id)
	c.integersFit(doc, "")
	c.validates(id, doc)
	if set, ok := c.ownLimitations(doc, ""); ok {
		if want, _ := set.Canonical(); !bytes.Equal(want, bytes.TrimRight(text, "\n")) {
			c.note("", "limitations.not-canonical", "the set holds, but its bytes are not the canonical ones: its digest is not that of references to it")
		}
	}
}

// at follows a JSON pointer.
func at(doc jsontree.Value, pointer string) jsontree.Value {
	for _, step := range schemas.Split(pointer) {
		switch doc.Kind() {
		case jsontree.Object:
			doc = doc.Get(step)
		case jsontree.Array:
			doc = doc.Elem(step)
		default:
			return jsontree.Value{}
		}
	}
	return doc
}

// checkMeasurement: outcomes add up to the plan, the clocks agree.
func checkMeasurement(c *checker, doc jsontree.Value) {
	c.ownDocument(MeasurementSchema, doc)
	outcomes := doc.At("accounting", "outcomes")
	sum := tallied(outcomes)
	if outcomes.Is(jsontree.Object) {
		c.totalIs("/accounting/planned", "accounting.sum", doc.At("accounting", "planned"), sum, "the outcomes add up to %v", sum)
	}
	c.recomputed = jsontree.Obj{{Name: "accounting", Value: jsontree.Obj{{Name: "planned", Value: sum.any()}}}}
	phase := doc.Get("phase")
	from, ok1 := phase.Get("started_at_unix_ns").Int()
	to, ok2 := phase.Get("finished_at_unix_ns").Int()
	wall := figureOf(phase.Get("wall_clock_ms"))
	if ok1 && ok2 && wall.ok {
		elapsed := betweenMS(from, to)
		// The wall clock may step; that is a limitation of the evidence, no fault.
		if abs(elapsed-wall.v) > max(5, wall.v*1e-4) {
			c.note("/phase/wall_clock_ms", "clock.agreement", "the wall-clock stamps are %.3f ms apart, the monotonic clock says %.3f ms", elapsed, wall.v)
		}
	}
}

// checkFinal: the identity of a final record and the count and digest of its
// limitations. What its figures stand on is `provenance verify`'s to check.
func checkFinal(c *checker, doc jsontree.Value) {
	c.ownDocument("anvil.record/v1", doc)
	if want, ok, err := CheckID(c.text); err != nil {
		c.problem("/id", "id.form", doc.Get("id"), nil, "%v", err)
	} else if !ok {
		c.problem("/id", "id.content", doc.Get("id"), want, "the id is not that of these bytes")
	}
	set, ok := stage.LimitationSet(nil), false
	if own := doc.Get("limitations"); own.Is(jsontree.Array) {
		ok = json.Unmarshal(own.Raw(), &set) == nil
	}
	if !ok {
		return
	}
	_, d := set.Canonical()
	c.intIs("/limitations_count", "limitations.count", doc.Get("limitations_count"), int64(len(set)), "the set has %d", len(set))
	c.textIs("/limitations_sha256", "limitations.digest", doc.Get("limitations_sha256"), d.String(), "the digest of the set")
	c.note("", "record.evidence", "only the record itself was looked at; `anvil provenance verify` checks the evidence under it")
	for i, cell := range doc.Get("cells").Elems() {
		c.checkFinalCell(cell, jsontree.Index("/cells", i))
	}
}

// checkFinalCell: every planned request has one outcome, and every metric
// counts it among samples or excluded.
func (c *checker) checkFinalCell(cell jsontree.Value, pointer string) {
	planned, ok := cell.At("accounting", "planned").Int()
	if !ok {
		return
	}
	for _, name := range []string{"outcomes", "verdicts"} {
		tally := cell.At("accounting", name)
		sum := tallied(tally)
		c.holds(sum.is(planned) || !tally.Is(jsontree.Object), pointer+"/accounting/"+name, "accounting.sum", tally, sum.any(), "the %s add up to %v, %d were planned", name, sum, planned)
	}
	for i, m := range cell.Get("metrics").Elems() {
		samples, ok1 := m.Get("samples").Int()
		excluded, ok2 := m.Get("excluded").Int()
		c.holds(!ok1 || !ok2 || totalOf(samples, excluded).is(planned), jsontree.Index(pointer+"/metrics", i)+"/excluded", "metrics.population", m.Get("excluded"), planned-samples,
			"%d samples and %d excluded are not the %d planned", samples, excluded, planned)
	}
}
