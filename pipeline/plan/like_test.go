package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/pipeline/stage"
)

// A calibration stands before the measurement that it is like, has its axes,
// and meets it at each point.
func TestStageThatIsLikeAnotherIsMultipliedWithIt(t *testing.T) {
	axes := []axis{{name: "n", values: []any{"1", "2"}}, {name: "rep", values: []any{"1", "2", "3"}}}
	none := map[string]bool{}
	calibrate := &draft{index: 0, id: "calibrate", own: none, head: map[string]any{}}
	measure := &draft{index: 1, id: "measure", own: map[string]bool{"n": true, "rep": true}, head: map[string]any{}, needs: []*draft{calibrate}}
	calibrate.like = []*draft{measure}
	measure.ports = []boundPort{{port: stage.Port{Name: "calibration", Optional: true}, from: []output{{of: calibrate, name: "calibration.json"}}}}
	p := &parser{axes: axes, drafts: []*draft{calibrate, measure}, top: map[string]any{}, places: &place{}}
	p.multiply()
	if len(p.ps.list) > 0 {
		t.Fatalf("problems: %v", p.ps.err())
	}
	got := map[string][]string{}
	for _, c := range measure.children {
		for _, n := range c.needs {
			got[c.id] = append(got[c.id], n.id)
		}
	}
	want := map[string][]string{
		"measure[n=1,rep=1]": {"calibrate[n=1,rep=1]"}, "measure[n=1,rep=2]": {"calibrate[n=1,rep=2]"}, "measure[n=1,rep=3]": {"calibrate[n=1,rep=3]"},
		"measure[n=2,rep=1]": {"calibrate[n=2,rep=1]"}, "measure[n=2,rep=2]": {"calibrate[n=2,rep=2]"}, "measure[n=2,rep=3]": {"calibrate[n=2,rep=3]"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("needs (-want +got):\n%s", diff)
	}
}
