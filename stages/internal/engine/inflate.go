package engine

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"iter"
)

// errUnasked is what the source of an abandoned inflater returns.
var errUnasked = errors.New("inflater closed")

// An inflater decompresses a gzip body in the pieces in which it is read: what
// comes out of a piece is all that its bytes allow. package gzip pulls its input,
// so it runs as a coroutine that yields when it wants more.
type inflater struct {
	in     []byte
	closed bool
	err    error
	next   func() ([]byte, bool)
	stop   func()
}

func newInflater() *inflater {
	z := &inflater{}
	z.next, z.stop = iter.Pull(z.run)
	return z
}

// feed takes a piece and hands out the plaintext that comes of it, until use
// returns false. Without a piece it is the body's end.
func (z *inflater) feed(b []byte, end bool, use func(plain []byte) bool) error {
	z.in, z.closed = b, end
	for {
		plain, more := z.next()
		if !more {
			return z.err
		}
		if plain == nil {
			return nil
		}
		if !use(plain) {
			return nil
		}
	}
}

// run yields plaintext, and nil when it needs more input.
func (z *inflater) run(yield func([]byte) bool) {
	r, err := gzip.NewReader(bufio.NewReader(source{z, yield}))
	buf := make([]byte, 16<<10)
	for err == nil {
		var n int
		n, err = r.Read(buf)
		if n > 0 && !yield(buf[:n]) {
			return
		}
	}
	if !errors.Is(err, io.EOF) {
		z.err = err
	}
}

// source is the compressed input of an inflater.
type source struct {
	z     *inflater
	yield func([]byte) bool
}

func (s source) Read(b []byte) (int, error) {
	for len(s.z.in) == 0 {
		if s.z.closed {
			return 0, io.EOF
		}
		if !s.yield(nil) {
			return 0, errUnasked
		}
	}
	n := copy(b, s.z.in)
	s.z.in = s.z.in[n:]
	return n, nil
}
