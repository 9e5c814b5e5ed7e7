// Package load generates load and takes the evidence: it sends prepared
// requests when a schedule or a closed loop wants them, stamps what happens on
// the connection, and keeps the bytes of every answer for decoding after the
// phase.
//
// Nothing is decoded, hashed or logged between two stamps. What a request
// needs is prepared before the phase; while it is open a worker writes only
// the [Sample] of the request that it holds, and hands blocks of raw reads to
// the one goroutine that appends them to the capture. The bytes are looked at
// live by a [Watcher] alone, for the first output, the end mark and the size
// of an event, because the limits of a request need these.
//
// All stamps are nanoseconds from the phase's start on the monotonic clock of
// package time.
package load

import (
	"net/http"
	"time"
)

// None is the stamp of what did not happen.
const None int64 = -1

// A Sample is what one try of a request left behind. It holds no pointers, so
// that the collector never scans the slab of a phase.
type Sample struct {
	Due, Start, Connected, Sent, Written int64
	Headers, FirstByte                   int64
	FirstOutput, LastOutput              int64 // as the watcher saw them; decoding has the last word
	End                                  int64

	Bytes      int64 // of the body, transfer coding removed
	RetryAfter int64 // that the server asks for, ns; 0 for none
	Conn       int32 // number of the connection, from 1; 0 before there was one
	Status     int32 // 0 without a response
	Ending     Ending
	Reused     bool
	Replaced   bool // a kept connection had been closed by the server and was replaced
	Begun      bool
}

// NewSample returns the sample of a request that was due then and has not begun.
func NewSample(due int64) Sample {
	return Sample{
		Due: due, Start: None, Connected: None, Sent: None, Written: None, Headers: None, FirstByte: None,
		FirstOutput: None, LastOutput: None, End: None,
	}
}

// An Ending says why the reading of an answer ended.
type Ending uint8

// The endings. Those up to EndCapped have a response.
const (
	EndNone    Ending = iota // never begun
	EndMark                  // the answer's own end mark
	EndBody                  // the body's declared end
	EndClose                 // the connection closed where that ends the body
	EndCut                   // the connection closed before the body's declared end
	EndCapped                // as much of an error's body as is read
	EndReset                 // the connection broke after the headers
	EndConnect               // no connection: refused, DNS, TLS, proxy
	EndBroken                // the connection broke before the headers, or they were no HTTP
	EndStalledFirst
	EndStalledMid
	EndTotal
	EndEventTooLarge
	EndBodyTooLarge
	EndAborted // given up by the client: drained out or stopped
	EndCancel  // given up by the client by intention
	EndShed    // due while every slot was taken, and dropped
)

// Refused tells whether a try came to nothing in a way that a further try may
// mend: no connection, no answer on it, or a status that says busy or broken. It
// does not say that the server never saw the request: a connection that broke
// before the headers may have carried it whole.
func (s *Sample) Refused() bool {
	if s.Ending == EndConnect || s.Ending == EndBroken && s.Status == 0 {
		return true
	}
	whole := s.Ending != EndNone && s.Ending <= EndReset
	return whole && (s.Status == http.StatusTooManyRequests || s.Status >= 500)
}

// A Fault is the cause of an ending, for people; Class is a short word.
type Fault struct{ Class, Message string }

// Limits are the only limits on a request. Zero is no limit; but of an error's
// body 64 KiB are read then.
type Limits struct {
	Connect, FirstOutput, Gap, Total time.Duration
	MaxBody, MaxError                int64 // bytes
}

// Saw is what a watcher found in the bytes it was fed.
type Saw uint8

// The findings.
const (
	SawOutput     Saw = 1 << iota // an output event was completed
	SawEnd                        // the answer's own end mark
	SawLargeEvent                 // an event grew over its limit
	SawLargeBody                  // the body did, once its coding was removed
)

// A Watcher follows one answer while it arrives; it is for one goroutine.
type Watcher interface {
	Reset(head []byte)    // before each answer, with its header block
	Feed(body []byte) Saw // the next bytes, valid during the call
	Close()               // frees what an answer held
}
