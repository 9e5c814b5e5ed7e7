package target

import (
	"io"
	"sync"

	"anvil/pipeline/digest"
)

// Sent remembers, for one endpoint and run, which stage sent which prompt: what
// an engine has seen it may have cached.
type Sent struct {
	mu sync.Mutex
	by map[digest.Digest]string
}

// Close forgets nothing that matters any more: the run is over.
func (s *Sent) Close() error { return nil }

// Sent returns the run's memory of the endpoint.
func (t *Target) Sent() (*Sent, error) {
	s, err := t.env.Resources.Get("prompts:"+t.Endpoint.Name, func() (io.Closer, error) {
		return &Sent{by: map[digest.Digest]string{}}, nil
	})
	if err != nil {
		return nil, err
	}
	return s.(*Sent), nil
}

// By returns the stage that sent a prompt, "" for none.
func (s *Sent) By(d digest.Digest) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[d]
}

// Note says that a stage sent prompts; the first one to send a prompt counts.
func (s *Sent) Note(stage string, ds ...digest.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range ds {
		if s.by[d] == "" {
			s.by[d] = stage
		}
	}
}
