package dag

import "container/heap"

// Walk visits every node once, each when all its needs were visited, at most
// limit (at least one) at a time, and returns when the last visit has returned.
// What became of a need is the visitor's business: Walk only orders.
//
// Of the nodes that could be visited the earliest in Order goes first. A node
// for which alone answers true is visited while no other is; these nodes go
// strictly in Order, and while one waits for the others to end nothing that
// comes after it begins. alone may be nil. A cycle is a *CycleError, and then
// nothing is visited.
func (g *Graph[K]) Walk(limit int, alone func(K) bool, visit func(K)) error {
	order, err := g.Order()
	if err != nil {
		return err
	}
	w := newWalk(g, order, alone)
	done := make(chan int, max(limit, 1))
	running, aloneRuns := 0, false
	for left := len(order); left > 0; {
		for running < max(limit, 1) && !aloneRuns && w.ready.Len() > 0 {
			i := w.ready[0]
			if w.alone[i] && running > 0 {
				break
			}
			heap.Pop(&w.ready)
			running++
			aloneRuns = w.alone[i]
			go func() {
				defer func() { done <- i }()
				visit(order[i])
			}()
		}
		i := <-done
		running--
		left--
		aloneRuns = false
		w.visited(i)
	}
	return nil
}

// walk works on positions in the order, so that a plan of 10,000 stages costs
// no map look-ups while it runs.
type walk struct {
	users   [][]int
	waiting []int // needs not yet visited
	alone   []bool
	queue   []int // positions to be visited alone, in order; the head is next
	ready   intHeap
}

func newWalk[K comparable](g *Graph[K], order []K, alone func(K) bool) *walk {
	at := make(map[K]int, len(order))
	for i, k := range order {
		at[k] = i
	}
	w := &walk{users: make([][]int, len(order)), waiting: make([]int, len(order)), alone: make([]bool, len(order))}
	for i, k := range order {
		for _, d := range g.Needs(k) {
			w.users[at[d]] = append(w.users[at[d]], i)
			w.waiting[i]++
		}
		if alone != nil && alone(k) {
			w.alone[i] = true
			w.queue = append(w.queue, i)
		}
	}
	for i := range order {
		if w.waiting[i] == 0 {
			w.offer(i)
		}
	}
	return w
}

// offer makes i ready unless it must go after another that is visited alone.
func (w *walk) offer(i int) {
	if w.alone[i] && w.queue[0] != i {
		return
	}
	heap.Push(&w.ready, i)
}

func (w *walk) visited(i int) {
	for _, u := range w.users[i] {
		if w.waiting[u]--; w.waiting[u] == 0 {
			w.offer(u)
		}
	}
	if !w.alone[i] {
		return
	}
	w.queue = w.queue[1:]
	// The next one may have been ready all along. Were it offered by the loop
	// above, it was refused there: the head was still i.
	if len(w.queue) > 0 && w.waiting[w.queue[0]] == 0 {
		w.offer(w.queue[0])
	}
}

type intHeap []int

func (h intHeap) Len() int           { return len(h) }
func (h intHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h intHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *intHeap) Push(x any)        { *h = append(*h, x.(int)) }
func (h *intHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
