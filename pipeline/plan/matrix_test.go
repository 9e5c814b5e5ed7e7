package plan_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"anvil/pipeline/plan"
	"anvil/pipeline/stage"
)

const sweeping = `schema: anvil.plan/v1
name: sweep
matrix: {concurrency: [1, 4, 16], rep: [1, 2]}
endpoints: {target: {base_url: null, sim: {slots: 8}}}
stages:
  - {id: scout, uses: scout, with: {endpoint: target}}
  - {id: measure, uses: measure, needs: [scout], with: {endpoint: target, max_tokens: 32, load: {mode: closed,
      concurrency: "${matrix.concurrency}", requests: 32}, workload: {source: synthetic, context_tokens: 256, seed: "${matrix.rep}"}}}
  - {id: score, uses: score, needs: [measure]}
  - {id: all, uses: join, needs: [scout, measure]}
`

func sources(s plan.Stage, port string) []string {
	var out []string
	for _, b := range s.Inputs {
		if b.Port == port {
			for _, f := range b.From {
				out = append(out, f.Stage)
			}
		}
	}
	return out
}

func TestMatrixMultipliesWhatNamesItAndWhatStandsOnThat(t *testing.T) {
	p := mustParse(t, sweeping, plan.Options{})
	var points []string
	for _, c := range []int{1, 4, 16} {
		for _, r := range []int{1, 2} {
			points = append(points, fmt.Sprintf("[concurrency=%d,rep=%d]", c, r))
		}
	}
	want := []string{"scout"}
	for _, id := range []string{"measure", "score"} {
		for _, point := range points {
			want = append(want, id+point)
		}
	}
	if diff := cmp.Diff(append(want, "all"), ids(p)); diff != "" {
		t.Fatalf("stages (-want +got):\n%s", diff)
	}
	m := stageOf(t, p, "measure[concurrency=4,rep=2]")
	if at(t, m.With, "/load/concurrency") != "4" || at(t, m.With, "/workload/seed") != "2" || m.Of != "measure" || m.Dir != m.ID {
		t.Errorf("child is %+v", m)
	}
	if diff := cmp.Diff(stage.Cell{{Axis: "concurrency", Value: json.Number("4")}, {Axis: "rep", Value: json.Number("2")}}, m.Cell); diff != "" {
		t.Errorf("cell (-want +got):\n%s", diff)
	}
	s := stageOf(t, p, "score[concurrency=4,rep=2]")
	if diff := cmp.Diff([]string{m.ID}, s.Needs); diff != "" {
		t.Errorf("needs of a child (-want +got):\n%s", diff)
	}
	all := stageOf(t, p, "all")
	if diff := cmp.Diff(want[1:7], sources(all, "attempts")); diff != "" {
		t.Errorf("collected children (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(append([]string{"scout"}, want[1:7]...), all.Needs); diff != "" {
		t.Errorf("needs of the collecting stage (-want +got):\n%s", diff)
	}
}

func TestCollectSaysWhichChildrenArriveTogether(t *testing.T) {
	for _, c := range []struct {
		collect string
		stages  []string
		first   []string
	}{
		{", collect: [rep]", []string{"all[concurrency=1]", "all[concurrency=4]", "all[concurrency=16]"}, []string{"measure[concurrency=1,rep=1]", "measure[concurrency=1,rep=2]"}},
		{", collect: [concurrency]", []string{"all[rep=1]", "all[rep=2]"}, []string{"measure[concurrency=1,rep=1]", "measure[concurrency=4,rep=1]", "measure[concurrency=16,rep=1]"}},
		{", collect: []", []string{
			"all[concurrency=1,rep=1]", "all[concurrency=1,rep=2]", "all[concurrency=4,rep=1]", "all[concurrency=4,rep=2]",
			"all[concurrency=16,rep=1]", "all[concurrency=16,rep=2]",
		}, []string{"measure[concurrency=1,rep=1]"}},
	} {
		p := mustParse(t, strings.Replace(sweeping, "needs: [scout, measure]", "needs: [scout, measure]"+c.collect, 1), plan.Options{})
		got := slices.DeleteFunc(ids(p), func(id string) bool { return !strings.HasPrefix(id, "all") })
		if diff := cmp.Diff(c.stages, got); diff != "" {
			t.Errorf("stages with %s (-want +got):\n%s", c.collect, diff)
		}
		if diff := cmp.Diff(c.first, sources(stageOf(t, p, c.stages[0]), "attempts")); diff != "" {
			t.Errorf("children with %s (-want +got):\n%s", c.collect, diff)
		}
	}
}

func TestAxisOfAnEndpointIsTheStagesOwn(t *testing.T) {
	src := strings.ReplaceAll(sweeping, "slots: 8", `slots: "${matrix.slots}"`)
	src = strings.ReplaceAll(src, "rep: [1, 2]", "rep: [1, 2], slots: [8, 9]")
	p := mustParse(t, src, plan.Options{})
	want := []string{"scout[slots=8]", "scout[slots=9]", "measure[concurrency=1,rep=1,slots=8]"}
	if diff := cmp.Diff(want, ids(p)[:3]); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	m := stageOf(t, p, "measure[concurrency=1,rep=1,slots=9]")
	if at(t, m.With, "/endpoint/sim/slots") != "9" || at(t, m.Endpoint.Config, "/sim/slots") != "9" {
		t.Errorf("endpoint of the child is %s", m.Endpoint.Config)
	}
	if diff := cmp.Diff([]string{"scout[slots=9]"}, m.Needs); diff != "" {
		t.Errorf("needs (-want +got):\n%s", diff)
	}
	if len(p.Endpoints) != 0 {
		t.Errorf("an endpoint that differs by child stands in the plan: %v", p.Endpoints)
	}
}

func TestRunOrderIsAsTheMatrixOrderSays(t *testing.T) {
	two := strings.ReplaceAll(sweeping, "[1, 4, 16], rep: [1, 2]", "[1, 4], rep: [1, 2, 3]")
	measured := func(src string) []string {
		var out []string
		for _, id := range ids(mustParse(t, src, plan.Options{})) {
			if strings.HasPrefix(id, "measure[") {
				out = append(out, strings.NewReplacer("measure[concurrency=", "", ",rep=", "/", "]", "").Replace(id))
			}
		}
		return out
	}
	abba := measured(two + "matrix_order: abba\n")
	if diff := cmp.Diff([]string{"1/1", "4/1", "4/2", "1/2", "1/3", "4/3"}, abba); diff != "" {
		t.Errorf("abba (-want +got):\n%s", diff)
	}
	a, b := measured(sweeping+"matrix_order: shuffled\n"), measured(sweeping+"matrix_order: shuffled\n")
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("two readings shuffle differently:\n%s", diff)
	}
	other := measured(sweeping + "matrix_order: shuffled\nseed: 1\n")
	written := measured(sweeping)
	if slices.Equal(a, written) && slices.Equal(other, written) {
		t.Errorf("shuffled order is %v with either seed", a)
	}
	slices.Sort(a)
	slices.Sort(written)
	if diff := cmp.Diff(written, a); diff != "" {
		t.Errorf("shuffling changed the set:\n%s", diff)
	}
	// What a key stands on does not depend on the order in which children ran.
	p, q := mustParse(t, sweeping, plan.Options{}), mustParse(t, sweeping+"matrix_order: shuffled\n", plan.Options{})
	if diff := cmp.Diff(sources(stageOf(t, p, "all"), "attempts"), sources(stageOf(t, q, "all"), "attempts")); diff != "" {
		t.Errorf("inputs follow the run order:\n%s", diff)
	}
}

