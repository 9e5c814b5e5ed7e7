package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// A body takes the transfer coding off what a wire reads.
type body struct {
	w     *wire
	left  int64 // of the chunk, or of the body where a length says how long it is
	state bodyState
}

type bodyState uint8

const (
	inLength   bodyState = iota // left bytes, then the end
	toClose                     // everything until the connection closes
	atSize                      // a chunk's size line comes
	inChunk                     // left bytes of a chunk
	atChunkEnd                  // the line end after a chunk
	atTrailer                   // trailer lines, up to an empty one
	ended
)

func (b *body) reset(w *wire, f framing) {
	b.w, b.left = w, f.length
	switch {
	case f.chunked:
		b.state, b.left = atSize, 0
	case f.length < 0:
		b.state = toClose
	case f.length == 0:
		b.state = ended
	default:
		b.state = inLength
	}
}

// next returns the next bytes of the body, which are valid until the next call,
// and io.EOF at its declared end. What was already read is taken before the
// connection is read again, so that all bytes of one read share its stamp.
func (b *body) next(limit int64) ([]byte, error) {
	for {
		p, err := b.step()
		if len(p) > 0 || err != nil && !errors.Is(err, errMore) {
			return p, err
		}
		if err == nil {
			continue
		}
		if err := b.w.fill(limit); err != nil {
			return nil, b.broken(err)
		}
	}
}

// errMore asks for another read.
var errMore = errors.New("more bytes are needed")

// broken says what an end of the connection means here.
func (b *body) broken(err error) error {
	if errors.Is(err, io.EOF) {
		if b.state == toClose {
			b.state = ended
			return errClosed
		}
		return io.ErrUnexpectedEOF
	}
	return err
}

// errClosed is the end of a body that only the connection's close ends.
var errClosed = errors.New("connection closed")

func (b *body) step() ([]byte, error) {
	have := int64(b.w.to - b.w.from)
	switch b.state {
	case toClose:
		return b.take(have)
	case inLength, inChunk:
		p, err := b.take(min(b.left, have))
		if b.left -= int64(len(p)); b.left == 0 {
			b.state = b.after()
		}
		return p, err
	case atSize, atChunkEnd, atTrailer:
		line, err := b.line()
		if err == nil {
			err = b.framing(line)
		}
		return nil, err
	case ended:
	}
	return nil, io.EOF
}

// framing takes one line of a chunked body that is none of its bytes.
func (b *body) framing(line []byte) (err error) {
	switch {
	case b.state == atChunkEnd && len(line) > 0:
		return fmt.Errorf("%w: where a chunk ends stands %s", errHTTP, quote(line))
	case b.state == atChunkEnd:
		b.state = atSize
	case b.state == atSize:
		if b.left, err = chunkSize(line); err != nil {
			return err
		}
		b.state = inChunk
		if b.left == 0 {
			b.state = atTrailer
		}
	case len(line) == 0:
		b.state = ended
	}
	return nil
}

func (b *body) take(n int64) ([]byte, error) {
	if n == 0 {
		return nil, errMore
	}
	p := b.w.buf[b.w.from : b.w.from+int(n)]
	b.w.from += int(n)
	return p, nil
}

// line returns the next line without its end; a bare LF ends one too.
func (b *body) line() ([]byte, error) {
	p := b.w.unread()
	i := bytes.IndexByte(p, '\n')
	if i < 0 {
		return nil, errMore
	}
	b.w.from += i + 1
	return bytes.TrimSuffix(p[:i], []byte("\r")), nil
}

func chunkSize(line []byte) (n int64, err error) {
	digits, _, _ := bytes.Cut(line, []byte(";"))
	digits = bytes.TrimSpace(digits)
	for _, c := range digits {
		d := hexDigit(c)
		if d < 0 || n > maxChunk {
			return 0, fmt.Errorf("%w: chunk size %s", errHTTP, quote(line))
		}
		n = n<<4 | int64(d)
	}
	if len(digits) == 0 {
		return 0, fmt.Errorf("%w: a chunk without a size", errHTTP)
	}
	return n, nil
}

// maxChunk keeps a size that is still growing from overflowing.
const maxChunk = 1 << 56

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// after is the state that follows the last byte of a length or a chunk.
func (b *body) after() bodyState {
	if b.state == inLength {
		return ended
	}
	return atChunkEnd
}
