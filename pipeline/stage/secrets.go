package stage

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Secrets looks secrets up by name and keeps their values out of everything
// that is written. It is safe for concurrent use; the zero value knows none.
type Secrets struct {
	Env func(name string) (string, bool) // os.LookupEnv in a run

	mu     sync.RWMutex
	values [][]byte // spellings to hide, the longest first
}

// Lookup returns the value of an environment variable and hides it from then
// on. A variable that is unset or empty is no secret: ok is false.
func (s *Secrets) Lookup(name string) (value string, ok bool) {
	if s == nil || s.Env == nil {
		return "", false
	}
	value, ok = s.Env(name)
	if !ok || value == "" {
		return "", false
	}
	s.Hide(value)
	return value, true
}

// Hide keeps a value, as it stands and as JSON, URLs and basic authentication
// spell it, out of what Redact returns.
func (s *Secrets) Hide(value string) {
	if value == "" {
		return
	}
	spellings := []string{value, url.QueryEscape(value), url.PathEscape(value), base64.StdEncoding.EncodeToString([]byte(value))}
	if quoted, err := json.Marshal(value); err == nil {
		spellings = append(spellings, string(quoted[1:len(quoted)-1]))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range spellings {
		b := []byte(v)
		if !slices.ContainsFunc(s.values, func(w []byte) bool { return bytes.Equal(w, b) }) {
			s.values = append(s.values, b)
		}
	}
	slices.SortStableFunc(s.values, func(a, b []byte) int { return len(b) - len(a) })
}

// Redact returns text with every byte of a known secret replaced by '*', so
// that lengths and offsets stay.
func (s *Secrets) Redact(text string) string {
	if s == nil {
		return text
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, v := range s.values {
		if strings.Contains(text, string(v)) {
			text = strings.ReplaceAll(text, string(v), strings.Repeat("*", len(v)))
		}
	}
	return text
}

// RedactBytes is Redact in place.
func (s *Secrets) RedactBytes(b []byte) {
	if s == nil {
		return
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, v := range s.values {
		for at := 0; ; {
			i := bytes.Index(b[at:], v)
			if i < 0 {
				break
			}
			for j := range v {
				b[at+i+j] = '*'
			}
			at += i + len(v)
		}
	}
}

// Longest returns the length in bytes of the longest spelling: what a redactor
// of a stream must hold back between two reads.
func (s *Secrets) Longest() int {
	if s == nil {
		return 0
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.values) == 0 {
		return 0
	}
	return len(s.values[0])
}
