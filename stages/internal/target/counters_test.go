package target

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A document holds no NaN: one such counter must not cost the others.
func TestACounterThatIsNotFiniteIsNone(t *testing.T) {
	got := parseCounters(strings.NewReader(`# TYPE good_total counter
good_total{a="1"} 1
good_total{a="2"} 2
# TYPE nan_total counter
nan_total{a="1"} 1
nan_total{a="2"} NaN
# TYPE inf_total counter
inf_total +Inf
# TYPE both_total counter
both_total{a="1"} +Inf
both_total{a="2"} -Inf
untyped_total NaN
# TYPE large_total counter
large_total{a="1"} 1.7e308
large_total{a="2"} 1.7e308
`))
	if diff := cmp.Diff(Counters{"good_total": 3}, got); diff != "" {
		t.Error(diff)
	}
	if got := parseCounters(strings.NewReader("# TYPE x_total counter\nx_total NaN\n")); got != nil {
		t.Errorf("got %v, want none", got)
	}
}

// A page that cannot be read whole is no reading: where it fails a family would
// count as 0, and another's requests would be taken for a stranger's.
func TestAPageThatCannotBeReadIsNoReading(t *testing.T) {
	for _, value := range []string{"1,000", "1e999", "many"} {
		page := "# TYPE good_total counter\ngood_total 1\n# TYPE vllm:request_success_total counter\nvllm:request_success_total " + value + "\n"
		if got := parseCounters(strings.NewReader(page)); got != nil {
			t.Errorf("%s: got %v, want none", value, got)
		}
	}
}

// Two readings are compared by name: the same names must survive the cut,
// whatever stands before them.
func TestMoreCountersThanAreKeptAreCutByName(t *testing.T) {
	text := func(n, step int) string {
		var b strings.Builder
		for i := range n {
			i = i * step % n
			fmt.Fprintf(&b, "# TYPE c%04d_total counter\nc%04d_total 1\n", i, i)
		}
		return b.String()
	}
	before, after := parseCounters(strings.NewReader(text(2*maxCounters, 1))), parseCounters(strings.NewReader(text(2*maxCounters, 7)))
	names := slices.Sorted(maps.Keys(before))
	if len(names) != maxCounters || names[maxCounters-1] != fmt.Sprintf("c%04d_total", maxCounters-1) {
		t.Errorf("got %d counters, the last %s", len(names), names[len(names)-1])
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
}

func TestForeignRequestsAreWhatTheServerCountedMore(t *testing.T) {
	const name = "vllm:request_success_total"
	for _, tt := range []struct {
		before, after Counters
		want          int
	}{
		{Counters{name: 5}, Counters{name: 15}, 7},
		{Counters{name: 5}, Counters{name: 8}, 0},
		{Counters{name: 5}, Counters{name: 6}, 0},
		{Counters{name: 9}, Counters{name: 2}, 0}, // it began anew
		{Counters{name: 0}, Counters{name: 1e300}, 0},
		{nil, Counters{name: 9}, 0},
		{Counters{"x_total": 0}, Counters{"x_total": 9}, 0},
	} {
		if got := Foreign(tt.before, tt.after, 3); got != tt.want {
			t.Errorf("%v to %v, 3 sent: got %d, want %d", tt.before, tt.after, got, tt.want)
		}
	}
}
