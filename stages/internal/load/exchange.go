package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"syscall"
	"time"
)

// A Worker sends one request after the other and owns what they need, so that
// a request allocates next to nothing. It is for one goroutine.
type Worker struct {
	client  *Client
	capture *Capture
	watch   Watcher

	wire  *wire
	out   []byte // the request as it is written
	body  body
	block *block
	tail  block // what the block after a full one begins with

	stream *stream // over HTTP/2, until its answer is read up
	guard  *guard  // of the same

	acked   uint64 // before this request; see unread
	settled int64

	request, try int32
	cancelAfter  time.Duration
	cancelAt     int64 // when the client gives up by intention; None before the first output
	fault        Fault
	s            *Sample
}

// NewWorker makes a worker of the client.
func (c *Client) NewWorker(capture *Capture, watch Watcher) *Worker {
	capture.join()
	return &Worker{client: c, capture: capture, watch: watch}
}

// A Job is one try of one request.
type Job struct {
	Request, Try int
	Payload      []byte
	CancelAfter  time.Duration // give up so long after the first output; 0: never
}

// Do sends a request and reads its answer into the capture. Everything that
// happened stands in s, which must be new; the fault is what broke, if anything did.
func (w *Worker) Do(ctx context.Context, job Job, s *Sample) Fault {
	w.s, w.fault = s, Fault{}
	w.request, w.try = int32(job.Request), int32(job.Try)
	w.cancelAfter, w.cancelAt = job.CancelAfter, None
	s.Begun = true
	s.Start = w.client.clock.now()
	w.capture.Mark(job.Request, job.Try, s, Fault{}) // should the process be killed: this one had begun
	s.Start = w.client.clock.now()
	keep := false
	if w.client.fleet != nil {
		keep = w.exchange2(ctx, job.Payload)
	} else {
		keep = w.exchange(ctx, job.Payload)
	}
	if s.End == None {
		s.End = w.client.clock.now()
	}
	w.fault = w.capture.fault(w.fault)
	w.flush()
	w.capture.Mark(job.Request, job.Try, s, w.fault)
	w.settled = 0
	if w.stream != nil {
		w.settle2()
	} else if !keep || w.client.cfg.Fresh || !w.settle() {
		w.release()
	}
	return w.fault
}

// Settled is how long, after the end of the last answer, the worker had to wait
// for the server to end its body too.
func (w *Worker) Settled() int64 { return w.settled }

// Close closes the worker's connection and its watcher.
func (w *Worker) Close() {
	w.release()
	w.watch.Close()
}

func (w *Worker) release() {
	w.client.drop(w.wire)
	w.wire = nil
}

func (w *Worker) exchange(ctx context.Context, payload []byte) (keep bool) {
	w.out = w.client.requestBytes(w.out, payload)
	head, err := w.ask(ctx)
	if err != nil {
		return false
	}
	w.s.Headers = w.wire.socket.at
	f, err := frameOf(head)
	w.client.tally.protocol.Store(f.version)
	w.s.Status, w.s.RetryAfter = int32(f.status), f.retry*int64(time.Second)
	w.keepHead(head)
	w.watch.Reset(head)
	if err != nil {
		w.failed(err, EndBroken)
		return false
	}
	w.read(f)
	return !f.close
}

// ask sends the request and reads the header block of its answer. A server that
// had closed a kept connection when the request came, so that nobody can have
// read a byte of it, is asked on a new one: llama-server announces keep-alive and
// closes after each stream. What the error means stands in the sample.
func (w *Worker) ask(ctx context.Context) ([]byte, error) {
	for {
		if !w.send(ctx) {
			return nil, errNotSent
		}
		head, err := w.wire.readHead(w.limit())
		if err == nil {
			return head, nil
		}
		if w.unread(err) {
			w.replace()
			continue
		}
		w.failed(err, EndBroken)
		return nil, err
	}
}

// unread tells whether a kept connection was closed on a request of which the
// server has taken in nothing.
func (w *Worker) unread(err error) bool {
	if w.s.Reused {
		w.client.stays.Store(false)
	}
	return w.s.Reused && !w.client.aborted.Load() && unread(w.wire.socket.Conn, err, w.acked)
}

var errNotSent = errors.New("not sent")