func TestAbbaWithRepFirst(t *testing.T) {
	src := strings.ReplaceAll(sweeping, "concurrency: [1, 4, 16], rep: [1, 2]", "rep: [1, 2], concurrency: [1, 4]") + "matrix_order: abba\n"
	want := []string{"measure[rep=1,concurrency=1]", "measure[rep=1,concurrency=4]", "measure[rep=2,concurrency=4]", "measure[rep=2,concurrency=1]"}
	if diff := cmp.Diff(want, ids(mustParse(t, src, plan.Options{}))[1:5]); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
}

func TestDirectoryNamesAreSafeAndShort(t *testing.T) {
	src := strings.ReplaceAll(sweeping, "rep: [1, 2]", `rep: ["a b/c", "é", null, true, "`+strings.Repeat("x", 100)+`"]`)
	src = strings.ReplaceAll(src, `seed: "${matrix.rep}"`, `seed: 1}, sampling: {reasoning_effort: "r${matrix.rep}"`)
	p := mustParse(t, src, plan.Options{})
	var dirs []string
	for _, s := range p.Stages[1:6] {
		dirs = append(dirs, s.Dir)
	}
	want := []string{
		"measure[concurrency=1,rep=a%20b%2Fc]", "measure[concurrency=1,rep=%C3%A9]", "measure[concurrency=1,rep=null]", "measure[concurrency=1,rep=true]",
		"measure[concurrency=1,rep=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx~",
	}
	want[4] = dirs[4][:80] + "~" + dirs[4][81:]
	if diff := cmp.Diff(want, dirs); diff != "" || len(dirs[4]) != 93 || dirs[4][80] != '~' {
		t.Errorf("folders (-want +got):\n%s", diff)
	}
	if got := dirs[4][81:]; got != stageDigest(p.Stages[5].ID) {
		t.Errorf("digest in the folder's name is %s, want %s", got, stageDigest(p.Stages[5].ID))
	}
}

