package plan

import (
	"io"
	"sync"

	"anvil/pipeline/stage"
)

// open gives a kind that must look at a file to know what it will publish that
// file, by its path relative to the plan. What would block is refused.
func (p *parser) open(path string) (io.ReadCloser, error) { return stage.OpenRegular(p.join(path)) }

// A shelf keeps what kinds read of files, each once. It is safe for concurrent use.
type shelf struct {
	mu   sync.Mutex
	read map[string]func() any
}

func (s *shelf) once(key string, read func() any) any {
	s.mu.Lock()
	if s.read == nil {
		s.read = map[string]func() any{}
	}
	get, ok := s.read[key]
	if !ok {
		get = sync.OnceValue(read)
		s.read[key] = get
	}
	s.mu.Unlock()
	return get()
}
