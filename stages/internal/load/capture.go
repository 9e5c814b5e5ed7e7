package load

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync/atomic"
)

// A Read is one arrival of bytes.
type Read struct {
	At    int64 // when the bytes arrived
	Empty int64 // when the socket was last known to hold nothing; None when unknown
}

// blockBytes and blockReads are what a block holds. One is with each worker,
// so they bound the memory of a phase together with the ring's length.
const (
	blockBytes = 16 << 10
	blockReads = 256
)

// A block is a piece of one answer on its way to the capture.
type block struct {
	request, try, conn int32
	head               bool // the response's header block, not its body
	reads              []blockRead
	buf                []byte
	since              int64  // when its first bytes came
	witness            []byte // what is known of the request; see appendWitness
	from               *pool
}

type blockRead struct {
	at, empty int64
	n         int32
}

// A Storage is where a capture is appended to and read from afterwards.
type Storage interface {
	io.Writer
	io.ReaderAt
}

// A Capture is an append-only file of frames (request, try, connection,
// stamps, bytes), written by one goroutine from a ring of blocks. A worker that
// finds the ring empty waits, which Waits counts: the disk was too slow for the
// load, and memory stays bounded.
type Capture struct {
	file   Storage
	redact func([]byte)
	hold   int // bytes that a worker keeps back so that no secret is cut in two

	blocks, marks pool
	full          chan *block
	done          chan struct{}
	waits         atomic.Int64

	// Owned by the writer until Close, read-only afterwards.
	index []frame
	size  int64
	err   error

	// Of Replay and Purge, which are for one goroutine.
	in     *bufio.Reader
	raw    []byte
	doomed []frame
}

// A frame is where one is in the file. There are millions after a long phase:
// what else is known of it stands in its header.
type frame struct {
	request int32
	order   int32 // its try, twice; one more for a body: the head comes first
	off     int64 // of the frame's header
}

func frameAt(request, try int32, head bool, off int64) frame {
	f := frame{request: request, order: try<<1 | 1, off: off}
	if head {
		f.order = try << 1
	}
	return f
}

// NewCapture starts the writer. Redact, which may be nil, is given every
// frame's bytes before they are written; hold is the length of the longest text
// that it looks for, less one.
func NewCapture(file Storage, workers int, redact func([]byte), hold int) *Capture {
	ring := 2*workers + 16
	c := &Capture{file: file, redact: redact, hold: max(hold, 0), full: make(chan *block, 2*ring), done: make(chan struct{})}
	c.blocks.open(ring, workers, blockReads, blockBytes)
	c.marks.open(ring, 0, 0, 0)
	go c.write()
	return c
}

// A pool is a ring of blocks of one size: made when they are needed, and never
// more than there may be.
type pool struct {
	free         chan *block
	room         atomic.Int64 // blocks that may still be made
	reads, bytes int
}

func (p *pool) open(ring, made, reads, bytes int) {
	p.free, p.reads, p.bytes = make(chan *block, ring), reads, bytes
	p.room.Store(int64(ring))
	for range made {
		p.free <- p.make()
	}
}

// make returns a new block, nil when there are as many as there may be.
func (p *pool) make() *block {
	if p.room.Add(-1) < 0 {
		p.room.Add(1)
		return nil
	}
	return &block{reads: make([]blockRead, 0, p.reads), buf: make([]byte, 0, p.bytes), from: p}
}

// Waits returns how often a worker found no free block.
func (c *Capture) Waits() int64 { return c.waits.Load() }

func (c *Capture) take(request, try int32) *block { return c.takeFrom(&c.blocks, request, try) }

func (c *Capture) takeFrom(p *pool, request, try int32) *block {
	var b *block
	select {
	case b = <-p.free:
	default:
		if b = p.make(); b == nil {
			c.waits.Add(1)
			b = <-p.free
		}
	}
	b.request, b.try, b.conn, b.head = request, try, 0, false
	b.reads, b.buf, b.witness = b.reads[:0], b.buf[:0], b.witness[:0]
	return b
}

// Note writes a remark on the phase as a whole; Recover hands it out.
func (c *Capture) Note(text []byte) {
	b := c.take(noteRequest, 0)
	b.buf = append(b.buf, text...)
	c.give(b)
}

// noteRequest is the request of a frame that belongs to none.
const noteRequest = -1

// Mark writes what is known of a request; the last word on it counts.
func (c *Capture) Mark(request, try int, s *Sample, f Fault) {
	b := c.takeFrom(&c.marks, int32(request), int32(try))
	b.conn, b.witness = s.Conn, appendWitness(b.witness, s, f)
	c.give(b)
}

func (c *Capture) give(b *block) { c.full <- b }

// Close writes what is left and returns the first error of the writer. The
// file stays open; answers can be read from then on.
func (c *Capture) Close() error {
	close(c.full)
	<-c.done
	c.blocks.free, c.marks.free = nil, nil // what a phase needed is not held while it is decoded
	slices.SortStableFunc(c.index, compareFrames)
	if c.err != nil {
		return fmt.Errorf("write capture: %w", c.err)
	}
	return nil
}

