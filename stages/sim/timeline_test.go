package sim

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// plannedThousand are arrivals that need the queue, with 1,000 events.
func plannedThousand() (Config, []Arrival) {
	cfg := DefaultConfig()
	cfg.Slots, cfg.Queue, cfg.Jitter, cfg.Seed, cfg.TokensPerEvent, cfg.DecodeTokS = 3, 6, 0.3, 20260920, 2, 90
	r := stream(cfg.Seed, "test arrivals", 0)
	var arrivals []Arrival
	at := time.Duration(0)
	for range 90 {
		at += time.Duration(r.IntN(260)) * time.Millisecond
		arrivals = append(arrivals, Arrival{At: at, Prompt: 1 + r.IntN(2000), Reasoning: r.IntN(12), Content: 1 + r.IntN(70)})
	}
	return cfg, arrivals
}

// The model's numbers are a contract: they must be the same on every machine,
// with every compiler and after every change that does not mean to alter them.
func TestPlannedTimesAreAPureFunction(t *testing.T) {
	cfg, arrivals := plannedThousand()
	got := plannedText(Plan(cfg, arrivals))
	if again := plannedText(Plan(cfg, slices.Clone(arrivals))); !bytes.Equal(got, again) {
		t.Fatal("two calls with equal arguments differ")
	}
	if n := bytes.Count(got, []byte("\n")); n < 1000 {
		t.Fatalf("got %d planned times, want at least 1,000", n)
	}
	const golden = "testdata/planned.golden"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("planned times changed (-want +got):\n%s", diff)
	}
}

func plannedText(timelines []Timeline) []byte {
	var b bytes.Buffer
	for i, tl := range timelines {
		if tl.Refused {
			fmt.Fprintf(&b, "%d refused\n", i)
		}
		for k, at := range tl.Events {
			fmt.Fprintf(&b, "%d %d %d\n", i, k, at)
		}
	}
	return b.Bytes()
}

func TestDurationDependsOnTokensAndRatesAlone(t *testing.T) {
	cfg := DefaultConfig()
	cfg.PrefillTokS, cfg.DecodeTokS, cfg.TokensPerEvent = 1000, 100, 4
	got := Plan(cfg, []Arrival{{At: time.Second, Prompt: 500, Cached: 100, Reasoning: 6, Content: 9}})[0]
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	want := Timeline{
		Begin:  ms(1000),
		Events: []time.Duration{ms(1440), ms(1460), ms(1500), ms(1540), ms(1550)},
		End:    ms(1550),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("timeline (-want +got):\n%s", diff)
	}
}

func TestJitterKeepsTheMeanAndItsBounds(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Jitter = 0.25
	events := Plan(cfg, []Arrival{{Content: 20000}})[0].Events
	low, high := 7500*time.Microsecond, 12500*time.Microsecond
	for i := 1; i < len(events); i++ {
		if gap := events[i] - events[i-1]; gap < low || gap > high {
			t.Fatalf("gap %d is %v, want %v to %v", i, gap, low, high)
		}
	}
	mean := events[len(events)-1].Seconds() / float64(len(events))
	if math.Abs(mean-0.01) > 0.0001 { // the standard error is 0.00001
		t.Errorf("mean step is %v s, want 0.01", mean)
	}
}

func TestAnInsertedRequestLeavesTheStepsOfOthersAlone(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Jitter = 0.5
	alone := newPace(cfg, 7, Arrival{Prompt: 10, Content: 50})
	longer := newPace(cfg, 7, Arrival{Prompt: 10, Content: 80})
	if !slices.Equal(alone.events, longer.events[:50]) {
		t.Error("a longer answer moved the events that both have")
	}
	if slices.Equal(alone.events, newPace(cfg, 8, Arrival{Prompt: 10, Content: 50}).events) {
		t.Error("two requests have the same jitter")
	}
}

// reference is the queue as a slow, obvious program: time goes forward from
// one thing that happens to the next, and everything is looked at each time.
func reference(slots, queue int, arrivals []Arrival, service []time.Duration) []Timeline {
	out := make([]Timeline, len(arrivals))
	state := make([]jobState, len(arrivals)) // refused means not there yet, or refused
	for {
		// The next thing: an end before a departure before an arrival.
		when, what, who := forever, 0, -1
		consider := func(at time.Duration, kind, i int) {
			if at < when || at == when && who >= 0 && kind < what {
				when, what, who = at, kind, i
			}
		}
		for i, a := range arrivals {
			switch {
			case state[i] == running:
				consider(out[i].End, 1, i)
			case state[i] == refused && !out[i].Refused:
				consider(a.At, 3, i)
			}
			if a.Leave > 0 && (state[i] == running || state[i] == waiting) {
				consider(max(a.Leave, a.At), 2, i)
			}
		}
		if who < 0 {
			return out
		}
		count := func(s jobState) (n int) {
			for _, have := range state {
				if have == s {
					n++
				}
			}
			return n
		}
		switch what {
		case 1:
			state[who] = ended
		case 2:
			if state[who] == running {
				state[who], out[who].End = ended, when
			} else {
				state[who], out[who].Dropped = dropped, true
			}
		case 3:
			state[who] = waiting
			if count(running) >= slots && count(waiting) > queue {
				state[who], out[who].Refused = refused, true
			}
		}
		for i := range arrivals {
			if state[i] == waiting && count(running) < slots {
				state[i], out[i].Begin, out[i].End = running, when, when+service[i]
			}
		}
	}
}

func TestPlanAgreesWithASlowObviousQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := DefaultConfig()
		cfg.Slots = rapid.IntRange(1, 3).Draw(t, "slots")
		cfg.Queue = rapid.IntRange(0, 4).Draw(t, "queue")
		cfg.DecodeTokS = 1000
		at := time.Duration(0)
		var arrivals []Arrival
		var service []time.Duration
		for range rapid.IntRange(1, 25).Draw(t, "n") {
			at += time.Duration(rapid.IntRange(0, 6).Draw(t, "gap")) * time.Millisecond
			a := Arrival{At: at, Content: rapid.IntRange(0, 12).Draw(t, "tokens")}
			if rapid.IntRange(0, 3).Draw(t, "leaves") == 0 {
				a.Leave = at + time.Duration(rapid.IntRange(1, 20).Draw(t, "leave"))*time.Millisecond
			}
			arrivals = append(arrivals, a)
			service = append(service, time.Duration(a.Content)*time.Millisecond)
		}
		got := Plan(cfg, arrivals)
		for i := range got {
			got[i].Events = nil
		}
		if diff := cmp.Diff(reference(cfg.Slots, cfg.Queue, arrivals, service), got); diff != "" {
			t.Fatalf("%+v (-want +got):\n%s", arrivals, diff)
		}
	})
}

// Two who leave at the same moment leave in order of arrival: the first frees
// its slot for the second, whatever else the queue has held before.
func TestThoseWhoLeaveTogetherLeaveInOrderOfArrival(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Slots, cfg.Queue, cfg.DecodeTokS = 2, 1, 1000
	ms := time.Millisecond
	arrivals := []Arrival{{Leave: 2 * ms}, {Content: 4, Leave: 3 * ms}, {At: ms, Content: 3}, {At: ms, Leave: 3 * ms}}
	want := []Timeline{{}, {End: 3 * ms}, {Begin: ms, End: 4 * ms}, {Begin: 3 * ms, End: 3 * ms}}
	got := Plan(cfg, arrivals)
	for i := range got {
		got[i].Events = nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
