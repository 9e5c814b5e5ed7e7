package record

import (
	"fmt"

	"anvil/stages/internal/jsontree"
)

// A capacityRow is one completed request with its figures recomputed.
type capacityRow struct {
	v       jsontree.Value
	pointer string

	index    int64
	hasIndex bool
	planned  counted

	first, ttft, e2e          figure // as stored
	prompt, output            counted
	generation, visible       figure // recomputed
	prefill, decode, tpot     figure
	reasoning, content        counted
	usage                     bool // tokens are known from usage
	canary, canaryPassed      bool
	controlled, exact, unseen bool
}

// readRow takes the measured values of a row or a failure's response_timing and
// computes the others (records.md 4, 1 to 3).
func (b *capacityCell) readRow(v jsontree.Value, pointer string) capacityRow {
	r := capacityRow{v: v, pointer: pointer}
	r.index, r.hasIndex = v.Get("request_index").Int()
	r.planned = countedOf(v.Get("planned_context_tokens"))
	r.first, r.ttft, r.e2e = figureOf(v.Get("time_to_first_output_ms")), figureOf(v.Get("ttft_ms")), figureOf(v.Get("e2e_ms"))
	r.usage = v.Get("output_token_source").Str() != "content_chunks"
	if r.usage {
		r.prompt, r.output = countedOf(v.Get("prompt_tokens")), countedOf(v.Get("output_tokens"))
	}
	r.reasoning, r.content = countedOf(v.Get("reasoning_chunks")), countedOf(v.Get("content_chunks"))
	boundary := r.ttft
	if b.first {
		boundary = r.first
	}
	r.derive(boundary, figureOf(v.Get("generation_ms")))
	canary, controlled := v.Get("request_canary"), v.Get("controlled_output")
	r.canary, r.controlled = canary.Is(jsontree.Object), controlled.Is(jsontree.Object)
	r.canaryPassed, _ = canary.Get("passed").Bool()
	r.exact, _ = controlled.Get("exact_adherence").Bool()
	r.unseen = r.controlled && controlled.Get("exact_adherence").Is(jsontree.Null)
	return r
}

// derive computes what follows from the measured values. boundary is where
// prefill ends, stored the generation that the record states, if any.
func (r *capacityRow) derive(boundary, stored figure) {
	if r.e2e.ok && boundary.ok {
		r.generation = known(r.e2e.v - boundary.v)
	}
	if r.e2e.ok && r.ttft.ok {
		r.visible = known(r.e2e.v - r.ttft.v)
	}
	// A difference of two long times has fewer good digits than either; what is
	// stored stands for it in the quotients when it agrees that far.
	if stored.ok && r.generation.ok && withinUlps(stored.v, r.generation.v, r.e2e.v) {
		r.generation = stored
	}
	if r.prompt.ok && boundary.ok && boundary.v > 0 {
		r.prefill = known(Prefill(r.prompt.v, boundary.v))
	}
	if r.output.ok && r.output.v > 1 && r.generation.ok && r.generation.v > 0 {
		r.decode = known(Decode(r.output.v, r.generation.v))
		r.tpot = known(TPOT(r.output.v, r.generation.v))
	}
}

// withinUlps tells whether two differences of times around scale agree but for
// the rounding of the times themselves.
func withinUlps(a, b, scale float64) bool { return near(a, b) || abs(a-b) <= 1e-15*scale }

func abs(x float64) float64 {
	if x < 0 {
		return -x
	}
	return x
}

func (b *capacityCell) checkRows() {
	for i := range b.rows {
		r := &b.rows[i]
		b.checkTiming(r)
		b.checkContract(r.v, r.pointer, r.index)
		b.holds(!r.canary || r.canaryPassed, r.pointer+"/request_canary/passed", "row.passed", r.v.At("request_canary", "passed"), true,
			"a request whose canary failed is a failure, not a row")
		passed, ok := r.v.At("controlled_output", "passed").Bool()
		b.holds(!r.controlled || passed || !ok, r.pointer+"/controlled_output/passed", "row.passed", r.v.At("controlled_output", "passed"), true,
			"a request whose controlled output failed is a failure, not a row")
		if p := b.doc.Get("measurement_protocol"); p.Str() == string(ShapeV3) && r.reasoning.ok {
			b.holds(r.reasoning.v == 0, r.pointer+"/reasoning_chunks", "protocol.no-reasoning", r.v.Get("reasoning_chunks"), 0,
				"reasoning was streamed under capacity-v3, which leaves its time out of the rate: the protocol is capacity-v4-reasoning")
		}
	}
}

