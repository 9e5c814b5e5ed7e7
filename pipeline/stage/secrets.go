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

	// TooShort, which may be nil, is told of each variable whose value is too
	// short to be kept out of anything; see Hide.
	TooShort func(name string)

	mu     sync.RWMutex
	told   []string // names given to TooShort
	values [][]byte // spellings to hide, the longest first
	plain  [][]byte // the values as they are, for escapes
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
	if len(strings.TrimSpace(value)) < shortestSecret {
		s.tell(name)
	}
	return value, true
}

func (s *Secrets) tell(name string) {
	s.mu.Lock()
	known := slices.Contains(s.told, name)
	if !known {
		s.told = append(s.told, name)
	}
	s.mu.Unlock()
	if !known && s.TooShort != nil {
		s.TooShort(name)
	}
}

// shortestSecret is how many bytes a value has at least that is hidden. Local
// servers are given keys like "x", "none" or "token", which protect nothing, and
// hiding these bytes wherever they stand would garble every answer and document.
const shortestSecret = 6

// Hide keeps a value, as it stands and as JSON, URLs and basic authentication
// spell it, out of what Redact returns; not one of fewer than six bytes.
func (s *Secrets) Hide(value string) {
	value = strings.TrimSpace(value) // no request carries the blanks around it
	if len(value) < shortestSecret {
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
	if b := []byte(value); !slices.ContainsFunc(s.plain, func(w []byte) bool { return bytes.Equal(w, b) }) {
		s.plain = append(s.plain, b)
	}
}

// Redact returns text with every byte of a known secret replaced by '*', so
// that lengths and offsets stay.
func (s *Secrets) Redact(text string) string { return s.redacted(text, false) }

// RedactCut is Redact for a text that may have been cut off: the beginning of a
// secret at its end is hidden too.
func (s *Secrets) RedactCut(text string) string { return s.redacted(text, true) }

func (s *Secrets) redacted(text string, cut bool) string {
	if !s.any() || text == "" {
		return text
	}
	if b := []byte(text); s.redact(b, cut) {
		return string(b)
	}
	return text
}

// RedactBytes is Redact in place.
func (s *Secrets) RedactBytes(b []byte) {
	if s.any() {
		s.redact(b, false)
	}
}

func (s *Secrets) any() bool {
	if s == nil {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.values) > 0
}

// redact hides in place and tells whether there was anything to hide.
func (s *Secrets) redact(b []byte, cut bool) (found bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, v := range s.values {
		for at := 0; ; {
			i := bytes.Index(b[at:], v)
			if i < 0 {
				break
			}
			hide(b[at+i:][:len(v)])
			found = true
			at += i + len(v)
		}
	}
	for _, v := range s.plain {
		found = hideEscaped(b, v, cut) || found
	}
	return found
}

func hide(b []byte) {
	for i := range b {
		b[i] = '*'
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
