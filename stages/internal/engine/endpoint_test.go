package engine

import (
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"anvil/pipeline/stage"
)

func TestAddressesAreBuiltFromWhatUsersPaste(t *testing.T) {
	own := func(s string) *string { return &s }
	for name, tt := range map[string]struct {
		base, api, model string
		path             *string
		url, health      string
	}{
		"chat":              {base: "http://h:8000/v1", api: "openai-chat", url: "http://h:8000/v1/chat/completions", health: "http://h:8000/health"},
		"trailing slash":    {base: "http://h:8000/v1/", api: "openai-chat", url: "http://h:8000/v1/chat/completions", health: "http://h:8000/health"},
		"under a path":      {base: "http://h/crlf/v1", api: "openai-chat", url: "http://h/crlf/v1/chat/completions", health: "http://h/crlf/health"},
		"without v1":        {base: "https://h/openai", api: "openai-chat", url: "https://h/openai/chat/completions", health: "https://h/openai/health"},
		"completions":       {base: "http://h/v1", api: "openai-completions", url: "http://h/v1/completions", health: "http://h/health"},
		"responses":         {base: "http://h/v1", api: "openai-responses", url: "http://h/v1/responses", health: "http://h/health"},
		"messages":          {base: "http://h/v1", api: "anthropic-messages", url: "http://h/v1/messages", health: "http://h/health"},
		"tgi":               {base: "http://h", api: "tgi", url: "http://h/generate_stream", health: "http://h/health"},
		"sglang":            {base: "http://h/", api: "sglang", url: "http://h/generate", health: "http://h/health"},
		"triton":            {base: "http://h", api: "triton", model: "my model", url: "http://h/v2/models/my%20model/generate_stream", health: "http://h/health"},
		"ollama":            {base: "http://h:11434", api: "ollama", url: "http://h:11434/api/chat", health: "http://h:11434/health"},
		"llamacpp":          {base: "http://h", api: "llamacpp", url: "http://h/completion", health: "http://h/health"},
		"generate-sse":      {base: "http://h", api: "generate-sse", url: "http://h/generate", health: "http://h/health"},
		"a path of its own": {base: "http://h/v1", api: "openai-chat", path: own("/custom/chat"), url: "http://h/v1/custom/chat", health: "http://h/health"},
		"without a slash":   {base: "http://h/v1", api: "openai-chat", path: own("custom?x=1"), url: "http://h/v1/custom?x=1", health: "http://h/health"},
		"a query":           {base: "http://h/v1?api-version=2", api: "openai-chat", url: "http://h/v1/chat/completions?api-version=2", health: "http://h/health?api-version=2"},
		"credentials":       {base: "http://u:p@h/v1", api: "openai-chat", url: "http://h/v1/chat/completions", health: "http://h/health"},
		"an IPv6 address":   {base: "http://[::1]:80/v1", api: "openai-chat", url: "http://[::1]:80/v1/chat/completions", health: "http://[::1]:80/health"},
	} {
		e := Endpoint{Name: "target", BaseURL: &tt.base, API: tt.api, Path: tt.path, Model: &tt.model}
		p, err := Open(e)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		health, err := e.RootPath("/health")
		if p.URL != tt.url || health != tt.health || err != nil {
			t.Errorf("%s: got %s and %s, %v; want %s and %s", name, p.URL, health, err, tt.url, tt.health)
		}
	}
	for _, bad := range []string{"h:8000/v1", "ftp://h/v1", "http://", "://", "http://h:x/"} {
		if _, err := Open(Endpoint{Name: "target", BaseURL: &bad}); err == nil || !strings.Contains(err.Error(), "target") {
			t.Errorf("%q: got %v, want an error that names the endpoint", bad, err)
		}
	}
	if _, err := Open(Endpoint{Name: "target"}); err == nil {
		t.Error("an endpoint without an address is opened")
	}
	if _, err := Open(Endpoint{Name: "target", BaseURL: own("http://h"), API: "telepathy"}); err == nil {
		t.Error("an unknown api is opened")
	}
}

func TestRecordsNameNoCredentials(t *testing.T) {
	for in, want := range map[string]string{
		"http://u:pw@h:1/v1":                   "http://h:1/v1",
		"http://h/v1?api_key=s3cret&version=2": "http://h/v1?api_key=%2A&version=2",
		"http://h/v1":                          "http://h/v1",
	} {
		e := Endpoint{BaseURL: &in}
		if got := e.RecordURL(); *got != want {
			t.Errorf("%s: got %s, want %s", in, *got, want)
		}
	}
	var embedded Endpoint
	if embedded.RecordURL() != nil {
		t.Error("the embedded engine has an address")
	}
}

