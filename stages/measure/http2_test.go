package measure

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"anvil/stages/record"
)

// serve2 speaks HTTP/2: over TLS, or in the clear with prior knowledge.
func serve2(t *testing.T, secure bool, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	if secure {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Config.Protocols.SetHTTP1(true) // the counters are asked for so
		s.Start()
	}
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

func at2(url string) map[string]any {
	return map[string]any{
		"base_url": url, "sim": nil, "http2": true, "tls": map[string]any{"ca_file": nil, "server_name": nil, "insecure": true},
	}
}

func TestHTTP2IsUsedAndRecorded(t *testing.T) {
	for _, secure := range []bool{true, false} {
		b := newBench(t, at2(serve2(t, secure, answerOK)), map[string]any{"load": closed(4, 12)})
		p, err := b.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := p.measurement.Connections
		if c.Protocol != "HTTP/2.0" || (c.TLS != nil) != secure || c.Opened == 0 || c.Opened > 4 || c.Opened+c.Reused != 12 {
			t.Errorf("secure %v: connections %+v", secure, c)
		}
		for _, a := range p.attempts {
			if a.Outcome != record.OutcomeOK || a.T.Sent == nil || a.T.Headers == nil || a.T.FirstContent == nil || len(a.Arrivals) != 2 {
				t.Errorf("secure %v: attempt %d: %s %+v, error %+v", secure, a.Index, a.Outcome, a.T, a.Error)
			}
		}
	}
}

func TestLimitsHoldOverHTTP2(t *testing.T) {
	hold := func(texts ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for _, s := range texts {
				_, _ = io.WriteString(w, s)
			}
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}
	cases := map[string]struct {
		handler http.HandlerFunc
		limits  map[string]any
		want    record.Outcome
	}{
		"silence":         {hold(": ping\n\n"), map[string]any{"first_output": "200ms"}, record.OutcomeStalledFirst},
		"mid-stream":      {hold(delta("a")), map[string]any{"gap": "200ms"}, record.OutcomeStalledMid},
		"total":           {hold(delta("a")), map[string]any{"total": "200ms"}, record.OutcomeTotalTimeout},
		"end mark":        {hold(delta("a"), finish("stop"), done), map[string]any{}, record.OutcomeOK},
		"stream is reset": {func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, map[string]any{}, record.OutcomeTransport},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, at2(serve2(t, true, tc.handler)), map[string]any{"load": closed(1, 2), "limits": tc.limits})
			p, err := b.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range p.attempts {
				if a.Outcome != tc.want {
					t.Errorf("%s, error %+v, want %s", a.Outcome, a.Error, tc.want)
				}
			}
		})
	}
}

func TestDeadHTTP2EndpointIsTransport(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	url := s.URL + "/v1"
	s.Close()
	p, err := newBench(t, at2(url), map[string]any{"load": closed(1, 2)}).run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a := p.attempts[0]; a.Outcome != record.OutcomeTransport || a.Error.Class != "refused" {
		t.Errorf("%s %+v", a.Outcome, a.Error)
	}
}
