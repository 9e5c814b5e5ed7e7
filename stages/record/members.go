package record

import (
	"sync"

	"anvil/stages/internal/shape"
)

// benchmarkMembers are the top-level members that any shape has.
var benchmarkMembers = sync.OnceValue(func() []string {
	s, err := shape.Compile(BenchmarkSchema)
	if err != nil {
		return nil // checks report it as schema.missing
	}
	return s.Names()
})
