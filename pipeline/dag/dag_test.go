package dag

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestOrderKeepsTheOrderOfAdding(t *testing.T) {
	var g Graph[string]
	g.Add("record", "grade", "measure")
	g.Add("measure", "scout", "nowhere")
	g.Add("scout")
	g.Add("grade", "measure")
	got, err := g.Order()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"scout", "measure", "grade", "record"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestOrderNamesTheCycle(t *testing.T) {
	for name, tt := range map[string]struct {
		edges [][2]string
		want  string
	}{
		"self":  {[][2]string{{"a", "a"}}, "cycle: a -> a"},
		"two":   {[][2]string{{"a", "b"}, {"b", "a"}}, "cycle: a -> b -> a"},
		"below": {[][2]string{{"x", "a"}, {"a", "b"}, {"b", "c"}, {"c", "a"}}, "cycle: a -> b -> c -> a"},
	} {
		var g Graph[string]
		for _, e := range tt.edges {
			g.Add(e[0], e[1])
		}
		_, err := g.Order()
		var cycle *CycleError[string]
		if !errors.As(err, &cycle) || err.Error() != tt.want {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
	}
}

func TestALongChainIsOrdered(t *testing.T) {
	var g Graph[int]
	const n = 100_000
	for i := range n {
		g.Add(i, i+1)
	}
	order, err := g.Order()
	if err != nil || len(order) != n || order[0] != n-1 || order[n-1] != 0 {
		t.Errorf("got %d nodes, %v", len(order), err)
	}
}

// drawDAG draws a graph in which a node depends on smaller ones only.
func drawDAG(t *rapid.T) (*Graph[int], map[int][]int) {
	n := rapid.IntRange(1, 12).Draw(t, "nodes")
	g, needs := new(Graph[int]), map[int][]int{}
	for _, k := range rapid.Permutation(seq(n)).Draw(t, "order") {
		if k > 0 {
			needs[k] = rapid.SliceOfNDistinct(rapid.IntRange(0, k-1), 0, min(k, 3), rapid.ID).Draw(t, "needs")
		}
		g.Add(k, needs[k]...)
	}
	return g, needs
}

func seq(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func TestEveryNodeComesAfterWhatItNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, needs := drawDAG(t)
		order, err := g.Order()
		if err != nil {
			t.Fatal(err)
		}
		if len(order) != len(slices.Compact(slices.Sorted(slices.Values(order)))) {
			t.Fatalf("a node stands twice in %v", order)
		}
		for k, ds := range needs {
			for _, d := range ds {
				if slices.Index(order, d) > slices.Index(order, k) {
					t.Fatalf("%d comes before %d, which it needs: %v", k, d, order)
				}
			}
		}
	})
}

func TestUpstreamAndDownstreamAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, needs := drawDAG(t)
		// The slow, obvious version.
		var depends func(a, b int) bool
		depends = func(a, b int) bool {
			return slices.ContainsFunc(needs[a], func(d int) bool { return d == b || depends(d, b) })
		}
		for a := range len(g.nodes) {
			up, down := g.Upstream(a), g.Downstream(a)
			for b := range len(g.nodes) {
				if got, want := up[b], depends(a, b); got != want {
					t.Fatalf("Upstream(%d)[%d] = %v, want %v", a, b, got, want)
				}
				if got, want := down[b], depends(b, a); got != want {
					t.Fatalf("Downstream(%d)[%d] = %v, want %v", a, b, got, want)
				}
			}
		}
	})
}
