package engine

import (
	"net/http"

	"anvil/stages/record"
)

// A Head is the head of an HTTP answer.
type Head struct {
	Status int
	Header http.Header
}

// A Read is one read of an answer's body: when it arrived, not what it held.
type Read struct {
	At        int64  // arrival, ns from the phase's start
	SeenEmpty *int64 // the last moment before it when the socket was seen empty; null when unknown
	Delay     *int64 // the read's return minus At; null with user-space stamps
}

// An Ending is how the reading of an answer ended.
type Ending struct {
	Kind    EndKind
	Open    bool   // EndClean by nothing but the connection's close: the framing names no end
	At      int64  // when; unused for EndMark, which is stamped by its read
	Class   string // for EndCut and EndTransport: refused, reset, eof, tls, dns, timeout, protocol
	Message string // the error's text, secrets removed
}

// An EndKind is what ended the reading.
type EndKind uint8

// The ways in which the reading of an answer ends.
const (
	EndNone          EndKind = iota // still being read
	EndClean                        // the body ended where its framing says
	EndMark                         // the watcher saw the answer's end mark
	EndEnough                       // an error's body, read as far as max_error
	EndCut                          // head received, then the connection or the body broke off
	EndTransport                    // no head was received
	EndFirstOutput                  // limit of the first output
	EndGap                          // limit of the gap between two outputs
	EndTotal                        // limit of the whole request
	EndAbort                        // the client gave up by plan or by an interrupt
	EndBodyTooLarge                 // the body exceeds max_body
	EndEventTooLarge                // the watcher saw an event above max_event
)

// Limits bound what is read, in bytes; zero is no limit, and 64 KiB of an error.
type Limits struct {
	MaxEvent int64 // data of one event
	MaxBody  int64 // body, as received and after decompression
	MaxError int64 // body of an HTTP error
}

// Want is what the decoder must know of the request.
type Want struct {
	Model     string // asked for; "": the protocol's
	MaxTokens int    // asked for
	Limits    Limits
	StoreText bool
	Logprobs  bool              // keep them
	Plain     func(body []byte) // is shown the body as it is read, decompressed; may be nil
}

// An Answer is all that an attempt says of the answer itself.
type Answer struct {
	FirstOutput, FirstContent, LastOutput, End *int64 // ns from the phase's start
	FirstByte                                  *int64 // of the body

	Arrivals     []int64 // as record.Attempt has them: the first an offset, then differences
	ArrivalKinds string
	Coalesced    string
	SeenEmpty    []*int64
	ClientDelay  []int64

	Outcome record.Outcome
	// Notes are the outcomes that apply beside Outcome, and of these words:
	// no_done_marker, unclean_end and partial_event (how it ended),
	// no_finish_reason (its API has none), content_filter, unknown_finish_reason,
	// completed_at_cap, model_differs, no_content_type, null_event, empty_event and
	// foreign_event (payloads that say nothing), invalid_utf8, think_tags,
	// reasoning_names_differ, too_many_choices.
	Notes         []string
	Error         *record.AttemptError
	HTTPStatus    *int
	FinishReasons []string
	DoneMarker    bool
	Model         *string
	Usage         record.Usage
	Text          *string
	Reasoning     *string
	ToolCalls     []record.ToolCall
	TextSHA256    [32]byte
	TextTruncated bool
	Choices       int

	// Content is the whole text of choice 0, for canaries and code words; it is
	// there also when the text is not stored.
	Content string
	// Logprobs are of choice 0's tokens; nil where they were not asked for or did
	// not come.
	Logprobs []Logprob
}

// Fail adds an outcome that is found after decoding: a canary or a length. The
// earlier outcome of streams.md 5 wins and the other becomes a note.
func (a *Answer) Fail(o record.Outcome) {
	if a.Outcome.Success() {
		a.Outcome = o
		return
	}
	a.Notes = append(a.Notes, string(o))
}

// Put copies the answer into an attempt; the stamps of the request's own way
// (due to headers) stay.
func (a Answer) Put(to *record.Attempt) {
	to.T.FirstOutput, to.T.FirstContent, to.T.LastOutput, to.T.End = a.FirstOutput, a.FirstContent, a.LastOutput, a.End
	if a.FirstByte != nil {
		to.T.FirstByte = a.FirstByte
	}
	to.Arrivals, to.ArrivalKinds, to.Coalesced = a.Arrivals, a.ArrivalKinds, a.Coalesced
	to.SeenEmpty, to.ClientDelay = a.SeenEmpty, a.ClientDelay
	to.Outcome, to.Notes, to.Error, to.HTTPStatus = a.Outcome, a.Notes, a.Error, a.HTTPStatus
	to.FinishReasons, to.DoneMarker, to.Model, to.Usage = a.FinishReasons, a.DoneMarker, a.Model, a.Usage
	to.Text, to.Reasoning, to.ToolCalls = a.Text, a.Reasoning, a.ToolCalls
	to.TextSHA256, to.TextTruncated, to.Choices = a.TextSHA256, a.TextTruncated, a.Choices
}
