package engine

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAServerThatDoesNotAnswerIsNotAskedEverything(t *testing.T) {
	for _, tt := range []struct {
		name  string
		takes time.Duration // each answer, of 404
		most  time.Duration
		why   string
	}{
		{"silent", time.Hour, maxSilence * factLimit, "no answer within"},
		{"slow", 9 * time.Second, factsLimit, "took 30s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked, begun := 0, time.Now()
				f := probe(t, "openai-chat", "m", roundTrip(func(r *http.Request) (*http.Response, error) {
					asked++
					select {
					case <-time.After(tt.takes):
						return paths{}.RoundTrip(r)
					case <-r.Context().Done():
						return nil, r.Context().Err()
					}
				}))
				if took := time.Since(begun); took > tt.most { // of the bubble's clock
					t.Errorf("%d questions took %s, want at most %s", asked, took, tt.most)
				}
				if why := f.Unknown["slots"]; !strings.Contains(why, tt.why) {
					t.Errorf("reason %q, want %q", why, tt.why)
				}
			})
		})
	}
}

func TestAnInterruptedInquiryAsksNothingMore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	base := "http://h/v1"
	p, err := Open(Endpoint{BaseURL: &base})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	f := p.Probe(ctx, roundTrip(func(r *http.Request) (*http.Response, error) {
		asked++
		cancel()
		return nil, r.Context().Err()
	}), nil)
	if asked != 1 || f.Unknown["slots"] != "not asked: interrupted" {
		t.Errorf("%d questions, reason %q", asked, f.Unknown["slots"])
	}
}
