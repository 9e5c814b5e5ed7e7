package measure

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"anvil/pipeline/stage"
)

// serverWith answers chats with one word, and the paths that are listed.
func serverWith(t *testing.T, paths map[string]http.HandlerFunc) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	if paths["/v1/chat/completions"] == nil {
		mux.HandleFunc("/v1/chat/completions", answering(delta("a"), finish("stop")))
	}
	for path, h := range paths {
		mux.HandleFunc(path, h)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

// What a server says of itself does not cost what was measured of it.
func TestACounterThatIsNotFiniteLosesNoMeasurement(t *testing.T) {
	for _, value := range []string{"NaN", "+Inf", "-Inf"} {
		s := serverWith(t, map[string]http.HandlerFunc{"GET /metrics": text("# TYPE x_total counter\nx_total " + value + "\n# TYPE y_total counter\ny_total 4\n")})
		b := newBench(t, map[string]any{"base_url": s.URL + "/v1", "sim": nil}, map[string]any{"load": closed(1, 2), "max_tokens": 8})
		p, err := b.run(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		if got, ok := p.measurement.Counters.Before.(map[string]any); !ok || len(got) != 1 || got["y_total"] != 4.0 {
			t.Errorf("%s: counters %v", value, p.measurement.Counters.Before)
		}
	}
}

// A plan may read the counters of another server; the key is not that one's.
func TestTheKeyStaysWithTheHostThatIsMeasured(t *testing.T) {
	headers := make(chan http.Header, 8)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header.Clone()
		_, _ = io.WriteString(w, "# TYPE x_total counter\nx_total 1\n")
	}))
	t.Cleanup(elsewhere.Close)
	away := serverWith(t, map[string]http.HandlerFunc{"GET /metrics": func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+"/metrics", http.StatusFound)
	}})
	for name, metrics := range map[string]string{"named": elsewhere.URL + "/metrics", "redirected to": "auto"} {
		b := newBench(t, map[string]any{
			"base_url": away.URL + "/v1", "sim": nil, "api_key_env": "KEY", "headers_env": map[string]any{"X-Secret": "KEY"}, "metrics": metrics,
		}, map[string]any{"load": closed(1, 2), "max_tokens": 8})
		b.Env.Secrets = &stage.Secrets{Env: func(string) (string, bool) { return secretKey, true }}
		if _, err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		n := len(headers)
		for range n {
			for field, values := range <-headers {
				if strings.Contains(strings.Join(values, " "), secretKey) {
					t.Errorf("%s: the other host is sent %s", name, field)
				}
			}
		}
		if want := metrics != "auto"; (n > 0) != want {
			t.Errorf("%s: %d questions to the other host", name, n)
		}
	}
}