// send writes the request on a connection that the server has not closed. One
// that it closed before the first byte was written is replaced.
func (w *Worker) send(ctx context.Context) bool {
	for {
		if !w.connect(ctx) {
			return false
		}
		if w.s.Reused {
			w.acked = acked(w.wire.socket.Conn)
		}
		w.s.Sent = w.client.clock.now()
		_ = w.wire.conn.SetWriteDeadline(w.client.clock.at(w.limit()))
		n, err := w.wire.conn.Write(w.out)
		if err == nil {
			w.s.Written = w.client.clock.now()
			w.wire.socket.drained = w.s.Sent
			return true
		}
		if n == 0 && w.s.Reused && !isTimeout(err) && !w.client.aborted.Load() || w.unread(err) {
			w.replace()
			continue
		}
		if w.answeredEarly() {
			return true
		}
		w.failed(err, EndBroken)
		return false
	}
}

// answeredEarly tells whether a server that stopped reading had answered: a
// refusal of a long prompt comes so.
func (w *Worker) answeredEarly() bool {
	if isPipe(w.wire.socket.Conn) {
		return false
	}
	return w.wire.fill(w.client.clock.now()+int64(100*time.Millisecond)) == nil
}

func (w *Worker) replace() {
	w.release()
	w.s.Replaced = true
	w.client.stays.Store(false)
	w.client.tally.replaced.Add(1)
}

func (w *Worker) connect(ctx context.Context) bool {
	s := w.s
	if w.wire == nil && !w.client.cfg.Fresh && !s.Replaced {
		w.wire = w.client.takeIdle()
	}
	if w.wire != nil && (w.wire.closed || w.wire.from != w.wire.to || stale(w.wire.socket.Conn)) {
		w.replace()
	}
	if w.wire != nil && s.Connected != None { // opened for this request, whose server chose HTTP/1.1
		w.wire.used, s.Conn, s.Reused = true, w.wire.number, false
		return true
	}
	if s.Reused = w.wire != nil; s.Reused {
		s.Conn = w.wire.number
		if w.wire.used {
			w.client.tally.reused.Add(1)
		}
		w.wire.used = true
		return true
	}
	dialing, cancel := ctx, context.CancelFunc(func() {})
	if limit := w.limit(); limit < math.MaxInt64 {
		dialing, cancel = context.WithDeadline(ctx, w.client.clock.at(limit))
	}
	defer cancel()
	wire, err := w.client.dial(dialing, "http/1.1")
	if err != nil {
		w.failed(err, EndConnect)
		return false
	}
	w.wire, wire.used = wire, true
	s.Conn, s.Connected = wire.number, w.client.clock.now()
	return true
}

// read takes the body to its end, whatever that is.
func (w *Worker) read(f framing) {
	w.body.reset(w.wire, f)
	stream, most, over := w.bounds()
	for {
		limit, real := w.patience()
		p, err := w.body.next(limit)
		if len(p) > 0 && w.take(p, w.wire.socket.at, w.wire.socket.empty, stream, most, over) {
			return
		}
		if errors.Is(err, errLimit) && w.client.clock.now() < real {
			w.turnOld(w.client.clock.now())
			continue
		}
		if err != nil {
			w.bodyEnded(err)
			return
		}
	}
}

// blockAge is how long bytes stay with a worker before they are written: so
// much of an answer is lost at most when the process is killed.
const blockAge = int64(250 * time.Millisecond)

// patience is how long the next read may wait: until the limit that comes next,
// or until the block in hand is due to be written.
func (w *Worker) patience() (until, limit int64) {
	limit = w.limit()
	if w.block == nil || !w.block.divisible(w.capture.hold) {
		return limit, limit
	}
	return min(limit, w.block.since+blockAge), limit
}

// turnOld hands over a block that has waited long enough.
func (w *Worker) turnOld(now int64) {
	if b := w.block; b != nil && now >= b.since+blockAge && b.divisible(w.capture.hold) {
		w.turn(now)
	}
}

// usualError is how much of an error's body is read where no limit is set: it is
// for people.
const usualError = 64 << 10

// bounds says whether an answer is one to look at, how much of it is read, and
// what ends it there.
func (w *Worker) bounds() (stream bool, most int64, over Ending) {
	if w.s.Status >= 200 && w.s.Status < 300 {
		return true, w.client.cfg.Limits.MaxBody, EndBodyTooLarge
	}
	return false, cmp.Or(w.client.cfg.Limits.MaxError, usualError), EndCapped
}

