// Package dag is a small directed graph: a stable order, the path of a cycle,
// and what lies up- or downstream of a node.
package dag

import (
	"fmt"
	"strings"
)

// A Graph holds nodes in the order in which they were added, and edges from a
// node to those that it depends on. The zero value is an empty graph.
type Graph[K comparable] struct {
	nodes []K
	deps  map[K][]K
}

// Add adds node k with its dependencies. A node added twice keeps its place
// and gains the further dependencies. Dependencies need not be nodes yet; one
// that never becomes a node is ignored by every method.
func (g *Graph[K]) Add(k K, needs ...K) {
	if g.deps == nil {
		g.deps = make(map[K][]K)
	}
	if _, ok := g.deps[k]; !ok {
		g.nodes = append(g.nodes, k)
		g.deps[k] = nil
	}
	g.deps[k] = append(g.deps[k], needs...)
}

// Has tells whether k was added.
func (g *Graph[K]) Has(k K) bool { _, ok := g.deps[k]; return ok }

// Needs returns the direct dependencies of k that are nodes, in their order.
func (g *Graph[K]) Needs(k K) []K {
	var needs []K
	for _, d := range g.deps[k] {
		if g.Has(d) {
			needs = append(needs, d)
		}
	}
	return needs
}

// A CycleError names the nodes of one cycle; the first stands again at the end.
type CycleError[K comparable] struct{ Path []K }

// Error writes the cycle as a -> b -> a.
func (e *CycleError[K]) Error() string {
	parts := make([]string, len(e.Path))
	for i, k := range e.Path {
		parts[i] = fmt.Sprint(k)
	}
	return "cycle: " + strings.Join(parts, " -> ")
}

// Order returns all nodes, each after its dependencies and otherwise as early
// as the order of adding allows. A cycle is a *CycleError.
func (g *Graph[K]) Order() ([]K, error) {
	const (
		unseen = iota
		open
		done
	)
	state := make(map[K]int, len(g.nodes))
	order := make([]K, 0, len(g.nodes))
	// An explicit stack: a chain of 10,000 stages must not cost goroutine stack.
	type frame struct {
		k    K
		next int
	}
	for _, root := range g.nodes {
		if state[root] != unseen {
			continue
		}
		state[root] = open
		stack := []frame{{k: root}}
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.next == len(g.deps[top.k]) {
				state[top.k] = done
				order = append(order, top.k)
				stack = stack[:len(stack)-1]
				continue
			}
			d := g.deps[top.k][top.next]
			top.next++
			if !g.Has(d) {
				continue
			}
			switch state[d] {
			case unseen:
				state[d] = open
				stack = append(stack, frame{k: d})
			case open:
				var path []K
				for i := range stack {
					if len(path) > 0 || stack[i].k == d {
						path = append(path, stack[i].k)
					}
				}
				return nil, &CycleError[K]{Path: append(path, d)}
			}
		}
	}
	return order, nil
}

// Upstream returns everything that the given nodes depend on, directly or not,
// without the nodes themselves unless one depends on another.
func (g *Graph[K]) Upstream(of ...K) map[K]bool {
	return reach(of, g.Needs)
}

// Downstream returns everything that depends on the given nodes, directly or
// not, without the nodes themselves unless one depends on another.
func (g *Graph[K]) Downstream(of ...K) map[K]bool {
	users := make(map[K][]K, len(g.nodes))
	for _, k := range g.nodes {
		for _, d := range g.Needs(k) {
			users[d] = append(users[d], k)
		}
	}
	return reach(of, func(k K) []K { return users[k] })
}

func reach[K comparable](from []K, next func(K) []K) map[K]bool {
	seen := make(map[K]bool)
	todo := append([]K(nil), from...)
	for len(todo) > 0 {
		k := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, n := range next(k) {
			if !seen[n] {
				seen[n] = true
				todo = append(todo, n)
			}
		}
	}
	return seen
}
