package engine

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"anvil/stages/internal/sse"
)

// An intake takes an answer's bytes apart: it undoes gzip, holds the limits,
// divides the body and has the adapter read each event. Watcher and Decoder are
// two uses of it.
type intake struct {
	p      *Protocol
	limits Limits
	r      reading
	event  func()       // called after each event
	shown  func([]byte) // the plaintext; may be nil

	mode     mode
	zip      *inflater
	split    splitter
	received int64 // bytes of the body
	plain    int64 // of them after decompression
	kept     []byte
	keep     int64 // how much of the body is kept
	over     EndKind
	head     *fault // what the head says that is not as the API says
	encoded  *fault // what the compression is not
}

type mode uint8

const (
	streamed  mode = iota
	whole          // a body that is not streamed
	httpError      // a body outside 2xx
)

// How much is kept of a body that calls itself a stream, and of one that does not:
// either may turn out to be an error in one piece.
const (
	keptHead = 64 << 10
	keptOdd  = 1 << 20
)

const defaultMaxError = 64 << 10

func (in *intake) reset(h Head, live bool) {
	in.close()
	in.r.reset(live)
	in.received, in.plain, in.over, in.head, in.encoded = 0, 0, EndNone, nil, nil
	in.kept, in.keep = in.kept[:0], 0
	in.split.reset(in.p.Adapter.Framing(), in.limits.MaxEvent)
	in.mode = in.modeOf(h)
	if live {
		in.keep = 0
	} else {
		in.head = in.judgeHead(h)
	}
	if e := encodingOf(h); e == "gzip" || e == "x-gzip" {
		in.zip = newInflater()
	}
}

// close ends the inflater's coroutine.
func (in *intake) close() {
	if in.zip != nil {
		in.zip.stop()
		in.zip = nil
	}
}

func (in *intake) modeOf(h Head) mode {
	switch {
	case h.Status < 200 || h.Status > 299:
		in.keep = in.maxError()
		return httpError
	case !in.p.Stream:
		in.keep = 1 << 62
		return whole
	default:
		in.keep = keptHead
		return streamed
	}
}

func (in *intake) maxError() int64 {
	if in.limits.MaxError > 0 {
		return in.limits.MaxError
	}
	return defaultMaxError
}

// judgeHead finds a 2xx that cannot be what was asked for.
func (in *intake) judgeHead(h Head) *fault {
	if in.mode == httpError {
		return nil
	}
	if h.Status == http.StatusNoContent || h.Status == http.StatusResetContent {
		return newFault("no_body", "HTTP "+http.StatusText(h.Status)+" carries no answer")
	}
	switch e := encodingOf(h); e {
	case "", "identity", "gzip", "x-gzip":
	default:
		return newFault("content_encoding", "content encoding "+e+" was not asked for and is not understood")
	}
	got := h.Header.Get("Content-Type")
	if got == "" {
		in.r.note("no_content_type")
		in.keep = max(in.keep, keptOdd)
		return nil
	}
	if want := in.p.contentTypes(); !matches(got, want) {
		in.keep = max(in.keep, keptOdd)
		return newFault("content_type", "content type "+got+" is not "+want[0])
	}
	return nil
}

func encodingOf(h Head) string {
	return strings.ToLower(strings.TrimSpace(h.Header.Get("Content-Encoding")))
}

// Compressed tells whether the body is.
func (h Head) Compressed() bool { e := encodingOf(h); return e != "" && e != "identity" }

// contentTypes are those that an answer may have, the usual one first.
func (p *Protocol) contentTypes() []string {
	switch {
	case !p.Stream:
		return []string{"application/json", "text/json", "text/plain", "application/problem+json"}
	case p.Adapter.Framing() == Lines:
		return []string{"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines", "application/json-seq"}
	default:
		return []string{"text/event-stream"}
	}
}

func matches(got string, want []string) bool {
	media, _, err := mime.ParseMediaType(got)
	if err != nil {
		media, _, _ = strings.Cut(got, ";")
		media = strings.ToLower(strings.TrimSpace(media))
	}
	return slices.Contains(want, media)
}

// feed takes the bytes of one read.
func (in *intake) feed(b []byte) (end EndKind) {
	if in.over != EndNone {
		return in.over
	}
	b, full := in.limit(b, &in.received)
	if in.zip == nil {
		end = in.take(b)
	} else {
		end = in.inflate(b, false)
	}
	if end == EndNone && full {
		end = EndBodyTooLarge
	}
	in.over = end
	return end
}

// limit cuts what exceeds max_body.
func (in *intake) limit(b []byte, count *int64) (within []byte, exceeded bool) {
	if in.limits.MaxBody > 0 && *count+int64(len(b)) > in.limits.MaxBody {
		b, exceeded = b[:in.limits.MaxBody-*count], true
	}
	*count += int64(len(b))
	return b, exceeded
}

func (in *intake) inflate(b []byte, last bool) (end EndKind) {
	err := in.zip.feed(b, last, func(plain []byte) bool {
		plain, full := in.limit(plain, &in.plain)
		end = in.take(plain)
		if end == EndNone && full {
			end = EndBodyTooLarge
		}
		return end == EndNone
	})
	if err != nil && in.encoded == nil {
		in.encoded = newFault("content_encoding", "gzip: "+err.Error())
	}
	return end
}

// take takes plaintext.
func (in *intake) take(b []byte) EndKind {
	if in.shown != nil {
		in.shown(b)
	}
	room := max(in.keep-int64(len(in.kept)), 0)
	in.kept = append(in.kept, b[:min(room, int64(len(b)))]...)
	switch in.mode {
	case httpError:
		return in.takeError(b)
	case whole:
		return EndNone
	case streamed:
	}
	in.split.push(b)
	var e sse.Event
	for in.split.next(&e) {
		if in.read(e); in.r.ended {
			return EndMark
		}
	}
	if in.split.tooLarge() {
		return EndEventTooLarge
	}
	return EndNone
}

func (in *intake) takeError(b []byte) EndKind {
	if in.zip == nil {
		in.plain += int64(len(b))
	}
	if in.plain >= in.maxError() {
		return EndEnough
	}
	return EndNone
}

// read has the adapter read one event.
func (in *intake) read(e sse.Event) {
	in.r.begin()
	switch {
	case e.Bare:
		in.readBare(e)
	default:
		in.p.Adapter.event(&in.r, e.Name, e.Data)
	}
	in.event()
}

// readBare: an event that is only a name is none by the standard, but a server
// that says nothing but "error" or "done" has said it.
func (in *intake) readBare(e sse.Event) {
	if string(e.Name) == "error" {
		in.r.fail("error", "event: error")
	}
	if _, ok := in.p.Adapter.(generateSSE); ok && string(e.Name) == "done" {
		in.r.end()
	}
}

// finish ends a body that ended cleanly. It tells whether it ended inside an event.
func (in *intake) finish() (partial bool) {
	if in.over != EndNone {
		return false
	}
	if in.zip != nil {
		if in.over = in.inflate(nil, true); in.over != EndNone {
			return false
		}
	}
	if in.mode != streamed {
		return false
	}
	var e sse.Event
	event, partial := in.split.finish(&e)
	if event {
		in.read(e)
	}
	return partial
}
