package load

import (
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"
)

// Evidence is what the client observed of itself during a phase. Times are in
// microseconds; what the platform does not tell is null.
type Evidence struct {
	GC        GC
	Scheduler Latency
	CPU       CPU
}

// GC is what the collector cost.
type GC struct {
	Cycles     uint64   `json:"cycles"`
	Pauses     uint64   `json:"pauses"`
	PauseP99US *float64 `json:"pause_p99_us"` // upper edge of a histogram's bucket; null without a pause
	PauseMaxUS *float64 `json:"pause_max_us"`
}

// Latency is a distribution of times.
type Latency struct {
	Samples uint64   `json:"samples"`
	P50US   *float64 `json:"p50_us"`
	P99US   *float64 `json:"p99_us"`
	MaxUS   *float64 `json:"max_us"`
}

// CPU is what the process used.
type CPU struct {
	Cores         int      `json:"cores"` // that the runtime may use
	OwnS          *float64 `json:"own_s"` // user and system time of this process
	Share         *float64 `json:"share"` // of the cores, over the phase
	ThrottledS    *float64 `json:"throttled_s"`
	IncludesModel bool     `json:"includes_engine"` // the embedded engine ran in the same process
}

const (
	gcPauses  = "/sched/pauses/total/gc:seconds"
	gcCycles  = "/gc/cycles/total:gc-cycles"
	schedWait = "/sched/latencies:seconds"
)

// A Watch takes evidence from its start to its end.
type Watch struct {
	at        time.Time
	samples   []metrics.Sample
	own       time.Duration
	throttled time.Duration
	haveOwn   bool
	haveThr   bool
}

// StartWatch begins the evidence.
func StartWatch() *Watch {
	w := &Watch{at: time.Now(), samples: readMetrics()}
	w.own, w.haveOwn = ownCPU()
	w.throttled, w.haveThr = throttled()
	return w
}

func readMetrics() []metrics.Sample {
	s := []metrics.Sample{{Name: gcPauses}, {Name: gcCycles}, {Name: schedWait}}
	metrics.Read(s)
	return s
}

// End returns the evidence since the start.
func (w *Watch) End() Evidence {
	wall := time.Since(w.at)
	after := readMetrics()
	pauses, waits := since(w.samples[0], after[0]), since(w.samples[2], after[2])
	e := Evidence{
		GC:        GC{Pauses: total(pauses.Counts), PauseP99US: quantile(pauses, 0.99), PauseMaxUS: quantile(pauses, 1)},
		Scheduler: Latency{Samples: total(waits.Counts), P50US: quantile(waits, 0.5), P99US: quantile(waits, 0.99), MaxUS: quantile(waits, 1)},
		CPU:       CPU{Cores: runtime.GOMAXPROCS(0)},
	}
	if after[1].Value.Kind() == metrics.KindUint64 {
		e.GC.Cycles = after[1].Value.Uint64() - w.samples[1].Value.Uint64()
	}
	if own, ok := ownCPU(); ok && w.haveOwn {
		used := (own - w.own).Seconds()
		e.CPU.OwnS = &used
		if wall > 0 {
			share := used / wall.Seconds() / float64(e.CPU.Cores)
			e.CPU.Share = &share
		}
	}
	if t, ok := throttled(); ok && w.haveThr {
		s := (t - w.throttled).Seconds()
		e.CPU.ThrottledS = &s
	}
	return e
}

// since is the histogram of what came between two readings.
func since(before, after metrics.Sample) metrics.Float64Histogram {
	if before.Value.Kind() != metrics.KindFloat64Histogram || after.Value.Kind() != metrics.KindFloat64Histogram {
		return metrics.Float64Histogram{}
	}
	a, b := after.Value.Float64Histogram(), before.Value.Float64Histogram()
	out := metrics.Float64Histogram{Buckets: a.Buckets, Counts: slices.Clone(a.Counts)}
	for i := range b.Counts {
		out.Counts[i] -= b.Counts[i]
	}
	return out
}

func total(counts []uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// quantile is the upper edge, in microseconds, of the bucket that holds the
// quantile; of one that is open above its lower edge. Null without a sample.
func quantile(h metrics.Float64Histogram, q float64) *float64 {
	n := total(h.Counts)
	if n == 0 {
		return nil
	}
	rank := uint64(math.Ceil(q * float64(n)))
	var seen uint64
	for i, c := range h.Counts {
		if seen += c; seen >= max(rank, 1) {
			edge := h.Buckets[i+1]
			if math.IsInf(edge, 1) {
				edge = h.Buckets[i]
			}
			us := edge * 1e6
			return &us
		}
	}
	return nil
}

// Lags is the distribution of send lags.
type Lags struct {
	Samples  int      `json:"samples"`
	MeanUS   *float64 `json:"mean_us"`
	P50US    *float64 `json:"p50_us"`
	P95US    *float64 `json:"p95_us"`
	P99US    *float64 `json:"p99_us"`
	MaxUS    *float64 `json:"max_us"`
	BudgetUS float64  `json:"budget_us"` // for the p99
}

// LagsOf describes lags in nanoseconds, by nearest rank; it sorts them.
func LagsOf(ns []int64, budget time.Duration) Lags {
	l := Lags{Samples: len(ns), BudgetUS: float64(budget) / 1e3}
	if len(ns) == 0 {
		return l
	}
	slices.Sort(ns)
	sum := 0.0
	for _, v := range ns {
		sum += float64(v)
	}
	us := func(v float64) *float64 { v /= 1e3; return &v }
	at := func(q float64) *float64 { return us(float64(ns[max(int(math.Ceil(q*float64(len(ns)))), 1)-1])) }
	l.MeanUS, l.P50US, l.P95US, l.P99US, l.MaxUS = us(sum/float64(len(ns))), at(0.5), at(0.95), at(0.99), at(1)
	return l
}
