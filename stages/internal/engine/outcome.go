package engine

import (
	"cmp"
	"slices"

	"anvil/stages/record"
)

// A verdict is one outcome that applies.
type verdict struct {
	outcome record.Outcome
	fault
}

// verdicts lists every failure that applies, in the order in which they win.
func (d *Decoder) verdicts(e Ending) []verdict {
	var list []verdict
	add := func(o record.Outcome, f *fault) {
		if f != nil {
			list = append(list, verdict{o, *f})
		}
	}
	if d.head == nil {
		add(d.noHead(e))
		return list
	}
	if d.in.mode == httpError {
		add(refusal(d.head.Status), httpFault(*d.head, d.in.kept))
		add(limitHit(e))
		return list
	}
	if e.Kind == EndTransport { // the head says nothing that can be read on
		add(record.OutcomeTransport, newFault(cmp.Or(e.Class, "protocol"), cmp.Or(e.Message, "the response cannot be read")))
	}
	r := &d.in.r
	add(record.OutcomeInBandError, cmp.Or(r.fault, r.failedFinish()))
	add(record.OutcomeMalformed, d.bad(e))
	add(limitHit(e))
	add(record.OutcomeCut, d.broken(e))
	return list
}

// noHead is what became of a request that was never answered.
func (d *Decoder) noHead(e Ending) (record.Outcome, *fault) {
	if o, f := limitHit(e); f != nil {
		return o, f
	}
	return record.OutcomeTransport, newFault(cmp.Or(e.Class, "transport"), cmp.Or(e.Message, "no answer"))
}

// refusal tells a server that refuses load from one that fails.
func refusal(status int) record.Outcome {
	switch status {
	case 429, 503, 529:
		return record.OutcomeRefusedLoad
	default:
		return record.OutcomeHTTPError
	}
}

// limitHit names the plan's limit, or the client's own decision, that ended the
// reading.
func limitHit(e Ending) (record.Outcome, *fault) {
	var o record.Outcome
	var message string
	switch e.Kind {
	case EndFirstOutput:
		o, message = record.OutcomeStalledFirst, "no output within the limit for the first one"
	case EndGap:
		o, message = record.OutcomeStalledMid, "no output within the limit for the gap between two"
	case EndTotal:
		o, message = record.OutcomeTotalTimeout, "not complete within the limit for the whole request"
	case EndAbort:
		o, message = record.OutcomeClientAbort, "the client gave the request up"
	default:
		return "", nil
	}
	return o, newFault(string(o), cmp.Or(e.Message, message))
}

// bad finds what is not as the API says.
func (d *Decoder) bad(e Ending) *fault {
	in := &d.in
	switch {
	case e.Kind == EndEventTooLarge || in.over == EndEventTooLarge:
		return newFault("event_too_large", "an event exceeds max_event")
	case e.Kind == EndBodyTooLarge || in.over == EndBodyTooLarge:
		return newFault("body_too_large", "the body exceeds max_body")
	case in.head != nil:
		return in.head
	case in.encoded != nil && (e.Kind == EndClean || in.encoded.message != "gzip: unexpected EOF"):
		return in.encoded
	case in.r.bad != nil:
		return in.r.bad
	case in.mode == streamed && in.r.payloads == 0 && in.split.foreign():
		return newFault("not_a_stream", "the body is no event stream: "+sample(in.kept))
	case d.partial && !e.Open && in.r.first().finish == "":
		return brokenEvent(in.split.broken())
	}
	return nil
}

// brokenEvent is for a body that the server ended, as its framing says, inside
// the JSON of an event. Where only the connection ended it, it was cut.
func brokenEvent(data []byte) *fault {
	if data == nil {
		return nil
	}
	return newFault("json", "the body ends inside an event: "+sample(data))
}

// broken tells why the answer is not complete: something ended it before choice 0
// had a finish reason.
func (d *Decoder) broken(e Ending) *fault {
	if d.in.r.complete(d.p.Adapter, e) {
		return nil
	}
	switch {
	case e.Kind == EndCut:
		return newFault(cmp.Or(e.Class, "eof"), cmp.Or(e.Message, "the connection broke off before a finish reason"))
	case e.Kind == EndMark || d.in.r.ended:
		return newFault("done_without_finish", "the end mark came without a finish reason")
	case e.Kind == EndClean:
		return newFault("end_without_finish", "the body ended without a finish reason")
	default:
		return nil // a limit or the client ended it
	}
}

// complete tells whether choice 0 was finished in the words of its API. Where an
// API has none, a clean end or its end mark says so.
func (r *reading) complete(a Adapter, e Ending) bool {
	if _, ok := a.(unfinished); ok {
		return e.Kind == EndClean || r.ended
	}
	return r.first().finish != ""
}

// unfinished is an adapter of an API that has no finish reason.
type unfinished interface{ hasNoFinishReason() }

// failedFinish is a finish reason that is a failure.
func (r *reading) failedFinish() *fault {
	for _, c := range r.choices {
		if c.finish == "error" || c.finish == "abort" {
			return newFault("finish_"+c.finish, "the server ended the answer with finish reason "+c.finish)
		}
	}
	return nil
}

// success tells which of the complete ones an answer is.
func (d *Decoder) success() record.Outcome {
	switch r := &d.in.r; {
	case truncating(r.first().finish):
		return record.OutcomeTruncated
	case len(d.events) == 0 && !r.anyOutput():
		return record.OutcomeEmpty
	default:
		return record.OutcomeOK
	}
}

// truncating are the words for an answer that was cut at its cap.
func truncating(finish string) bool {
	return slices.Contains([]string{"length", "max_tokens", "max_output_tokens", "incomplete", "limit"}, finish)
}

// understood are the words for an answer that ended by itself.
func understood(finish string) bool {
	return slices.Contains([]string{
		"", "stop", "tool_calls", "function_call", "eos", "word", "eos_token", "stop_sequence", "end_turn", "tool_use", "completed",
	}, finish)
}

// anyOutput is asked of answers without arrivals: those that were not streamed.
func (r *reading) anyOutput() bool {
	for _, c := range r.choices {
		if len(c.content)+len(c.reasoning)+len(c.refusal) > 0 || len(c.tools) > 0 {
			return true
		}
	}
	return false
}

// successNotes are what is odd about an answer that counts.
func (d *Decoder) successNotes(e Ending) []string {
	var notes []string
	r := &d.in.r
	switch finish := r.first().finish; {
	case finish == "content_filter":
		notes = append(notes, "content_filter")
	case !truncating(finish) && !understood(finish):
		notes = append(notes, "unknown_finish_reason")
	}
	if _, ok := d.p.Adapter.(unfinished); ok {
		notes = append(notes, "no_finish_reason")
	}
	if d.in.mode == streamed && !r.ended {
		notes = append(notes, "no_done_marker")
	}
	if e.Kind == EndCut {
		notes = append(notes, "unclean_end")
	}
	return notes
}