// A frame in the file: a header of fixed size, the reads, the bytes, the
// witness, a CRC-32 of all four. Little-endian.
const (
	frameMagic  = 0x4d524641 // "AFRM"
	frameHeader = 4 + 4*6
	readSize    = 8 + 8 + 4
)

var errFrame = errors.New("damaged frame")

// batchBytes is when frames that are ready together are written; with none
// ready, what there is is written at once.
const batchBytes = 256 << 10

func (c *Capture) write() {
	defer close(c.done)
	var out []byte
	for b := range c.full {
		out = c.append(out[:0], b)
	ready:
		for len(out) < batchBytes {
			select {
			case next, ok := <-c.full:
				if !ok {
					break ready
				}
				out = c.append(out, next)
			default:
				break ready
			}
		}
		// After an error the ring is still emptied, so that no worker waits for ever.
		if c.err == nil {
			_, c.err = c.file.Write(out)
		}
	}
}

// append encodes a block and lets it go.
func (c *Capture) append(out []byte, b *block) []byte {
	c.hide(b)
	from := len(out)
	out = appendFrame(out, b)
	if c.err == nil && (b.head || len(b.reads) > 0) {
		c.index = append(c.index, frameAt(b.request, b.try, b.head, c.size))
	}
	c.size += int64(len(out) - from)
	b.from.free <- b
	return out
}

func appendFrame(out []byte, b *block) []byte {
	kind := uint32(0)
	if b.head {
		kind = 1
	}
	le := binary.LittleEndian
	from := len(out)
	out = le.AppendUint32(out, frameMagic)
	for _, v := range []uint32{
		uint32(b.request), uint32(b.try)<<1 | kind, uint32(b.conn), uint32(len(b.reads)), uint32(len(b.buf)), uint32(len(b.witness)),
	} {
		out = le.AppendUint32(out, v)
	}
	for _, r := range b.reads {
		out = le.AppendUint64(out, uint64(r.at))
		out = le.AppendUint64(out, uint64(r.empty))
		out = le.AppendUint32(out, uint32(r.n))
	}
	out = append(out, b.buf...)
	out = append(out, b.witness...)
	return le.AppendUint32(out, crc32.ChecksumIEEE(out[from:]))
}

// Replay hands out the answer of one try in the order of its arrival, from a
// capture that is closed: the header block, then each read of the body. What
// it hands out is valid during the call. A read that a block's end had cut
// comes in two calls with equal stamps. A try without an answer has no calls.
func (c *Capture) Replay(request, try int, head func([]byte), read func(Read, []byte)) error {
	i, _ := slices.BinarySearchFunc(c.index, frameAt(int32(request), int32(try), true, 0), compareFrames)
	for ; i < len(c.index) && c.index[i].request == int32(request) && c.index[i].order>>1 == int32(try); i++ {
		h, raw, err := c.load(c.index[i].off)
		if err != nil {
			return fmt.Errorf("read capture of request %d: %w", request, err)
		}
		h.play(raw, head, read)
	}
	return nil
}

func compareFrames(a, b frame) int {
	return cmp.Or(cmp.Compare(a.request, b.request), cmp.Compare(a.order, b.order))
}

// load reads a frame whole; what it returns stands until the next call.
func (c *Capture) load(off int64) (h frameHead, raw []byte, err error) {
	if c.in == nil {
		c.in = bufio.NewReaderSize(nil, usualFrame)
	}
	c.in.Reset(io.NewSectionReader(c.file, off, maxFrame))
	h, c.raw, err = nextFrame(c.in, c.raw[:0])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errFrame // there was a whole one when it was written
	}
	return h, c.raw, err
}

// usualFrame is what a full block comes to; a very long head is longer.
const usualFrame = frameHeader + blockReads*readSize + blockBytes + 512

func (c *Capture) hide(b *block) {
	if c.redact != nil {
		c.redact(b.buf)
		c.redact(b.witness)
	}
}

// divisible tells whether a block that is not full can be handed over without
// cutting a text of hold bytes and one.
func (b *block) divisible(hold int) bool { return len(b.buf) > 0 && len(b.buf) >= 2*hold }

// split moves the last hold bytes of a full block to the empty one after it, so
// that a secret is never cut where one frame ends: it is whole in the second.
func (b *block) split(next *block, hold int) {
	if hold = min(hold, len(b.buf)/2); hold == 0 {
		return
	}
	cut := len(b.buf) - hold
	next.buf = append(next.buf, b.buf[cut:]...)
	b.buf = b.buf[:cut]
	i, left := len(b.reads)-1, int32(hold)
	for left > b.reads[i].n {
		left -= b.reads[i].n
		i--
	}
	r := b.reads[i]
	next.reads = append(next.reads, blockRead{at: r.at, empty: r.empty, n: left})
	next.reads = append(next.reads, b.reads[i+1:]...)
	b.reads = b.reads[:i+1]
	if b.reads[i].n -= left; b.reads[i].n == 0 {
		b.reads = b.reads[:i]
	}
}