// Every child needs exactly the children that agree with it on shared axes.
func TestChildrenNeedTheChildrenAtTheirPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		axes := []string{"a", "b", "c"}
		var matrix []string
		for _, name := range axes {
			matrix = append(matrix, fmt.Sprintf("%s: [%s]", name, strings.Join([]string{"1", "2", "3"}[:rapid.IntRange(1, 3).Draw(t, name)], ", ")))
		}
		subset := rapid.SliceOfDistinct(rapid.SampledFrom(axes), func(s string) string { return s })
		effort := func(names []string) string {
			var b strings.Builder
			for _, n := range names {
				b.WriteString("${matrix." + n + "}-")
			}
			return b.String()
		}
		first, second := subset.Draw(t, "first"), subset.Draw(t, "second")
		rest := slices.DeleteFunc(slices.Clone(axes), func(n string) bool { return slices.Contains(first, n) || slices.Contains(second, n) })
		src := fmt.Sprintf(`schema: anvil.plan/v1
name: random
matrix: {%s}
stages:
  - {id: one, uses: import, with: {file: rows.jsonl, schema: anvil.attempts/v1, sha256: null}}
  - {id: x, uses: score, needs: [one], with: {model: "x%s"}}
  - {id: y, uses: pass, needs: [x], with: {model: "y%s"}}
  - {id: rest, uses: score, needs: [one], with: {model: "z%s"}}
`, strings.Join(matrix, ", "), effort(first), effort(second), effort(rest))
		p, err := parse(src, plan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Stages {
			if s.Of != "y" {
				continue
			}
			if len(s.Needs) != 1 {
				t.Fatalf("%s needs %v", s.ID, s.Needs)
			}
			for _, other := range p.Stages {
				if other.ID != s.Needs[0] {
					continue
				}
				for axis, v := range other.Cell.Map() {
					if s.Cell.Map()[axis] != v {
						t.Fatalf("%s needs %s", s.ID, other.ID)
					}
				}
			}
		}
	})
}

// A product that nobody could run is answered at once.
func TestMatrixIsBounded(t *testing.T) {
	var axes, effort []string
	for i := range 8 {
		axes = append(axes, fmt.Sprintf("a%d: [%s]", i, strings.Join(numbers(100), ", ")))
		effort = append(effort, fmt.Sprintf("${matrix.a%d}", i))
	}
	src := strings.Replace(sweeping, "matrix: {concurrency: [1, 4, 16], rep: [1, 2]}", "matrix: {concurrency: [1], rep: [2], "+strings.Join(axes, ", ")+"}", 1)
	src = strings.Replace(src, "max_tokens: 32,", `max_tokens: 32, sampling: {reasoning_effort: "`+strings.Join(effort, "-")+`"},`, 1)
	_, err := parse(src, plan.Options{})
	want := []string{"3:9 matrix: the matrix multiplies the stages to more than 50000"}
	if diff := cmp.Diff(want, places(err)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(i + 1)
	}
	return out
}