// take keeps what arrived and looks at it; it tells whether reading is over.
func (w *Worker) take(p []byte, at, empty int64, stream bool, limit int64, over Ending) bool {
	s := w.s
	if s.FirstByte == None {
		s.FirstByte = at
	}
	if limit > 0 && s.Bytes+int64(len(p)) > limit {
		p = p[:limit-s.Bytes]
		s.Ending, s.End = over, at
	}
	w.turnOld(at)
	w.keep(p, at, empty)
	s.Bytes += int64(len(p))
	if stream {
		w.look(p, at)
	}
	return s.Ending != EndNone
}

func (w *Worker) look(p []byte, at int64) {
	saw := w.watch.Feed(p)
	s := w.s
	if saw&SawOutput != 0 {
		if s.FirstOutput == None {
			s.FirstOutput = at
			if w.cancelAfter > 0 {
				w.cancelAt = at + int64(w.cancelAfter)
			}
		}
		s.LastOutput = at
	}
	switch {
	case s.Ending != EndNone:
	case saw&SawEnd != 0:
		s.Ending, s.End = EndMark, at
	case saw&SawLargeEvent != 0:
		s.Ending, s.End = EndEventTooLarge, at
	case saw&SawLargeBody != 0:
		s.Ending, s.End = EndBodyTooLarge, at
	}
}

func (w *Worker) bodyEnded(err error) {
	switch {
	case errors.Is(err, io.EOF):
		w.s.Ending, w.s.End = EndBody, w.wire.socket.at
	case errors.Is(err, errClosed):
		w.s.Ending = EndClose
	case errors.Is(err, io.ErrUnexpectedEOF):
		w.s.Ending = EndCut
		w.fault = Fault{"eof", "the connection closed before the body's declared end"}
	default:
		w.failed(err, EndReset)
	}
}

// limit is the stamp of the limit that comes next.
func (w *Worker) limit() int64 {
	l, s := &w.client.cfg.Limits, w.s
	at := int64(math.MaxInt64)
	if l.Total > 0 {
		at = s.Start + int64(l.Total)
	}
	if s.LastOutput == None && l.FirstOutput > 0 {
		at = min(at, s.Start+int64(l.FirstOutput))
	}
	if s.LastOutput != None && l.Gap > 0 {
		at = min(at, s.LastOutput+int64(l.Gap))
	}
	if w.cancelAt != None {
		at = min(at, w.cancelAt)
	}
	return min(at, int64(math.MaxInt64/2))
}

// failed names what ended the request, a limit before the error that it caused.
func (w *Worker) failed(err error, ending Ending) {
	s, l, now := w.s, &w.client.cfg.Limits, w.client.clock.now()
	s.End = now
	switch {
	case w.client.aborted.Load() || errors.Is(err, context.Canceled):
		s.Ending, w.fault = EndAborted, Fault{"aborted", "given up by the client"}
	case !errors.Is(err, errLimit) && !isTimeout(err) && !errors.Is(err, context.DeadlineExceeded):
		s.Ending, w.fault = ending, faultOf(err)
	case w.cancelAt != None && now >= w.cancelAt:
		s.Ending, w.fault = EndCancel, Fault{"cancelled", "given up by the client as the plan says"}
	case l.Total > 0 && now >= s.Start+int64(l.Total):
		s.Ending, w.fault = EndTotal, Fault{"total", fmt.Sprintf("not ended after %s", l.Total)}
	case s.LastOutput != None:
		s.Ending, w.fault = EndStalledMid, Fault{"gap", fmt.Sprintf("no output for %s", l.Gap)}
	case l.FirstOutput > 0 && now >= s.Start+int64(l.FirstOutput):
		s.Ending, w.fault = EndStalledFirst, Fault{"first_output", fmt.Sprintf("no output after %s", l.FirstOutput)}
	default:
		s.Ending, w.fault = ending, Fault{"timeout", fmt.Sprintf("no connection after %s: %v", l.Connect, err)}
	}
}

// faultOf gives an error a class; the words of the standard library stay.
func faultOf(err error) Fault {
	var dial *DialError
	class := "reset"
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		class = "refused"
	case errors.As(err, &dial) && dial.Step != "connect":
		class = dial.Step
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		class = "eof"
	case errors.Is(err, errHTTP), errors.Is(err, errTooLong):
		class = "protocol"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
	case dial != nil:
		class = "connect"
	case strings.HasPrefix(err.Error(), "tls:"), isAlert(err):
		class = "tls"
	}
	return Fault{class, err.Error()}
}

