package prov_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

// randomRun draws a DAG in which stages raise what they like and a first part
// was taken over from a base run.
func randomRun(t *rapid.T) blueprint {
	n := rapid.IntRange(2, 8).Draw(t, "stages")
	taken := rapid.IntRange(0, n-1).Draw(t, "taken over")
	bp := blueprint{lean: true}
	for i := range n {
		nd := node{id: fmt.Sprintf("s%d", i), kind: "grade", base: i < taken}
		for j := range i {
			if j == i-1 || rapid.Bool().Draw(t, fmt.Sprintf("s%d reads s%d", i, j)) {
				// A stage of the base run read what the base run had.
				nd.from = append(nd.from, j)
			}
		}
		for k := range rapid.IntRange(0, 3).Draw(t, fmt.Sprintf("raised by s%d", i)) {
			l := limitation(rapid.SampledFrom([]string{"samples.few", "client.lag", "weights.unbound"}).Draw(t, "code"))
			l.Text = fmt.Sprintf("fact %d", k)
			l.Severity = rapid.SampledFrom([]stage.Severity{stage.Note, stage.Caveat, stage.Void}).Draw(t, "severity")
			nd.raised = append(nd.raised, l)
		}
		bp.nodes = append(bp.nodes, nd)
	}
	bp.nodes[0].raised = append(bp.nodes[0].raised, limitation("engine.simulated"))
	return bp
}

// tampering is one way to lose or bend a limitation. Everything downstream is
// written from the tampered place on, so that every digest agrees.
var tampering = map[string]func(t *rapid.T, bp *blueprint){
	"a result drops what an input has": func(t *rapid.T, bp *blueprint) {
		at := rapid.IntRange(1, len(bp.nodes)-1).Draw(t, "at")
		bp.forge = func(i int, res *prov.Result) {
			if i == at {
				res.Limitations = without(res.Limitations, inherited(t, bp, i, res.Limitations))
			}
		}
	},
	"a result edits what an input has": func(t *rapid.T, bp *blueprint) {
		at := rapid.IntRange(1, len(bp.nodes)-1).Draw(t, "at")
		bp.forge = func(i int, res *prov.Result) {
			if i == at {
				l := inherited(t, bp, i, res.Limitations)
				rest := without(res.Limitations, l)
				l.Text += ", but hardly"
				res.Limitations = rest.Union(stage.LimitationSet{l})
			}
		}
	},
	"a result plays one down": func(t *rapid.T, bp *blueprint) {
		at := rapid.IntRange(1, len(bp.nodes)-1).Draw(t, "at")
		bp.forge = func(i int, res *prov.Result) {
			if i == at {
				l := inherited(t, bp, i, res.Limitations)
				rest := without(res.Limitations, l)
				l.AppliesTo = []string{"ttft_p50_ms"}
				res.Limitations = rest.Union(stage.LimitationSet{l})
			}
		}
	},
	"a reference drops one": func(t *rapid.T, bp *blueprint) {
		at := rapid.IntRange(1, len(bp.nodes)-1).Draw(t, "at")
		bp.reference = func(i, input int, _ *prov.Input, set stage.LimitationSet) stage.LimitationSet {
			if i != at || input != 0 || len(set) == 0 {
				return set
			}
			of := []stage.Limitation(set)
			if bp.nodes[i].base {
				// What was added to its input is added to it, too: that is not lost.
				of = ofStages(set)
			}
			return without(set, rapid.SampledFrom(of).Draw(t, "dropped"))
		}
	},
	"a reference adds one of a stage": func(t *rapid.T, bp *blueprint) {
		at := rapid.IntRange(1, len(bp.nodes)-1).Draw(t, "at")
		bp.reference = func(i, input int, _ *prov.Input, set stage.LimitationSet) stage.LimitationSet {
			if i != at || input != 0 {
				return set
			}
			l := limitation("samples.few")
			l.Origin = "s0"
			l.Text = "never raised"
			return set.Union(stage.LimitationSet{l})
		}
	},
	"a document drops one": func(t *rapid.T, bp *blueprint) {
		at := rapid.IntRange(0, len(bp.nodes)-1).Draw(t, "at")
		bp.document = func(i int, set stage.LimitationSet) stage.LimitationSet {
			if i != at {
				return set
			}
			return without(set, rapid.SampledFrom(ofStages(set)).Draw(t, "dropped"))
		}
	},
	"a stage raises in another's name": func(t *rapid.T, bp *blueprint) {
		at := rapid.IntRange(1, len(bp.nodes)-1).Draw(t, "at")
		l := limitation("samples.few")
		l.Origin, l.Text = "s0", "never raised"
		bp.nodes[at].raised = append(bp.nodes[at].raised, l)
	},
	"the manifest drops one": func(t *rapid.T, bp *blueprint) {
		bp.manifest = func(m *prov.Manifest) {
			_, m.Limitations.SHA256 = stage.LimitationSet{}.Canonical()
			m.Limitations.Count = 0
		}
	},
}

func without(set stage.LimitationSet, l stage.Limitation) stage.LimitationSet {
	one := stage.NewLimitationSet(l)
	return stage.NewLimitationSet(set.Missing(one)...)
}

// inherited draws a limitation that the node did not raise itself. Each has
// one: the first node raises engine.simulated and every other stands on it.
func inherited(t *rapid.T, bp *blueprint, i int, set stage.LimitationSet) stage.Limitation {
	var of []stage.Limitation
	for _, l := range set {
		if l.Origin != bp.nodes[i].id {
			of = append(of, l)
		}
	}
	return rapid.SampledFrom(of).Draw(t, "inherited")
}

func ofStages(set stage.LimitationSet) (out []stage.Limitation) {
	for _, l := range set {
		if l.Origin != stage.OriginRun {
			out = append(out, l)
		}
	}
	return out
}

func TestNoLimitationIsLostUnnoticed(t *testing.T) {
	ways := make([]string, 0, len(tampering))
	for name := range tampering {
		ways = append(ways, name)
	}
	slices.Sort(ways)
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				bp := randomRun(rt)
				tampering[way](rt, &bp)
				rep := build(t, bp).verify(t)
				found := slices.ContainsFunc(rep.Problems, func(p prov.Problem) bool { return strings.HasPrefix(p.Code, "limitation.") })
				if !found || rep.OK || rep.Level > 1 {
					rt.Fatalf("%s: got level %d, %+v, want a problem of limitations", way, rep.Level, rep.Problems)
				}
			})
		})
	}
}

func TestEveryLimitationReachesTheRecord(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bp := randomRun(rt)
		b := build(t, bp)
		if rep := b.verify(t); !rep.OK || rep.Level != 3 {
			rt.Fatalf("got level %d, %+v, want a proof", rep.Level, rep.Problems)
		}
		last, err := prov.NewReader(b.store).Result(context.Background(), b.results[len(b.results)-1])
		must(t, err)
		// Each node reads the one before it, so everything reaches the last.
		for _, n := range bp.nodes {
			for _, l := range n.raised {
				l.Origin = n.id
				if missing := stage.NewLimitationSet(l).Missing(last.Limitations); len(missing) > 0 {
					rt.Fatalf("%v did not reach the last stage", missing)
				}
			}
		}
	})
}
