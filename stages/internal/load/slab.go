package load

import (
	"sync"
	"sync/atomic"
)

const (
	pageBits = 10
	pageSize = 1 << pageBits
)

// A Slab holds one value for each request of a phase whose length need not be
// known. Whoever holds request i alone touches At(i), so there is no lock but at
// the first touch of a page.
type Slab[T any] struct {
	dir atomic.Pointer[[]*[pageSize]T]
	mu  sync.Mutex
}

// NewSlab makes a slab with room for n values before anything is allocated.
func NewSlab[T any](n int) *Slab[T] {
	s := &Slab[T]{}
	dir := make([]*[pageSize]T, (n+pageSize-1)>>pageBits)
	for i := range dir {
		dir[i] = new([pageSize]T)
	}
	s.dir.Store(&dir)
	return s
}

// At returns the place of value i, which stays where it is.
func (s *Slab[T]) At(i int) *T {
	page := i >> pageBits
	if dir := *s.dir.Load(); page < len(dir) {
		return &dir[page][i&(pageSize-1)]
	}
	return &s.grow(page)[i&(pageSize-1)]
}

func (s *Slab[T]) grow(page int) *[pageSize]T {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := *s.dir.Load()
	if page < len(dir) {
		return dir[page]
	}
	// The directory is replaced, never changed: readers hold the old one.
	next := append(make([]*[pageSize]T, 0, 2*page+2), dir...)
	for len(next) <= page {
		next = append(next, new([pageSize]T))
	}
	s.dir.Store(&next)
	return next[page]
}