// isAlert tells an alert of TLS, the server's or our own.
func isAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Err != nil && (op.Op == "remote error" || op.Op == "local error") && strings.HasPrefix(op.Err.Error(), "tls:")
}

// keepHead and keep append to the capture's block; at a full one the next is
// taken, with the bytes that a secret could span.
func (w *Worker) keepHead(head []byte) {
	head = head[:min(len(head), readBuffer)] // no longer one is read; a frame has its limit
	b := w.capture.take(w.request, w.try)
	b.head, b.conn = true, w.s.Conn
	b.buf = append(b.buf, head...)
	b.witness = appendWitness(b.witness, w.s, Fault{})
	w.capture.give(b)
}

func (w *Worker) keep(p []byte, at, empty int64) {
	for len(p) > 0 {
		if w.block == nil {
			w.block = w.capture.take(w.request, w.try)
			w.block.conn, w.block.since = w.s.Conn, at
		}
		b := w.block
		if b.full(w.capture.hold) {
			w.turn(at)
			continue
		}
		n := min(blockBytes-len(b.buf), len(p))
		b.buf = append(b.buf, p[:n]...)
		if k := len(b.reads) - 1; k >= 0 && b.reads[k].at == at {
			b.reads[k].n += int32(n)
		} else {
			b.reads = append(b.reads, blockRead{at: at, empty: empty, n: int32(n)})
		}
		p = p[n:]
	}
}

// turn hands a full block over and goes on in the next one. While it waits for
// that it holds none: what the next one begins with is in its own hands.
func (w *Worker) turn(now int64) {
	full, conn := w.block, w.block.conn
	w.block = nil
	w.capture.hide(full)
	full.split(&w.tail, w.capture.hold)
	w.capture.give(full)
	w.block = w.capture.take(w.request, w.try)
	w.block.conn, w.block.since = conn, now
	w.block.join(&w.tail)
}

func (w *Worker) flush() {
	if w.block != nil {
		w.capture.give(w.block)
		w.block = nil
	}
}

// settleLimit is how long the end of a body may be waited for after the
// answer's end mark, so that the connection can be used again. Of a server that
// did not end its body in that time no more is hoped, until it does: a closed
// loop would stand still after each answer.
const (
	settleLimit = 50 * time.Millisecond
	settleShort = time.Millisecond
)

// settle reads what is left of a body after its end mark. None of it is kept.
func (w *Worker) settle() bool {
	if w.s.Ending != EndBody && w.s.Ending != EndMark {
		return false
	}
	begun := w.client.clock.now()
	err := w.drainBody(begun + int64(w.patienceForEnd()))
	w.client.endless.Store(errors.Is(err, errLimit))
	ended := errors.Is(err, io.EOF)
	if ended && !w.client.stays.Load() {
		w.farewell()
	}
	w.settled = w.client.clock.now() - begun
	return ended
}

func (w *Worker) patienceForEnd() time.Duration {
	if w.client.endless.Load() {
		return settleShort
	}
	return settleLimit
}

// closeWait is how long a close behind an answer is waited for, and leaveWait how
// long where the last answer had one: a busy host may take its time.
const (
	closeWait = 20 * time.Millisecond
	leaveWait = 250 * time.Millisecond
)

// farewell waits a moment for the server to close. Some announce keep-alive and
// close after each answer all the same, llama-server for one. A request that
// crosses such a close may have been read as far as anybody can tell, and would
// be lost. So the close is waited for after the first answer, and for as long as
// the server does so: the next request then sees it and takes a new connection.
func (w *Worker) farewell() {
	if isPipe(w.wire.socket.Conn) {
		return
	}
	wait := closeWait
	if w.client.leaves.Load() {
		wait = leaveWait
	}
	err := w.wire.fill(w.client.clock.now() + int64(wait))
	stays := errors.Is(err, errLimit)
	w.client.stays.Store(stays)
	w.wire.closed = err != nil && !stays
	w.client.leaves.Store(w.wire.closed)
}

// drainBody returns io.EOF at the end of the body.
func (w *Worker) drainBody(limit int64) error {
	for range 64 {
		if _, err := w.body.next(limit); err != nil {
			return err
		}
	}
	return errLimit
}

// isPipe tells a connection without a socket, whose writes wait for the reader.
func isPipe(conn any) bool {
	_, ok := conn.(syscall.Conn)
	return !ok
}
