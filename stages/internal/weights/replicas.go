package weights

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Differences says in words, a path each, in which files the replicas differ and
// which of them has what. It is empty when they are alike.
func (v Verification) Differences() []string {
	held := byPath(v.Replicas)
	var out []string
	for _, p := range slices.Sorted(maps.Keys(held)) {
		if h := held[p]; !h.alike(len(v.Replicas)) {
			out = append(out, p+": "+h.words(v.Replicas))
		}
	}
	return out
}

// Unlike are the paths at which the replicas hold different bytes, or some none.
func Unlike(replicas []Replica) map[string]bool {
	out := map[string]bool{}
	for p, h := range byPath(replicas) {
		if !h.alike(len(replicas)) {
			out[p] = true
		}
	}
	return out
}

// markUnlike takes back that such files are right.
func markUnlike(replicas []Replica) {
	unlike := Unlike(replicas)
	for _, r := range replicas {
		for i, f := range r.Files {
			r.Files[i].OK = f.OK && !unlike[f.Path]
		}
	}
}

// A holding is what replicas hold at one path, by their place among them.
type holding map[int]File

func byPath(replicas []Replica) map[string]holding {
	held := map[string]holding{}
	for i, r := range replicas {
		for _, f := range r.Files {
			if held[f.Path] == nil {
				held[f.Path] = holding{}
			}
			held[f.Path][i] = f.File
		}
	}
	return held
}

// alike tells whether all of so many replicas hold the same bytes.
func (h holding) alike(replicas int) bool {
	for _, f := range h {
		if f != h[0] {
			return false
		}
	}
	return len(h) == replicas
}

// words names the replicas by what they hold: "a has 0f…, b and c have 7e…, d has none".
func (h holding) words(replicas []Replica) string {
	var order []string
	names := map[string][]string{}
	for i, r := range replicas {
		what := "none"
		if f, ok := h[i]; ok {
			what = f.SHA256.String()
		}
		if names[what] == nil {
			order = append(order, what)
		}
		names[what] = append(names[what], r.Name)
	}
	parts := make([]string, len(order))
	for i, what := range order {
		verb := "has"
		if len(names[what]) > 1 {
			verb = "have"
		}
		parts[i] = fmt.Sprintf("%s %s %s", strings.Join(names[what], " and "), verb, what)
	}
	return strings.Join(parts, ", ")
}