// checkTiming holds for rows and for the timing of a failure's answer.
func (b *capacityCell) checkTiming(r *capacityRow) {
	b.checkOrder(r)
	at := func(name string) (string, jsontree.Value) { return r.pointer + "/" + name, r.v.Get(name) }
	same := func(name, rule string, want figure, how string) {
		pointer, stored := at(name)
		slack := 0.0
		if name == "generation_ms" || name == "visible_generation_ms" {
			slack = 1e-15 * r.e2e.v
		}
		b.figureWithin(pointer, rule, stored, want, slack, "%s", how)
	}
	boundary := "ttft"
	if b.first {
		boundary = "first output"
	}
	same("generation_ms", "row.generation", r.generation, "e2e less "+boundary)
	same("visible_generation_ms", "row.visible-generation", r.visible, "e2e less ttft")
	same("effective_prefill_tok_s", "row.prefill", r.prefill, "prompt tokens · 1000 / "+boundary)
	same("decode_tok_s", "row.decode", r.decode, "(output tokens − 1) · 1000 / generation, null unless output tokens > 1 and generation > 0")
	for _, name := range []string{"tpot_ms", "mean_time_per_output_token_ms", "mean_inter_token_latency_ms"} {
		same(name, "row.tpot", r.tpot, "generation / (output tokens − 1), null unless output tokens > 1 and generation > 0")
	}
	if !r.usage {
		for _, name := range []string{"prompt_tokens", "output_tokens"} {
			pointer, stored := at(name)
			b.figureIs(pointer, "row.token-source", stored, figure{}, "without usage every token figure is null")
		}
	} else if b.first || b.hasRows {
		pointer, stored := at("output_tokens")
		b.holds(!stored.Is(jsontree.Null), pointer, "row.token-source", stored, nil, "the tokens come from usage, and are null")
	}
}

func (b *capacityCell) checkOrder(r *capacityRow) {
	type moment struct {
		name string
		at   figure
	}
	last := moment{"start", known(0)}
	for _, m := range []moment{{"time_to_first_output_ms", r.first}, {"ttft_ms", r.ttft}, {"e2e_ms", r.e2e}} {
		if !m.at.ok {
			continue
		}
		b.holds(m.at.v >= last.at.v, r.pointer+"/"+m.name, "row.order", r.v.Get(m.name), nil, "%v ms is before %s (%v ms)", m.at.v, last.name, last.at.v)
		last = m
	}
}

// checkContract checks the canary and the controlled output of an answer
// (records.md 2.3).
func (b *capacityCell) checkContract(v jsontree.Value, pointer string, index int64) {
	if b.shape != ShapeNewest {
		return
	}
	truncated, hasTruncated := v.Get("visible_content_truncated").Bool()
	capture := func(part jsontree.Value, at string) {
		if hasTruncated {
			b.boolIs(at+"/capture_complete", "row.capture", part.Get("capture_complete"), !truncated, "complete exactly when the answer fits the capture")
		}
	}
	words, _ := b.doc.Get("response_words").Int()
	canaries, _ := b.doc.Get("request_canaries").Bool()
	if k := v.Get("request_canary"); k.Exists() {
		at := pointer + "/request_canary"
		b.holds(k.Is(jsontree.Object) == canaries || !b.doc.Get("request_canaries").Is(jsontree.Bool), at, "canary.declared", k, nil, "request_canaries is %v", canaries)
		if k.Is(jsontree.Object) {
			capture(k, at)
			b.checkCanary(k, at, index)
		}
	}
	if o := v.Get("controlled_output"); o.Exists() {
		at := pointer + "/controlled_output"
		b.holds(o.Is(jsontree.Object) == (words > 0) || !b.doc.Get("response_words").Is(jsontree.Number), at, "controlled.declared", o, nil, "response_words is %d", words)
		if o.Is(jsontree.Object) {
			capture(o, at)
			b.checkControlled(o, at)
		}
	}
}

func (b *capacityCell) checkCanary(k jsontree.Value, at string, index int64) {
	if seed, ok := b.doc.Get("context_seed").Int(); ok {
		b.textIs(at+"/marker", "canary.marker", k.Get("marker"), Marker(seed, index), "the marker of request %d under seed %d", index, seed)
	}
	b.checkCanaryPassed(k, at)
}

// Marker is the canary of a request.
func Marker(seed, index int64) string { return fmt.Sprintf("ANVIL_REQ_%d_%05d", seed, index) }

func (b *capacityCell) checkControlled(o jsontree.Value, at string) {
	policy := b.doc.Get("controlled_output_policy").Str()
	b.textIs(at+"/policy", "controlled.policy", o.Get("policy"), policy, "the cell's policy is %s", policy)
	if words, ok := b.doc.Get("response_words").Int(); ok {
		b.intIs(at+"/requested_words", "controlled.requested", o.Get("requested_words"), words, "the cell asks for %d words", words)
	}
	b.checkControlledPassed(o, at, policy)
}
