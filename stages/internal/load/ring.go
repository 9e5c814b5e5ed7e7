package load

import (
	"sync"
	"sync/atomic"
)

// A pool lends blocks of one size: made when they are needed, and never more than
// there may be. Who finds none waits in turn for one to come back.
type pool struct {
	mu           sync.Mutex
	free         []*block
	room         int // blocks that may still be made
	over         bool
	waiting      []chan *block
	reads, bytes int
}

func (p *pool) open(room, made, reads, bytes int) {
	p.room, p.reads, p.bytes = room-made, reads, bytes
	for range made {
		p.free = append(p.free, p.make())
	}
}

func (p *pool) make() *block {
	return &block{reads: make([]blockRead, 0, p.reads), buf: make([]byte, 0, p.bytes), from: p}
}

// get returns a block and counts when it had to wait for it.
func (p *pool) get(waits *atomic.Int64) *block {
	b, turn := p.try()
	if turn != nil {
		waits.Add(1)
		return <-turn
	}
	if b == nil {
		return p.make()
	}
	return b
}

// try returns a free block; nil where one may be made, or a place in the queue.
func (p *pool) try() (b *block, turn <-chan *block) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		b, p.free = p.free[n-1], p.free[:n-1]
		return b, nil
	}
	if p.over || p.room > 0 {
		p.room--
		return nil, nil
	}
	place := make(chan *block, 1)
	p.waiting = append(p.waiting, place)
	return nil, place
}

// put takes a block back.
func (p *pool) put(b *block) {
	if cap(b.reads) > 4*blockReads { // tiny reads had made it grow
		b.reads = make([]blockRead, 0, p.reads)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		p.free = append(p.free, b)
		return
	}
	p.waiting[0] <- b
	p.waiting = p.waiting[1:]
}

// grow lets n more blocks be made.
func (p *pool) grow(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.room += n
	p.serve()
}

// abort lets as many be made as are wanted: each worker comes to its end soon.
func (p *pool) abort() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.serve()
}

// serve gives those who wait what may be made.
func (p *pool) serve() {
	for len(p.waiting) > 0 && (p.over || p.room > 0) {
		p.room--
		p.waiting[0] <- p.make()
		p.waiting = p.waiting[1:]
	}
}

// A queue carries full blocks to the writer. It holds every block there is, so
// that giving one away never waits.
type queue struct {
	mu     sync.Mutex
	ready  sync.Cond
	blocks []*block
	closed bool
}

func (q *queue) put(b *block) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.blocks = append(q.blocks, b)
	q.ready.Signal()
}

// take waits for blocks and returns all there are, in order; none when the queue
// was closed. The slice that it is given becomes the queue's own.
func (q *queue) take(empty []*block) []*block {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.blocks) == 0 && !q.closed {
		q.ready.Wait()
	}
	out := q.blocks
	q.blocks = empty[:0]
	return out
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.ready.Signal()
}
