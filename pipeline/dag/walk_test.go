package dag

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// randomGraph draws nodes 0..n-1 whose needs are smaller nodes, added in a
// shuffled order.
func randomGraph(t *rapid.T) (*Graph[int], int) {
	n := rapid.IntRange(1, 30).Draw(t, "nodes")
	order := rapid.Permutation(sequence(n)).Draw(t, "order")
	g := &Graph[int]{}
	for _, k := range order {
		var needs []int
		if k > 0 {
			needs = rapid.SliceOfNDistinct(rapid.IntRange(0, k-1), 0, min(k, 3), rapid.ID[int]).Draw(t, "needs")
		}
		g.Add(k, needs...)
	}
	return g, n
}

func sequence(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func TestWalkVisitsEachNodeOnceAfterItsNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, n := randomGraph(t)
		limit := rapid.IntRange(0, 4).Draw(t, "limit")
		lonely := rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "alone")
		var mu sync.Mutex
		var started, finished []int
		var running, most atomic.Int64
		err := g.Walk(limit, func(k int) bool { return lonely[k] }, func(k int) {
			now := running.Add(1)
			defer running.Add(-1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
			mu.Lock()
			for _, d := range g.Needs(k) {
				if !slices.Contains(finished, d) {
					t.Errorf("node %d began before its need %d had ended", k, d)
				}
			}
			if lonely[k] && now != 1 {
				t.Errorf("node %d should be alone and runs beside %d others", k, now-1)
			}
			started = append(started, k)
			mu.Unlock()
			mu.Lock()
			finished = append(finished, k)
			mu.Unlock()
		})
		if err != nil {
			t.Fatalf("walk: %v", err)
		}
		slices.Sort(started)
		if !slices.Equal(started, sequence(n)) {
			t.Fatalf("visited %v, want each of 0..%d once", started, n-1)
		}
		if most.Load() > int64(max(limit, 1)) {
			t.Fatalf("%d visits at once, limit %d", most.Load(), limit)
		}
	})
}

func TestWalkKeepsLonelyNodesInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, n := randomGraph(t)
		lonely := rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "alone")
		order, err := g.Order()
		if err != nil {
			t.Fatal(err)
		}
		want := slices.DeleteFunc(order, func(k int) bool { return !lonely[k] })
		var mu sync.Mutex
		var got []int
		if err := g.Walk(3, func(k int) bool { return lonely[k] }, func(k int) {
			mu.Lock()
			defer mu.Unlock()
			if lonely[k] {
				got = append(got, k)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("lonely nodes ran as %v, want %v", got, want)
		}
	})
}

func TestWalkStartsReadyNodesInOrder(t *testing.T) {
	g := &Graph[string]{}
	g.Add("c", "b")
	g.Add("a")
	g.Add("b")
	var got []string
	if err := g.Walk(1, nil, func(k string) { got = append(got, k) }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"b", "c", "a"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWalkVisitsNothingOfACycle(t *testing.T) {
	g := &Graph[string]{}
	g.Add("x")
	g.Add("a", "b")
	g.Add("b", "a")
	err := g.Walk(2, nil, func(k string) { t.Errorf("visited %s", k) })
	var cycle *CycleError[string]
	if !errors.As(err, &cycle) || err.Error() != "cycle: a -> b -> a" {
		t.Errorf("got %v, want the cycle a -> b -> a", err)
	}
}

func TestOrderPutsNeedsFirstAndIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, n := randomGraph(t)
		order, err := g.Order()
		if err != nil {
			t.Fatal(err)
		}
		if len(order) != n {
			t.Fatalf("order %v has %d nodes, want %d", order, len(order), n)
		}
		for i, k := range order {
			for _, d := range g.Needs(k) {
				if slices.Index(order, d) > i {
					t.Fatalf("order %v: %d stands before its need %d", order, k, d)
				}
			}
		}
	})
}

func TestUpstreamAndDownstreamMirrorEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, n := randomGraph(t)
		for a := range n {
			for b := range n {
				if g.Upstream(a)[b] != g.Downstream(b)[a] {
					t.Fatalf("%d upstream of %d is %v, the other way round %v", b, a, g.Upstream(a)[b], g.Downstream(b)[a])
				}
			}
		}
	})
}

func TestOrderOfADeepChainUsesNoStack(t *testing.T) {
	g := &Graph[int]{}
	const deep = 100_000
	for i := range deep {
		g.Add(i, i+1)
	}
	g.Add(deep)
	order, err := g.Order()
	if err != nil || order[0] != deep || order[deep] != 0 {
		t.Fatalf("order of a chain: first %d, last %d, %v", order[0], order[deep], err)
	}
}
