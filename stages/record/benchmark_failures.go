package record

import (
	"fmt"

	"anvil/stages/internal/jsontree"
)

// A capacityFailure is one entry of failures.
type capacityFailure struct {
	v        jsontree.Value
	pointer  string
	index    int64
	hasIndex bool
	received bool
	planned  counted
	elapsed  figure
	timing   *capacityRow // nil without an answer
}

func (b *capacityCell) readFailure(v jsontree.Value, pointer string) capacityFailure {
	f := capacityFailure{v: v, pointer: pointer}
	f.index, f.hasIndex = v.Get("request_index").Int()
	f.received, _ = v.Get("response_received").Bool()
	f.planned = countedOf(v.Get("planned_context_tokens"))
	f.elapsed = figureOf(v.Get("elapsed_ms"))
	if t := v.Get("response_timing"); t.Is(jsontree.Object) {
		r := b.readRow(t, pointer+"/response_timing")
		f.timing = &r
	}
	return f
}

func (b *capacityCell) checkFailures() {
	if b.shape != ShapeNewest {
		return
	}
	for i := range b.failures {
		f := &b.failures[i]
		b.holds(f.received == (f.timing != nil) || !f.v.Get("response_received").Is(jsontree.Bool), f.pointer+"/response_received", "failure.received",
			f.v.Get("response_received"), f.timing != nil, "an answer and its response_timing come together")
		b.checkAnswer(f)
		b.checkContract(f.v, f.pointer, f.index)
		b.checkClass(f)
		if f.timing == nil {
			continue
		}
		b.checkTiming(f.timing)
		b.checkContract(f.timing.v, f.timing.pointer, f.index)
		b.checkSaidTwice(f)
		if f.elapsed.ok && f.timing.e2e.ok {
			b.holds(f.elapsed.v >= f.timing.e2e.v, f.pointer+"/elapsed_ms", "failure.elapsed", f.v.Get("elapsed_ms"), nil, "shorter than its answer's e2e of %v ms", f.timing.e2e.v)
		}
	}
}

// checkAnswer: what arrived is described, and what the cell asks of every answer
// was looked for in it.
func (b *capacityCell) checkAnswer(f *capacityFailure) {
	if !f.received && f.timing == nil {
		return
	}
	missing := func(name, why string) {
		b.problem(f.pointer+"/"+name, "failure.answer", f.v.Get(name), nil, "an answer arrived, and %s", why)
	}
	if meta := f.v.Get("response_metadata"); !meta.Exists() || meta.Is(jsontree.Null) {
		missing("response_metadata", "nothing says how it ended and what it counted")
	}
	canaries, _ := b.doc.Get("request_canaries").Bool()
	if canaries && !f.v.Get("request_canary").Exists() {
		missing("request_canary", "the cell looks for a canary in each")
	}
	words, _ := b.doc.Get("response_words").Int()
	if words > 0 && !f.v.Get("controlled_output").Exists() {
		missing("controlled_output", fmt.Sprintf("the cell asks each for %d words", words))
	}
}

// checkClass: the class names the first check that failed, the canary before
// the length.
func (b *capacityCell) checkClass(f *capacityFailure) {
	class := f.v.Get("failure_class")
	canary, hasCanary := f.v.At("request_canary", "passed").Bool()
	words, hasWords := f.v.At("controlled_output", "passed").Bool()
	want := ""
	switch {
	case hasCanary && !canary:
		want = "request_canary_failed"
	case hasWords && !words:
		want = "controlled_output_failed"
	case class.Str() == "request_canary_failed", class.Str() == "controlled_output_failed":
		b.problem(f.pointer+"/failure_class", "failure.class", class, nil, "no failed check stands beside it")
		return
	default:
		return
	}
	// An answer without content fails as a stream before anything is looked for in it.
	if class.Str() != "stream_validation_failed" {
		b.textIs(f.pointer+"/failure_class", "failure.class", class, want, "the first check that failed")
	}
}

// checkSaidTwice: what a failure says beside and inside its answer is equal.
func (b *capacityCell) checkSaidTwice(f *capacityFailure) {
	timing, meta := f.timing.v, f.v.Get("response_metadata")
	for _, name := range []string{"request_index", "planned_context_tokens", "request_canary", "controlled_output"} {
		b.equal(timing.Get(name), f.timing.pointer+"/"+name, f.v.Get(name))
	}
	at := f.pointer + "/response_metadata"
	for _, name := range []string{"content_chunks", "reasoning_chunks", "output_token_source", "visible_content_truncated"} {
		b.equal(meta.Get(name), at+"/"+name, timing.Get(name))
	}
	usage := meta.Get("usage")
	if !usage.Is(jsontree.Object) || !f.timing.usage {
		return
	}
	b.equal(usage.Get("prompt_tokens"), at+"/usage/prompt_tokens", timing.Get("prompt_tokens"))
	b.equal(usage.Get("completion_tokens"), at+"/usage/completion_tokens", timing.Get("output_tokens"))
	prompt, ok := usage.Get("prompt_tokens").Int()
	output, ok2 := usage.Get("completion_tokens").Int()
	if sum := usage.Get("total_tokens"); ok && ok2 && sum.Is(jsontree.Number) {
		b.totalIs(at+"/usage/total_tokens", "failure.usage-total", sum, totalOf(prompt, output), "prompt and completion tokens together")
	}
}

func (b *capacityCell) equal(v jsontree.Value, pointer string, twin jsontree.Value) {
	if v.Exists() && twin.Exists() && !jsontree.Equal(v, twin) {
		b.problem(pointer, "failure.said-twice", v, nil, "differs from the same fact elsewhere in the failure (%s)", brief(twin))
	}
}

func brief(v jsontree.Value) string {
	if raw := string(v.Raw()); len(raw) <= 60 {
		return raw
	}
	return "another " + v.Kind().String()
}
