package engine

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// asked keeps the headers of the last question and answers with the body.
type asked struct {
	header http.Header
	answer http.Response
	body   string
}

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	a.header = r.Header.Clone()
	resp := a.answer
	resp.StatusCode, resp.Body = 200, io.NopCloser(strings.NewReader(a.body))
	return &resp, nil
}

var requestHeaders = http.Header{
	"Authorization": {"Bearer sk-1"}, "X-Secret": {"s"}, "X-Plain": {"p"}, "Content-Type": {"application/json"},
	"Accept": {"text/event-stream"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"mine"},
}

func TestAQuestionToAnotherOriginCarriesNoHeaderOfThePlan(t *testing.T) {
	for _, tt := range []struct {
		base, to string
		own      bool
	}{
		{"http://engine/v1", "http://engine/metrics", true},
		{"http://engine/v1", "http://ENGINE:80/metrics", true},
		{"https://engine:443/v1", "https://engine/metrics", true},
		{"http://engine:8000/v1", "http://engine:8000/metrics?a=b", true},
		{"http://[::1]:8000/v1", "http://[::1]:8000/metrics", true},
		{"http://engine:8000/v1", "http://engine:9000/metrics", false},
		{"http://engine/v1", "https://engine/metrics", false},
		{"https://engine/v1", "http://engine:443/metrics", false},
		{"http://engine/v1", "http://engine.elsewhere/metrics", false},
		{"http://engine/v1", "http://elsewhere/metrics", false},
	} {
		p, err := Open(Endpoint{BaseURL: &tt.base})
		if err != nil {
			t.Fatal(err)
		}
		rt := &asked{}
		if _, _, err := p.Ask(t.Context(), rt, requestHeaders, Question{Method: http.MethodGet, URL: tt.to, Limit: time.Minute}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"Authorization", "X-Secret", "X-Plain"} {
			if got := rt.header.Get(name) != ""; got != tt.own {
				t.Errorf("%s asks %s: %s sent %v, want %v", tt.base, tt.to, name, got, tt.own)
			}
		}
	}
}

func TestAQuestionAsksForAPlainAnswer(t *testing.T) {
	base := "http://engine/v1"
	p, err := Open(Endpoint{BaseURL: &base, Compression: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		q    Question
		want http.Header
	}{
		{Question{Method: http.MethodGet}, http.Header{"Accept": {anything}, "Accept-Encoding": {"identity"}, "Content-Type": nil, "User-Agent": {"mine"}}},
		{
			Question{Method: http.MethodPost, Body: []byte("{}"), Accept: "application/json"},
			http.Header{"Accept": {"application/json"}, "Accept-Encoding": {"identity"}, "Content-Type": {"application/json"}},
		},
	} {
		rt := &asked{}
		tt.q.URL, tt.q.Limit = base, time.Minute
		if _, _, err := p.Ask(t.Context(), rt, requestHeaders, tt.q); err != nil {
			t.Fatal(err)
		}
		for name, want := range tt.want {
			if got := strings.Join(rt.header[name], "|"); got != strings.Join(want, "|") {
				t.Errorf("%s: %s %q, want %q", tt.q.Method, name, got, want)
			}
		}
	}
}

func TestAnAnswerThatIsCompressedAllTheSameIsRead(t *testing.T) {
	base := "http://engine/v1"
	p, err := Open(Endpoint{BaseURL: &base})
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(bytes.Repeat([]byte(" "), 2*maxAnswer))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	q := Question{Method: http.MethodGet, URL: base, Limit: time.Minute}
	rt := &asked{answer: http.Response{Header: http.Header{"Content-Encoding": {"gzip"}}}, body: zipped.String()}
	if _, got, err := p.Ask(t.Context(), rt, nil, q); err != nil || len(got) != maxAnswer {
		t.Errorf("got %d bytes, %v; want the bound of them", len(got), err)
	}
	rt.body = "no gzip"
	if _, _, err := p.Ask(t.Context(), rt, nil, q); err == nil {
		t.Error("an answer that is not compressed as it says was read")
	}
	rt.body = ""
	if status, _, err := p.Ask(t.Context(), rt, nil, q); err != nil || status != 200 {
		t.Errorf("an empty answer: %d, %v", status, err)
	}
}
