package measure

import (
	"cmp"

	"anvil/stages/internal/target"
	"anvil/stages/record"
)

// remarks adds to a measurement what the transport and the tokenizer were, and
// why a record is missing.
func (w *witness) remarks(m *record.Measurement) {
	m.Connections.Compression = record.Compression{Asked: w.measure.Endpoint.Compression, Answers: w.target.Compressed}
	if n, ok := target.LocalPorts(); ok && !w.phase.killed {
		opened := m.Connections.Opened
		m.Connections.LocalPorts = &record.LocalPorts{Range: n, Opened: opened, Headroom: n - opened}
	}
	m.Tokens = w.recount.counts()
	m.Unpublished = w.unpublished()
}

// unpublished says why the record of another producer's kind that fits the load
// is not written. What both kinds count is when content streamed in; an answer
// that came in one piece has no such moment and would be booked as a failure.
func (w *witness) unpublished() map[string]string {
	if w.target.Protocol.Stream {
		return nil
	}
	name := liveName
	if w.measure.Load.closed() {
		name = benchmarkName
	}
	return map[string]string{name: `answers were not streamed ("stream": false in extra_body), and this kind of record counts only answers whose content was seen to come`}
}

// outputCap is the cap on each output as it was sent; the plan's where extra_body
// took it away, since no kind of record has a place for none.
func (w *witness) outputCap() int {
	return cmp.Or(w.target.Protocol.Cap(w.measure.MaxTokens), w.measure.MaxTokens)
}
