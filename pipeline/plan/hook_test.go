package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/pipeline/plan"
	"anvil/pipeline/stage"
)

// A seen is what one Resolve was shown.
type seen struct {
	ID       string
	Upstream []string
	Like     string // what the peer named by "model" has
}

// kindsThatTell returns kinds whose Resolve records what it sees.
func kindsThatTell(log *[]seen) stage.Set {
	set := fakeKinds()
	for name, in := range map[string][]stage.Port{
		"tell":   {optional(port("attempts", "anvil.attempts/v1"))},
		"retell": {many(optional(port("attempts", "anvil.attempts/v1")))},
	} {
		set[name] = fake(stage.Spec{
			Name: name, Contract: 1, Config: "anvil.endpoint/v1", Class: stage.Pure, In: in,
			Out: []stage.Port{port(name+".json", "anvil.told/v1")},
			Resolve: func(r *stage.Resolution) {
				s := seen{ID: r.ID}
				for _, p := range r.Upstream {
					s.Upstream = append(s.Upstream, p.Kind+" "+p.ID)
				}
				if name, ok := r.With["model"].(string); ok {
					p, ok := r.Peer(name)
					if !ok {
						r.Problem("/model", "no stage "+name, "name one")
					} else if w, ok := p.With["workload"].(map[string]any); ok {
						s.Like = p.ID + " " + string(encoded(w["seed"]))
					}
				}
				*log = append(*log, s)
				r.With["path"] = "/told/" + r.ID
			},
		})
	}
	return set
}

const telling = `schema: anvil.plan/v1
name: telling
seed: 9
matrix: {n: [1, 2]}
endpoints: {target: {base_url: null}}
stages:
  - {id: before, uses: tell, with: {model: measure}}
  - {id: scout, uses: scout, needs: [before], with: {endpoint: target}}
  - {id: measure, uses: measure, needs: [scout], with: {endpoint: target, load: {mode: closed, concurrency: "${matrix.n}", requests: 1}}}
  - {id: after, uses: tell, needs: [measure], with: {model: measure}}
  - {id: other, uses: tell, needs: [before, after]}
`

// A kind sees what it depends on, nearest first, resolved; of any other stage
// its defaults alone.
func TestResolveSeesTheStagesUpstream(t *testing.T) {
	var log []seen
	p, err := plan.Parse("testdata/p.yaml", []byte(telling), kindsThatTell(&log), plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []seen{
		{ID: "before", Like: "measure[n=1] null"},
		{ID: "after[n=1]", Upstream: []string{"measure measure[n=1]", "scout scout", "tell before"}, Like: "measure[n=1] 9"},
		{ID: "after[n=2]", Upstream: []string{"measure measure[n=2]", "scout scout", "tell before"}, Like: "measure[n=2] 9"},
		{ID: "other", Upstream: []string{"tell before", "tell after[n=1]", "tell after[n=2]", "measure measure[n=1]", "measure measure[n=2]", "scout scout"}},
	}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Errorf("what kinds saw (-want +got):\n%s", diff)
	}
	if got := at(t, stageOf(t, p, "after[n=2]").With, "/path"); got != `"/told/after[n=2]"` {
		t.Errorf("what a kind resolved is %s", got)
	}
}

func TestProblemsOfAKindStandAtTheValueOrAboveWhatIsLeftOut(t *testing.T) {
	var log []seen
	src := strings.Replace(telling, "{id: before, uses: tell, with: {model: measure}}", "{id: before, uses: tell, with: {model: nobody}}", 1)
	src = strings.Replace(src, "requests: 1}", "ramp: 0s}", 1)
	_, err := plan.Parse("testdata/p.yaml", []byte(src), kindsThatTell(&log), plan.Options{})
	want := []string{
		"7:44 stages[0].with.model: no stage nobody",
		"9:81 stages[2].with.load: must hold exactly one of requests and duration",
	}
	if diff := cmp.Diff(want, places(err)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// Needs that bind to no port order stages and multiply nothing; those along a
// shared axis still meet at their point.
func TestNeedsWithoutAPortMultiplyNothing(t *testing.T) {
	var log []seen
	src := strings.Replace(telling, "{id: other, uses: tell, needs: [before, after]}", "{id: other, uses: retell, needs: [after, measure], collect: [n]}", 1)
	p, err := plan.Parse("testdata/p.yaml", []byte(src), kindsThatTell(&log), plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := stageOf(t, p, "other")
	if diff := cmp.Diff([]string{"measure[n=1]", "measure[n=2]", "after[n=1]", "after[n=2]"}, s.Needs); diff != "" {
		t.Errorf("needs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"measure[n=1]", "measure[n=2]"}, sources(s, "attempts")); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
}
