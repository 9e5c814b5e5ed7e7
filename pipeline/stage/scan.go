package stage

import "bytes"

// A Scan looks for secrets in a text that comes in pieces. It is for one goroutine.
type Scan struct {
	secrets *Secrets
	keep    int // bytes that a secret which has begun can take
	held    []byte
	found   bool
}

// scanStep is how much is looked through at once.
const scanStep = 32 << 10

// Scan begins a text; with no secrets known it is nil, which finds none.
func (s *Secrets) Scan() *Scan {
	if !s.any() {
		return nil
	}
	return &Scan{secrets: s, keep: longestEscape * s.Longest()}
}

// Write takes the next piece.
func (n *Scan) Write(b []byte) {
	if n == nil || n.found {
		return
	}
	if n.held = append(n.held, b...); len(n.held) < n.keep+scanStep {
		return
	}
	n.found = n.secrets.redact(n.held, false)
	n.held = append(n.held[:0], n.held[len(n.held)-n.keep:]...)
}

// Found ends the text and tells whether it held a secret in any spelling, or
// broke off within one.
func (n *Scan) Found() bool {
	if n == nil {
		return false
	}
	if !n.found && len(n.held) > 0 {
		n.found = n.secrets.redact(n.held, true)
	}
	n.held = n.held[:0]
	return n.found
}

// In tells whether a text holds a secret, or breaks off within one.
func (s *Secrets) In(text []byte) bool { return s.any() && s.redact(bytes.Clone(text), true) }
