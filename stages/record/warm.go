package record

import (
	"slices"

	"anvil/stages/internal/stat"
)

// WarmFactor is how many times the median prefill rate a request must show
// before its prompt counts as cached: it separates the one primed cell among 34
// real records from all others.
const WarmFactor = 5

const warmRows = 4 // at least; fewer requests have no typical one

// A PrefillRate is the effective prefill rate of one request.
type PrefillRate struct {
	Index      int64
	TokensPerS float64
}

// WarmRows returns, in order, the requests of one cell whose prompts were
// probably cached, and the cell's median rate (nearest rank).
func WarmRows(rates []PrefillRate) (warm []int64, median float64) {
	if len(rates) < warmRows {
		return nil, 0
	}
	sorted := make([]float64, len(rates))
	for i, r := range rates {
		sorted[i] = r.TokensPerS
	}
	slices.Sort(sorted)
	median = stat.NearestRank(sorted, 50, 100)
	for _, r := range rates {
		if r.TokensPerS >= WarmFactor*median {
			warm = append(warm, r.Index)
		}
	}
	slices.Sort(warm)
	return warm, median
}
