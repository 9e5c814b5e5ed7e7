package measure

import (
	"fmt"
	"math"

	"anvil/pipeline/stage"
	"anvil/stages/internal/load"
)

// What a phase writes: for each request its frames and its line, for each token
// an event with its stamps. Events of real engines are 150 to 300 bytes long.
const (
	bytesPerRequest = 4 << 10
	bytesPerEvent   = 320
	eventsPerSecond = 200 // of one stream, where only time ends the phase
)

// need is how many bytes the phase may write, were every answer as long as it
// is allowed to be.
func (m measure) need(s setup) float64 {
	answer := math.Min(float64(m.MaxTokens)*bytesPerEvent, float64(m.Limits.MaxBody))
	if m.Limits.MaxBody == 0 {
		answer = float64(m.MaxTokens) * bytesPerEvent
	}
	if s.known {
		return float64(s.planned) * (bytesPerRequest + answer)
	}
	return float64(len(s.plan.Workers)) * s.plan.Duration.Seconds() * eventsPerSecond * bytesPerEvent
}

// room holds what the phase may write against what the disk has left.
func (m measure) room(env stage.Env, s setup) error {
	if env.Folder == nil {
		return nil
	}
	free, ok := load.Free(env.Folder)
	if need := m.need(s); ok && need > float64(free) {
		return fmt.Errorf(
			"the disk is too small for the phase: it may write %s and %s are free; make room, or lower load.requests, load.duration, max_tokens or limits.max_body (nothing was sent)",
			size(need), size(float64(free)))
	}
	return nil
}

func size(bytes float64) string {
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if bytes < 1024 {
			return fmt.Sprintf("%.3g %s", bytes, unit)
		}
		bytes /= 1024
	}
	return fmt.Sprintf("%.4g TiB", bytes)
}
