package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// An Endpoint is the resolved endpoint object of a plan (plan-keys.md "Endpoint").
type Endpoint struct {
	Name           string            `json:"name"`
	BaseURL        *string           `json:"base_url"` // null: the embedded engine
	API            string            `json:"api"`
	Path           *string           `json:"path"`
	Model          *string           `json:"model"`
	APIKeyEnv      *string           `json:"api_key_env"`
	APIKeyFile     *string           `json:"api_key_file"`
	Headers        map[string]string `json:"headers"`
	HeadersEnv     map[string]string `json:"headers_env"`
	ExtraBody      json.RawMessage   `json:"extra_body"`
	MaxTokensField string            `json:"max_tokens_field"`
	IncludeUsage   bool              `json:"include_usage"`
	HTTP2          bool              `json:"http2"`
	Compression    bool              `json:"compression"`
	Proxy          *string           `json:"proxy"`
	TLS            TLS               `json:"tls"`
	Engine         string            `json:"engine"`
	Metrics        string            `json:"metrics"` // auto, off or a URL
	Sim            json.RawMessage   `json:"sim"`
}

// TLS is how the server is verified.
type TLS struct {
	CAFile     *string `json:"ca_file"`
	ServerName *string `json:"server_name"`
	Insecure   bool    `json:"insecure"`
}

// WithBaseURL returns the endpoint at another address: the one at which the
// embedded engine listens. What a record names stays null.
func (e Endpoint) WithBaseURL(base string) Endpoint {
	e.BaseURL = &base
	return e
}

// RecordURL is the base URL without credentials, null for the embedded engine.
func (e *Endpoint) RecordURL() *string {
	if e.BaseURL == nil {
		return nil
	}
	u, err := url.Parse(*e.BaseURL)
	if err != nil {
		none := ""
		return &none
	}
	u.User = nil
	q := u.Query()
	for name := range q {
		if secretName(name) {
			q.Set(name, "*")
		}
	}
	u.RawQuery = q.Encode()
	s := u.String()
	return &s
}

// Root is the server's root: base_url less a final "/v1". Health, version,
// metrics, tokenize and cache paths are appended to it with [Endpoint.RootPath].
func (e *Endpoint) Root() (*url.URL, error) {
	u, err := e.base()
	if err != nil {
		return nil, err
	}
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1")
	u.RawPath = ""
	return u, nil
}

// RootPath returns the URL of a path that hangs off the root.
func (e *Endpoint) RootPath(path string) (string, error) {
	u, err := e.Root()
	if err != nil {
		return "", err
	}
	u.Path += path
	return u.String(), nil
}

// BasePath returns the URL of a path appended to base_url itself, "/models" for one.
func (e *Endpoint) BasePath(path string) (string, error) {
	u, err := e.base()
	if err != nil {
		return "", err
	}
	u.Path = strings.TrimRight(u.Path, "/") + path
	u.RawPath = ""
	return u.String(), nil
}

// MetricsURL is where the endpoint's counters are; "" when they are off.
func (e *Endpoint) MetricsURL() (string, error) {
	switch m := cmp.Or(e.Metrics, "auto"); m {
	case "off":
		return "", nil
	case "auto":
		return e.RootPath("/metrics")
	default:
		return m, nil
	}
}

// base parses base_url and takes its credentials out; Headers sends them.
func (e *Endpoint) base() (*url.URL, error) {
	if e.BaseURL == nil {
		return nil, fmt.Errorf("endpoint %s: no base_url; the embedded engine has to be started first", e.Name)
	}
	u, err := url.Parse(*e.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("endpoint %s: base_url: %w", e.Name, err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("endpoint %s: base_url %q: want http://host or https://host", e.Name, u.Redacted())
	}
	u.User, u.Fragment = nil, ""
	return u, nil
}

func (e *Endpoint) requestURL(appended string) (string, error) {
	if e.Path == nil {
		return e.BasePath(appended)
	}
	// A path of one's own replaces what is appended; a query in it is kept.
	u, err := e.base()
	if err != nil {
		return "", err
	}
	own, err := url.Parse("/" + strings.TrimLeft(*e.Path, "/"))
	if err != nil {
		return "", fmt.Errorf("endpoint %s: path: %w", e.Name, err)
	}
	u.Path = strings.TrimRight(u.Path, "/") + own.Path
	u.RawPath = ""
	if own.RawQuery != "" {
		u.RawQuery = own.RawQuery
	}
	return u.String(), nil
}

func (e *Endpoint) model() string {
	if e.Model != nil {
		return *e.Model
	}
	return "anvil-sim"
}

// extra is what extra_body says of what matters here.
type extra struct {
	Stream *bool   `json:"stream"`
	Model  *string `json:"model"`
}

func (e *Endpoint) extra() (x extra) {
	if json.Unmarshal(e.ExtraBody, &x) != nil {
		return extra{}
	}
	return x
}

// streams tells whether answers are streamed: always, unless extra_body itself
// says that they are not.
func (e *Endpoint) streams() bool {
	x := e.extra()
	return x.Stream == nil || *x.Stream
}

// asked is the model's name as it goes out.
func (e *Endpoint) asked() string {
	if x := e.extra(); x.Model != nil {
		return *x.Model
	}
	return e.model()
}

func secretName(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"key", "token", "secret", "password", "passwd", "auth", "sig"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
