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

// blockBytes and blockReads are what a block holds. One is with each worker and
// one more for each may be on its way, so they bound the memory of a phase. Reads
// may be more where they are tiny and a long secret forbids to cut between them.
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
// stamps, bytes), written by one goroutine from blocks, of which there are two
// for each worker and a few more. A worker that finds none free waits, which
// Waits counts: the disk was too slow for the load, and memory stays bounded.
type Capture struct {
	file   Storage
	hiding Hiding
	hold   int // bytes that a worker keeps back so that no secret is cut in two

	blocks, marks pool
	joined        atomic.Int64 // workers, less those that the rings were made for
	full          queue
	failed        chan struct{} // closed at the writer's first error
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

// Hiding keeps secrets out of what is written. The zero value hides nothing.
type Hiding struct {
	Whole   func([]byte)        // in place, of the same length: secrets that stand there whole
	Cut     func(string) string // also the beginning of one at a text's end
	Longest int                 // bytes of the longest secret, at most MaxSecret
}

// MaxSecret is how long a secret can be so that it is never cut in two: a block
// must hold it twice.
const MaxSecret = blockBytes/2 + 1

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

// NewCapture starts the writer. The rings are made for so many workers and grow
// with each one that comes besides. Every frame's bytes are hidden before they
// are written.
func NewCapture(file Storage, workers int, hiding Hiding) *Capture {
	c := &Capture{
		file: file, hiding: hiding, hold: max(min(hiding.Longest, MaxSecret)-1, 0), failed: make(chan struct{}), done: make(chan struct{}),
	}
	c.joined.Store(-int64(workers))
	c.full.ready.L = &c.full.mu
	c.blocks.open(2*workers+16, workers, blockReads, blockBytes)
	c.marks.open(2*workers+16, 0, 0, 0)
	go c.write()
	return c
}

// join makes room for one more worker.
func (c *Capture) join() {
	if c.joined.Add(1) > 0 {
		c.blocks.grow(2)
		c.marks.grow(2)
	}
}

// Abort lets every worker that waits go on, now and from here: what is open is
// being given up, and nobody may wait for a disk that does not answer.
func (c *Capture) Abort() {
	c.blocks.abort()
	c.marks.abort()
}

// Failed is closed when the file takes no more; Close returns why.
func (c *Capture) Failed() <-chan struct{} { return c.failed }

// Waits returns how often a worker found no free block.
func (c *Capture) Waits() int64 { return c.waits.Load() }

func (c *Capture) take(request, try int32) *block { return c.takeFrom(&c.blocks, request, try) }

func (c *Capture) takeFrom(p *pool, request, try int32) *block {
	b := p.get(&c.waits)
	b.request, b.try, b.conn, b.head = request, try, 0, false
	b.reads, b.buf, b.witness = b.reads[:0], b.buf[:0], b.witness[:0]
	return b
}

// MaxNote is how long a remark can be.
const MaxNote = maxFrame - frameHeader - 4

// Note writes a remark on the phase as a whole, of at most MaxNote bytes;
// Recover hands it out.
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

func (c *Capture) give(b *block) { c.full.put(b) }

// Close writes what is left and returns the first error of the writer. The
// file stays open; answers can be read from then on.
func (c *Capture) Close() error {
	c.full.close()
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
	var ready []*block
	for {
		if ready = c.full.take(ready); len(ready) == 0 {
			return
		}
		out = out[:0]
		for _, b := range ready {
			if out = c.append(out, b); len(out) >= batchBytes {
				c.store(out)
				out = out[:0]
			}
		}
		c.store(out)
	}
}

// store writes frames. After an error blocks are still taken, so that no worker
// waits for ever.
func (c *Capture) store(frames []byte) {
	if c.err != nil || len(frames) == 0 {
		return
	}
	if _, c.err = c.file.Write(frames); c.err != nil {
		close(c.failed)
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
	b.from.put(b)
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
	if c.hiding.Whole != nil {
		c.hiding.Whole(b.buf)
		c.hiding.Whole(b.witness)
	}
}

// divisible tells whether a block that is not full can be handed over without
// cutting a text of hold bytes and one.
func (b *block) divisible(hold int) bool { return len(b.buf) > 0 && len(b.buf) >= 2*hold }

// fault hides what a message quotes of a server, which may be cut off.
func (c *Capture) fault(f Fault) Fault {
	if c.hiding.Cut != nil {
		f.Message = c.hiding.Cut(f.Message)
	}
	return f
}

// full tells whether a block takes no more bytes, or no more reads without
// growing, and can be cut.
func (b *block) full(hold int) bool {
	return len(b.buf) == blockBytes || len(b.reads) >= blockReads && b.divisible(hold)
}

// split moves the last hold bytes of a block to the empty one that follows it,
// so that a secret is never cut where one frame ends: it is whole in the second.
func (b *block) split(next *block, hold int) {
	if hold == 0 {
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

// join appends what split had moved.
func (b *block) join(rest *block) {
	b.buf, b.reads = append(b.buf, rest.buf...), append(b.reads, rest.reads...)
	rest.buf, rest.reads = rest.buf[:0], rest.reads[:0]
}
