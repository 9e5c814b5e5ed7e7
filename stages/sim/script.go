package sim

// A script is how the answer of one request goes, once it has begun: how many
// of its output events leave and what comes after them.
type script struct {
	events   int    // that leave at their pace
	broken   int    // the event that is no JSON; -1: none
	blank    bool   // the events carry no characters
	finish   string // replaces the finish reason; "" keeps it
	tail     tail   // what follows the events
	comments bool   // while it hangs
	endless  bool   // the slot is held until the client goes away
}

type tail int

const (
	tailFinish     tail = iota // finish reason, usage, [DONE]
	tailEOF                    // nothing: a clean end of the body
	tailDone                   // [DONE]
	tailChunk                  // the connection closed inside a chunk
	tailError                  // an error object, [DONE]
	tailErrorText              // an error that is a string, [DONE]
	tailErrorEvent             // an event named error
	tailLateError              // finish reason, then an error object, [DONE]
	tailBody                   // one JSON completion instead of a stream
	tailHang                   // nothing until the client goes away
	tailDrip                   // a token every dripEvery until the client goes away
)

// newScript returns what a fault makes of an answer of n output events, of which
// those up to asked hold what the prompt asks for word by word.
func newScript(f fault, n, asked int) script {
	half := min(n, max(1, n/2))
	s := script{events: n, broken: -1}
	switch f.Outcome {
	case "in_band_error":
		s.events = half
		switch f.Variant {
		case "string":
			s.tail = tailErrorText
		case "event":
			s.tail = tailErrorEvent
		case "finish":
			s.finish = "error"
		case "first":
			s.events, s.tail = 0, tailError
		case "after_end":
			s.events, s.tail = n, tailLateError
		default:
			s.tail = tailError
		}
	case "malformed":
		if f.Variant == "body" {
			s.tail = tailBody
		} else {
			s.broken = half - 1
		}
	case "cut":
		s.events = half
		s.tail = map[string]tail{"eof": tailEOF, "done": tailDone, "chunk": tailChunk}[f.Variant]
	case "stalled_first":
		s = script{broken: -1, tail: tailHang, endless: true, comments: f.Variant == "comments"}
	case "stalled_mid":
		s = script{events: half, broken: -1, tail: tailHang, endless: true, comments: f.Variant == "comments"}
	case "total_timeout":
		s.tail, s.endless = tailDrip, true
	case "empty":
		s.finish = "stop"
		s.events = 0
		if f.Variant == "blanks" {
			s.events, s.blank = half, true
		}
	case "truncated":
		s.events, s.finish = max(half, asked), "length"
	}
	return s
}

// slotless says whether the fault answers at once, without the model.
func (f fault) slotless() bool {
	switch f.Outcome {
	case "refused_load", "http_error", "transport":
		return true
	case "malformed":
		return f.Variant == "html"
	}
	return false
}

// eventsAsked is how many events of p it takes to say what the prompt asks for
// word by word; 0 where it asks for nothing so.
func (a answer) eventsAsked(p pace, perEvent int) int {
	if a.asked == 0 {
		return 0
	}
	return p.reasoning + (a.asked+perEvent-1)/perEvent
}

// cut keeps the tokens that the events of p hold.
func (a answer) cut(p pace, perEvent int) answer {
	a.reasoning = a.reasoning[:min(len(a.reasoning), p.reasoning*perEvent)]
	content := (len(p.events) - p.reasoning) * perEvent
	a.content = a.content[:min(len(a.content), content)]
	return a
}
