package load

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A trial runs a phase in virtual time with requests of known length.
type trial struct {
	phase   Phase
	service func(i int) time.Duration
	epoch   time.Time

	mu         sync.Mutex
	start, due map[int]int64
	slot       map[int]int
	shed       []int
	open, most int
	abortedCh  chan struct{}
}

func newTrial(p Plan, service func(int) time.Duration) *trial {
	tr := &trial{service: service, start: map[int]int64{}, due: map[int]int64{}, slot: map[int]int{}, abortedCh: make(chan struct{})}
	tr.phase = Phase{
		Plan: p, Now: func() int64 { return int64(time.Since(tr.epoch)) }, Begin: func() { tr.epoch = time.Now() },
		Abort: func() { close(tr.abortedCh) },
		Send:  tr.send,
		Shed:  func(i int, _ int64) { tr.shed = append(tr.shed, i) },
	}
	return tr
}

func (tr *trial) send(slot, i int, due int64) int64 {
	tr.mu.Lock()
	tr.start[i], tr.due[i], tr.slot[i] = tr.phase.Now(), due, slot
	tr.open++
	tr.most = max(tr.most, tr.open)
	tr.mu.Unlock()
	select {
	case <-time.After(tr.service(i)):
	case <-tr.abortedCh:
	}
	tr.mu.Lock()
	tr.open--
	tr.mu.Unlock()
	return tr.phase.Now()
}

func same(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

func workers(n int) []int64 { return make([]int64, n) }

// guidellm 70: concurrency off by one.
func TestClosedLoopKeepsNOpen(t *testing.T) {
	for _, n := range []int{1, 2, 64} {
		synctest.Test(t, func(t *testing.T) {
			tr := newTrial(Plan{Workers: workers(n), Requests: 5 * n}, same(100*time.Millisecond))
			r := tr.phase.Run(t.Context(), nil)
			if r.Begun != 5*n || r.Interrupted || r.End != ms(500) {
				t.Errorf("N %d: %+v, want %d in 500 ms", n, r, 5*n)
			}
			if tr.most != n {
				t.Errorf("N %d: at most %d were open", n, tr.most)
			}
			for i, at := range tr.start {
				// The first N together, and each next one when an answer ended.
				if want := ms(100 * int64(i/n)); at != want || tr.due[i] != want {
					t.Errorf("N %d: request %d began at %d, was due at %d, want %d", n, i, at, tr.due[i], want)
				}
			}
		})
	}
}

func TestRampSpreadsTheFirstRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(Plan{Workers: []int64{0, ms(250), ms(500), ms(750)}, Requests: 4}, same(time.Second))
		tr.phase.Run(t.Context(), nil)
		for i := range 4 {
			if want := ms(250 * int64(i)); tr.start[i] != want {
				t.Errorf("request %d began at %d, want %d", i, tr.start[i], want)
			}
		}
	})
}

func TestDurationStopsIssuingAndDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := func(i int) time.Duration {
			if i == 3 {
				return time.Hour // one that never ends
			}
			return 300 * time.Millisecond
		}
		tr := newTrial(Plan{Workers: workers(2), Duration: time.Second, Drain: 5 * time.Second}, service)
		r := tr.phase.Run(t.Context(), nil)
		if r.Interrupted || r.End != int64(6*time.Second) {
			t.Errorf("%+v, want an end at 1 s + 5 s that is no interrupt", r)
		}
		for i, at := range tr.start {
			if at >= int64(time.Second) {
				t.Errorf("request %d began at %d, after the time was up", i, at)
			}
		}
		if r.Begun != len(tr.start) || r.Begun != 6 {
			t.Errorf("begun %d of %d", r.Begun, len(tr.start))
		}
	})
}

func TestInterruptIssuesNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		tr := newTrial(Plan{Workers: workers(2), Requests: 100, Drain: time.Minute}, same(400*time.Millisecond))
		time.AfterFunc(time.Second, func() { close(stop) })
		r := tr.phase.Run(t.Context(), stop)
		if !r.Interrupted || r.Begun != 6 || r.End != ms(1200) {
			t.Errorf("%+v, want 6 begun and their answers awaited until 1.2 s", r)
		}
		select {
		case <-tr.abortedCh:
			t.Error("given up although the drain had time left")
		default:
		}
	})
}

func TestSecondInterruptStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		tr := newTrial(Plan{Workers: workers(2), Requests: 100, Drain: time.Hour}, same(24*time.Hour))
		time.AfterFunc(time.Second, func() { close(stop) })
		time.AfterFunc(2*time.Second, cancel)
		if r := tr.phase.Run(ctx, stop); !r.Interrupted || r.End != int64(2*time.Second) {
			t.Errorf("%+v, want an end at 2 s", r)
		}
	})
}

// A count that has been issued in full is no reason to give requests up: their
// own limits end them.
func TestCountIsNotDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(Plan{Workers: workers(1), Requests: 1, Drain: time.Second}, same(time.Hour))
		if r := tr.phase.Run(t.Context(), nil); r.Interrupted || r.End != int64(time.Hour) {
			t.Errorf("%+v", r)
		}
	})
}

func TestOpenLoopSendsWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due, err := Arrival{Process: "constant", Rate: 2000, Duration: 10 * time.Second}.Schedule(nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(due) != 20_000 {
			t.Fatalf("%d arrivals, want 20,000", len(due))
		}
		tr := newTrial(Plan{Due: due, Duration: 10 * time.Second, Drain: time.Second}, same(100*time.Millisecond))
		r := tr.phase.Run(t.Context(), nil)
		if r.Begun != 20_000 || r.Interrupted {
			t.Fatalf("%+v", r)
		}
		for i, want := range due {
			if tr.start[i] != want {
				t.Fatalf("request %d began at %d, want %d", i, tr.start[i], want)
			}
		}
	})
}

func TestOpenLoopWaitsForASlotAndTheLagShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due := []int64{0, 0, 0, 0}
		tr := newTrial(Plan{Due: due, InFlight: 1}, same(100*time.Millisecond))
		if r := tr.phase.Run(t.Context(), nil); r.Begun != 4 {
			t.Fatalf("%+v", r)
		}
		for i := range due {
			if lag := tr.start[i] - tr.due[i]; lag != ms(100*int64(i)) {
				t.Errorf("request %d: lag %d", i, lag)
			}
		}
		if tr.most != 1 {
			t.Errorf("%d open, the cap is 1", tr.most)
		}
	})
}

func TestOpenLoopShedsAndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due := []int64{0, ms(10), ms(20), ms(120), ms(130)}
		tr := newTrial(Plan{Due: due, InFlight: 1, Shed: true}, same(100*time.Millisecond))
		if r := tr.phase.Run(t.Context(), nil); r.Begun != 5 {
			t.Fatalf("%+v", r)
		}
		if want := []int{1, 2, 4}; !slices.Equal(tr.shed, want) {
			t.Errorf("shed %v, want %v", tr.shed, want)
		}
	})
}

func TestInterruptOfAnOpenLoopThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		tr := newTrial(Plan{Due: []int64{0, 0, ms(5000)}, InFlight: 1, Drain: time.Minute}, same(2*time.Second))
		time.AfterFunc(time.Second, func() { close(stop) })
		if r := tr.phase.Run(t.Context(), stop); !r.Interrupted || r.Begun != 1 || r.End != int64(2*time.Second) {
			t.Errorf("%+v, want one begun", r)
		}
	})
}

