package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// An Arrival is an arrival process with its parameters; see measure's load.
type Arrival struct {
	Process  string  // constant, poisson, gamma, burst, ramp or step
	Rate     float64 // requests/s
	CV       float64 // gamma: coefficient of variation of the gaps
	Size     int     // burst: requests that are due together
	From, To float64 // ramp: requests/s at the start and the end
	Steps    []Step
	Requests int           // exactly one of Requests and Duration
	Duration time.Duration // arrivals before it
}

// A Step is a constant rate for a time.
type Step struct {
	Rate     float64
	Duration time.Duration
}

// MaxArrivals bounds a schedule.
const MaxArrivals = 20_000_000

// Schedule computes when each request is due, in nanoseconds from the start.
// Processes are exact: constant has no variance, and what is random is never
// rescaled to fit. Only gamma and poisson draw from r.
func (a Arrival) Schedule(r *rand.Rand) ([]int64, error) {
	next, err := a.arrivals(r)
	if err != nil {
		return nil, err
	}
	var due []int64
	for i := 0; a.Requests == 0 || i < a.Requests; i++ {
		s := next(i)
		if math.IsInf(s, 1) {
			break // the process has no more arrivals
		}
		ns := math.Round(s * 1e9) // first: what is written is what is compared
		if a.Duration > 0 && ns >= float64(a.Duration) {
			break
		}
		if ns > math.MaxInt64/4 || i >= MaxArrivals {
			return nil, fmt.Errorf("schedule of more than %d arrivals or 70 years", MaxArrivals)
		}
		due = append(due, int64(ns))
	}
	return due, nil
}

// Starts spreads the first requests of n workers evenly over a ramp, ns.
func Starts(n int, ramp int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = ramp / int64(n) * int64(i)
	}
	return out
}

// arrivals returns the time of arrival i in seconds, to be asked in order.
func (a Arrival) arrivals(r *rand.Rand) (func(i int) float64, error) {
	switch a.Process {
	case "constant":
		return func(i int) float64 { return float64(i) / a.Rate }, nil
	case "burst":
		return func(i int) float64 { return float64(i/a.Size) * float64(a.Size) / a.Rate }, nil
	case "poisson":
		return sum(func() float64 { return r.ExpFloat64() / a.Rate }), nil
	case "gamma":
		shape := 1 / (a.CV * a.CV)
		return sum(func() float64 { return gamma(r, shape) / shape / a.Rate }), nil
	case "ramp":
		return a.ramp(), nil
	case "step":
		return a.step(), nil
	}
	return nil, fmt.Errorf("arrival process %q is not built", a.Process)
}

// sum turns gaps into times. The first arrival comes after the first gap, as a
// process that had been running would have it.
func sum(gap func() float64) func(int) float64 {
	at := 0.0
	return func(int) float64 {
		at += gap()
		return at
	}
}

// ramp inverts the integral of a rate that grows evenly: arrival i comes when i
// requests have been due. Over a count of requests the ramp's length is such
// that they just fit.
func (a Arrival) ramp() func(int) float64 {
	length := a.Duration.Seconds()
	if a.Requests > 0 {
		length = 2 * float64(a.Requests) / (a.From + a.To)
	}
	slope := (a.To - a.From) / length
	return func(i int) float64 {
		n := float64(i)
		d := a.From*a.From + 2*slope*n
		root := a.From + math.Sqrt(math.Max(d, 0))
		if d < 0 || root == 0 && n > 0 {
			return math.Inf(1)
		}
		if n == 0 {
			return 0
		}
		// The stable form of the quadratic's root: no cancellation at a small slope.
		return 2 * n / root
	}
}

// step is a constant process at each rate, the next beginning where the last ends.
func (a Arrival) step() func(int) float64 {
	k, base, begin := 0, 0, 0.0 // step, arrivals before it, its start
	return func(i int) float64 {
		for ; k < len(a.Steps); k++ {
			s := a.Steps[k]
			length := s.Duration.Seconds()
			if at := float64(i-base) / s.Rate; s.Rate > 0 && at < length {
				return begin + at
			}
			begin, base = begin+length, i
		}
		return math.Inf(1)
	}
}

// gamma draws from the gamma distribution of that shape and scale 1, after
// Marsaglia and Tsang, "A simple method for generating gamma variables" (2000).
func gamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(r, shape+1) * math.Pow(1-r.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		u := 1 - r.Float64()
		if math.Log(u) < 0.5*x*x+d*(1-v+math.Log(v)) {
			return d * v
		}
	}
}

// Gaps are statistics of the gaps between successive stamps.
type Gaps struct {
	Samples  int      `json:"samples"`
	MeanNS   float64  `json:"mean_ns"`
	StddevNS *float64 `json:"stddev_ns"` // of the sample; null with fewer than two gaps
	CV       *float64 `json:"cv"`        // null where the mean is 0 or the deviation unknown
}

// GapsOf returns the statistics of stamps in order; nil with fewer than two.
func GapsOf(stamps []int64) *Gaps {
	n := len(stamps) - 1
	if n < 1 {
		return nil
	}
	g := &Gaps{Samples: n, MeanNS: float64(stamps[n]-stamps[0]) / float64(n)}
	if n < 2 {
		return g
	}
	var squares float64
	for i := range n {
		d := float64(stamps[i+1]-stamps[i]) - g.MeanNS
		squares += d * d
	}
	sd := math.Sqrt(squares / float64(n-1))
	g.StddevNS = &sd
	if g.MeanNS > 0 {
		cv := sd / g.MeanNS
		g.CV = &cv
	}
	return g
}
