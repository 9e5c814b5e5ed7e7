package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// stream returns the random numbers of one purpose for one request. Streams
// are named, so that a new consumer never shifts the draws of another.
func stream(seed int64, name string, index uint64) *rand.Rand {
	key := binary.LittleEndian.AppendUint64(nil, uint64(seed))
	key = binary.LittleEndian.AppendUint64(key, index)
	return rand.New(rand.NewChaCha8(sha256.Sum256(append(key, name...))))
}

// A spread places the numbers of a sequence evenly over [0, 1): among any n
// successive ones, those in an interval of length s number n*s within about
// one. A share of requests chosen by it is met over eight requests, where
// independent draws would often miss it altogether, and yet has no period that
// a load could fall in step with.
type spread float64

func newSpread(seed int64, name string) spread {
	return spread(stream(seed, name, 0).Float64())
}

// at returns the i-th number: the additive recurrence of the golden ratio.
func (s spread) at(i int) float64 {
	const inverseGolden = 0.6180339887498949
	_, frac := math.Modf(float64(s) + float64(float64(i)*inverseGolden))
	return frac
}