func TestConstantHasNoVariance(t *testing.T) {
	for _, rate := range []float64{1, 3, 20, 1000.0 / 3} {
		due, err := Arrival{Process: "constant", Rate: rate, Duration: 60 * time.Second}.Schedule(nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := int(math.Ceil(rate * 60)); len(due) != want {
			t.Errorf("rate %v: %d arrivals in 60 s, want %d", rate, len(due), want)
		}
		for i, at := range due {
			if want := float64(i) / rate * 1e9; math.Abs(float64(at)-want) > 0.5 {
				t.Fatalf("rate %v: arrival %d at %d, want %v", rate, i, at, want)
			}
		}
	}
}

// Random processes have the mean and the variation that was asked for, within
// five standard errors, and are not bent to fit a count.
func TestRandomProcessesAreExact(t *testing.T) {
	const n = 50_000
	cases := []struct {
		arrival Arrival
		cv      float64
	}{
		{Arrival{Process: "poisson", Rate: 50}, 1},
		{Arrival{Process: "gamma", Rate: 50, CV: 0.25}, 0.25},
		{Arrival{Process: "gamma", Rate: 50, CV: 1}, 1},
		{Arrival{Process: "gamma", Rate: 50, CV: 3}, 3},
	}
	for _, tc := range cases {
		a := tc.arrival
		a.Requests = n
		due, err := a.Schedule(rand.New(rand.NewChaCha8([32]byte{1})))
		if err != nil {
			t.Fatal(err)
		}
		again, err := a.Schedule(rand.New(rand.NewChaCha8([32]byte{1})))
		if err != nil || !slices.Equal(due, again) {
			t.Errorf("%s: the same stream gave another schedule", a.Process)
		}
		g := GapsOf(due)
		if !slices.IsSorted(due) || len(due) != n {
			t.Fatalf("%s: %d arrivals, sorted %v", a.Process, len(due), slices.IsSorted(due))
		}
		if off := math.Abs(g.MeanNS/2e7 - 1); off > 5*tc.cv/math.Sqrt(n) {
			t.Errorf("%s cv %v: mean gap %v, want 2e7", a.Process, tc.cv, g.MeanNS)
		}
		// The standard error of a sample's cv, for gamma gaps of shape 1/cv².
		if off := math.Abs(*g.CV/tc.cv - 1); off > 5*math.Sqrt((1+2*tc.cv*tc.cv)/(2*n)) {
			t.Errorf("%s: cv %v, want %v", a.Process, *g.CV, tc.cv)
		}
		if due[n-1] == int64(n-1)*20_000_000 {
			t.Errorf("%s: rescaled to fit N/rate", a.Process)
		}
	}
}

func TestRampStepAndBurst(t *testing.T) {
	cases := []struct {
		name    string
		arrival Arrival
		want    []int64 // the first and the last
		n       int
	}{
		{"ramp up", Arrival{Process: "ramp", From: 0, To: 10, Duration: 10 * time.Second}, []int64{0, 9899494937}, 50},
		{"ramp down", Arrival{Process: "ramp", From: 10, To: 0, Duration: 10 * time.Second}, []int64{0, 8585786438}, 50},
		{"ramp by count", Arrival{Process: "ramp", From: 5, To: 15, Requests: 100}, []int64{0, 0}, 100},
		{"even ramp", Arrival{Process: "ramp", From: 4, To: 4, Duration: time.Second}, []int64{0, 750_000_000}, 4},
		{"step", Arrival{Process: "step", Steps: []Step{{2, time.Second}, {0, time.Second}, {4, time.Second}}, Duration: time.Minute}, []int64{0, 2_750_000_000}, 6},
		{"burst", Arrival{Process: "burst", Rate: 10, Size: 5, Duration: time.Second}, []int64{0, 500_000_000}, 10},
	}
	for _, tc := range cases {
		due, err := tc.arrival.Schedule(nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(due) != tc.n || due[0] != tc.want[0] || !slices.IsSorted(due) {
			t.Errorf("%s: %d arrivals from %d, want %d from %d", tc.name, len(due), due[0], tc.n, tc.want[0])
		}
		if tc.name == "ramp by count" {
			continue // its last one is checked below
		}
		if got := due[len(due)-1]; got != tc.want[1] {
			t.Errorf("%s: the last arrival at %d, want %d", tc.name, got, tc.want[1])
		}
	}
	// Over a count the ramp is as long as its mean rate needs: 100 at 10/s.
	due, err := Arrival{Process: "ramp", From: 5, To: 15, Requests: 100}.Schedule(nil)
	if err != nil || due[99] >= int64(10*time.Second) || due[99] < int64(9900*time.Millisecond) {
		t.Errorf("the last of 100 at %d, want just under 10 s (%v)", due[99], err)
	}
}

func TestSlabKeepsPlaces(t *testing.T) {
	s := NewSlab[int](10)
	first := s.At(3)
	var wg sync.WaitGroup
	for i := range 5000 {
		wg.Go(func() { *s.At(i) += i })
	}
	wg.Wait()
	for i := range 5000 {
		if *s.At(i) != i {
			t.Fatalf("At(%d) = %d", i, *s.At(i))
		}
	}
	if first != s.At(3) {
		t.Error("a value has moved")
	}
}
