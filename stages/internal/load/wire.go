package load

import (
	"errors"
	"net"
	"time"
)

// A clock tells nanoseconds since the phase's start. It is set before the
// workers are let go and never after.
type clock struct{ epoch time.Time }

func (c *clock) now() int64            { return int64(time.Since(c.epoch)) }
func (c *clock) at(ns int64) time.Time { return c.epoch.Add(time.Duration(ns)) }

// readBuffer is what one read can take: enough that a burst of events is one
// arrival and a long event few reads.
const readBuffer = 64 << 10

// A socket stamps its reads: this is where an arrival is an arrival, also
// below TLS, whose records may come several in one read.
type socket struct {
	net.Conn
	clock   *clock // nil: nobody asks for the stamps
	at      int64  // when the bytes of the last read arrived
	empty   int64  // when the socket was last known to be empty before that
	drained int64  // when a read last found less than it could take; None since a full one
}

func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if n > 0 && s.clock != nil {
		s.at, s.empty = s.clock.now(), s.drained
		s.drained = None
		if n < len(p) {
			s.drained = s.at
		}
	}
	return n, err
}

// A wire is a connection with a buffer that holds what was read and not yet
// taken.
type wire struct {
	conn   net.Conn // plaintext: the TLS connection where there is one
	socket *socket
	number int32
	tls    string // its version, "" without TLS
	http2  bool   // what is spoken on it

	buf      []byte
	from, to int   // unread bytes
	expires  int64 // the read deadline that stands; None for none
	used     bool
	closed   bool // by the server, behind an answer
}

// errLimit says that a limit of the request has passed.
var errLimit = errors.New("limit passed")

// fill reads once and waits for it until limit, a stamp. The deadline is set
// again only when the one that stands is later or has passed, so that the many
// reads of a stream pay for few.
func (w *wire) fill(limit int64) error {
	if w.from == w.to {
		w.from, w.to = 0, 0
	} else if w.to == len(w.buf) {
		w.to = copy(w.buf, w.buf[w.from:w.to])
		w.from = 0
	}
	if w.to == len(w.buf) {
		return errTooLong
	}
	if w.expires == None || w.expires > limit {
		_ = w.expire(limit) // on a connection that is closed the read says how
	}
	for {
		n, err := w.conn.Read(w.buf[w.to:])
		if n > 0 {
			w.to += n
			return nil
		}
		if err != nil && !isTimeout(err) {
			return err
		}
		if err == nil {
			continue
		}
		if w.socket.clock.now() >= limit {
			return errLimit
		}
		if err := w.expire(limit); err != nil {
			return err
		}
	}
}

// errTooLong says that a line, or a head, does not fit into the buffer.
var errTooLong = errors.New("line too long")

func (w *wire) expire(limit int64) error {
	w.expires = limit
	return w.conn.SetReadDeadline(w.socket.clock.at(limit))
}

func (w *wire) unread() []byte { return w.buf[w.from:w.to] }

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}