func headersOf(t *testing.T, e Endpoint, s *stage.Secrets, dir string) (http.Header, []string) {
	t.Helper()
	if e.BaseURL == nil {
		base := "http://h/v1"
		e.BaseURL = &base
	}
	p, err := Open(e)
	if err != nil {
		t.Fatal(err)
	}
	h, warnings, err := p.Headers(s, dir)
	if err != nil {
		t.Fatal(err)
	}
	return h, warnings
}

func TestKeysAreSentAndHidden(t *testing.T) {
	env := map[string]string{"KEY": "s3cret-key", "EMPTY": "", "OTHER": "s3cret-other"}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	name := func(s string) *string { return &s }
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("s3cret-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for title, tt := range map[string]struct {
		e        Endpoint
		header   string
		want     string
		warnings int
		hidden   string
	}{
		"from the environment": {e: Endpoint{APIKeyEnv: name("KEY")}, header: "Authorization", want: "Bearer s3cret-key", hidden: "s3cret-key"},
		"unset":                {e: Endpoint{APIKeyEnv: name("UNSET")}, header: "Authorization", warnings: 1},
		"empty":                {e: Endpoint{APIKeyEnv: name("EMPTY")}, header: "Authorization", warnings: 1},
		"from a file":          {e: Endpoint{APIKeyFile: name("key")}, header: "Authorization", want: "Bearer s3cret-file", hidden: "s3cret-file"},
		"anthropic":            {e: Endpoint{API: "anthropic-messages", APIKeyEnv: name("KEY")}, header: "X-Api-Key", want: "s3cret-key", hidden: "s3cret-key"},
		"anthropic's version":  {e: Endpoint{API: "anthropic-messages"}, header: "Anthropic-Version", want: "2023-06-01"},
		"a secret header":      {e: Endpoint{HeadersEnv: map[string]string{"X-Token": "OTHER"}}, header: "X-Token", want: "s3cret-other", hidden: "s3cret-other"},
		"a missing one":        {e: Endpoint{HeadersEnv: map[string]string{"X-Token": "UNSET"}}, header: "X-Token", warnings: 1},
		"a plain header":       {e: Endpoint{Headers: map[string]string{"X-Run": "7", "Content-Type": "text/x"}}, header: "Content-Type", want: "text/x"},
		"the key overridden":   {e: Endpoint{APIKeyEnv: name("KEY"), Headers: map[string]string{"authorization": "Basic x"}}, header: "Authorization", want: "Basic x", hidden: "s3cret-key"},
		"in the address":       {e: Endpoint{BaseURL: name("http://u:s3cret-pw@h/v1")}, header: "Authorization", want: "Basic " + base64.StdEncoding.EncodeToString([]byte("u:s3cret-pw")), hidden: "s3cret-pw"},
		"no compression":       {e: Endpoint{}, header: "Accept-Encoding", want: "identity"},
		"compression":          {e: Endpoint{Compression: true}, header: "Accept-Encoding", want: "gzip"},
		"a stream":             {e: Endpoint{}, header: "Accept", want: "text/event-stream"},
		"lines":                {e: Endpoint{API: "ollama"}, header: "Accept", want: "application/x-ndjson"},
		"a whole body":         {e: Endpoint{ExtraBody: []byte(`{"stream":false}`)}, header: "Accept", want: "application/json"},
	} {
		s := &stage.Secrets{Env: lookup}
		h, warnings := headersOf(t, tt.e, s, dir)
		if got := h.Get(tt.header); got != tt.want || len(warnings) != tt.warnings {
			t.Errorf("%s: got %q, warnings %q; want %q and %d", title, got, warnings, tt.want, tt.warnings)
		}
		if tt.hidden != "" && strings.Contains(s.Redact("x "+tt.hidden), tt.hidden) {
			t.Errorf("%s: the secret is not hidden", title)
		}
		if slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "s3cret") }) {
			t.Errorf("%s: a warning tells a secret: %q", title, warnings)
		}
	}
	base := "http://h/v1"
	p, _ := Open(Endpoint{Name: "target", BaseURL: &base, APIKeyFile: name("missing")})
	if _, _, err := p.Headers(&stage.Secrets{}, dir); err == nil || !strings.Contains(err.Error(), "api_key_file") {
		t.Errorf("missing file: got %v", err)
	}
}

func TestMetricsHangOffTheRoot(t *testing.T) {
	base := "http://h/v1"
	for in, want := range map[string]string{"auto": "http://h/metrics", "": "http://h/metrics", "off": "", "http://m:9/metrics": "http://m:9/metrics"} {
		e := Endpoint{BaseURL: &base, Metrics: in}
		if got, err := e.MetricsURL(); got != want || err != nil {
			t.Errorf("%q: got %q, %v; want %q", in, got, err, want)
		}
	}
}
