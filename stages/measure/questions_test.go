package measure

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// serverWith answers chats with one word, and the paths that are listed.
func serverWith(t *testing.T, paths map[string]http.HandlerFunc) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, delta("a")+finish("stop")+done)
	})
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
