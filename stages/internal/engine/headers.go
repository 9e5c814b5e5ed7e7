package engine

import (
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"anvil/pipeline/stage"
)

// Headers resolves what every request of the endpoint carries: content type,
// credentials and the plan's own headers, which come last and override. Secret
// values are looked up through s, which hides them from then on. Each missing
// variable is one line of warnings, for stderr. A missing key file is an error.
func (p *Protocol) Headers(s *stage.Secrets, planDir string) (h http.Header, warnings []string, err error) {
	e := &p.Endpoint
	h = http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("Accept", p.accept())
	h.Set("Accept-Encoding", "identity")
	if e.Compression {
		h.Set("Accept-Encoding", "gzip")
	}
	h.Set("User-Agent", "anvil")
	if p.Adapter.API() == "anthropic-messages" {
		h.Set("Anthropic-Version", "2023-06-01")
	}
	p.urlCredentials(h, s)
	key, warning, err := e.key(s, planDir)
	if err != nil {
		return nil, nil, err
	}
	if warning != "" {
		warnings = append(warnings, warning)
	}
	if key != "" {
		p.setKey(h, key)
	}
	for name, value := range e.Headers {
		h.Set(name, value)
	}
	for _, name := range slices.Sorted(maps.Keys(e.HeadersEnv)) {
		value, ok := s.Lookup(e.HeadersEnv[name])
		if !ok {
			warnings = append(warnings, fmt.Sprintf("endpoint %s: variable %s is not set; header %s is not sent", e.Name, e.HeadersEnv[name], name))
			continue
		}
		h.Set(name, value)
	}
	return h, warnings, nil
}

func (p *Protocol) accept() string {
	switch {
	case !p.Stream:
		return "application/json"
	case p.Adapter.Framing() == Lines:
		return "application/x-ndjson"
	default:
		return "text/event-stream"
	}
}

// urlCredentials sends those that stand in base_url.
func (p *Protocol) urlCredentials(h http.Header, s *stage.Secrets) {
	if p.Endpoint.BaseURL == nil {
		return
	}
	u, err := url.Parse(*p.Endpoint.BaseURL)
	if err != nil {
		return
	}
	for name, values := range u.Query() {
		if secretName(name) {
			for _, v := range values {
				s.Hide(v)
			}
		}
	}
	if u.User == nil {
		return
	}
	password, _ := u.User.Password()
	pair := u.User.Username() + ":" + password
	basic := base64.StdEncoding.EncodeToString([]byte(pair))
	if password != "" {
		s.Hide(password)
	}
	s.Hide(pair)
	h.Set("Authorization", "Basic "+basic)
}

// key returns the API key, "" for none, and a line when its variable has none.
func (e *Endpoint) key(s *stage.Secrets, planDir string) (key, warning string, err error) {
	if e.APIKeyFile != nil {
		path := *e.APIKeyFile
		if !filepath.IsAbs(path) {
			path = filepath.Join(planDir, path)
		}
		b, err := readKey(path)
		if err != nil {
			return "", "", fmt.Errorf("endpoint %s: api_key_file: %w", e.Name, err)
		}
		key = strings.TrimSpace(string(b))
		s.Hide(key)
		if key != "" {
			return key, "", nil
		}
	}
	if e.APIKeyEnv == nil {
		return "", "", nil
	}
	key, ok := s.Lookup(*e.APIKeyEnv)
	if !ok {
		return "", fmt.Sprintf("endpoint %s: variable %s is not set; no API key is sent", e.Name, *e.APIKeyEnv), nil
	}
	return strings.TrimSpace(key), "", nil
}

// setKey sends a key the way the API wants it. Servers that speak Anthropic's API
// beside OpenAI's (vLLM) look for a bearer token in both.
func (p *Protocol) setKey(h http.Header, key string) {
	if p.Adapter.API() != "anthropic-messages" {
		h.Set("Authorization", "Bearer "+key)
		return
	}
	h.Set("X-Api-Key", key)
	u, err := p.Endpoint.base()
	if err == nil && !strings.HasSuffix(u.Hostname(), "anthropic.com") {
		h.Set("Authorization", "Bearer "+key)
	}
}

// maxKey bounds a key file: no key is longer.
const maxKey = 64 << 10

func readKey(path string) ([]byte, error) {
	f, err := stage.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err == nil && len(b) > maxKey {
		err = fmt.Errorf("%s is longer than %d bytes: no key", path, maxKey)
	}
	return b, err
}
