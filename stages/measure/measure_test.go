package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/internal/kindtest"
	"anvil/stages/record"
)

// A bench is a measurement under test.
type bench struct {
	*kindtest.Bench
	t *testing.T
}

func newBench(t *testing.T, endpoint, with map[string]any) *bench {
	t.Helper()
	return &bench{kindtest.New(t, Kind, endpoint, with), t}
}

// A published is what a run left behind.
type published struct {
	kindtest.Published
	header      record.AttemptsHeader
	attempts    []record.Attempt
	footer      record.AttemptsFooter
	measurement record.Measurement
	schedule    schedule
}

func (b *bench) run(ctx context.Context) (published, error) {
	b.t.Helper()
	out, err := b.Run(ctx)
	if err != nil && !errors.Is(err, stage.ErrAborted) {
		return published{}, err
	}
	p := published{Published: out}
	for name, into := range map[string]any{measurementName: &p.measurement, scheduleName: &p.schedule} {
		if err := json.Unmarshal(out.Documents[name], into); err != nil {
			b.t.Fatal(err)
		}
	}
	r, readErr := record.NewAttemptsReader(bytes.NewReader(out.Streams[attemptsName]))
	if readErr != nil {
		b.t.Fatal(readErr)
	}
	p.header = r.Header()
	for a, err := range r.All() {
		if err != nil {
			b.t.Fatal(err)
		}
		p.attempts = append(p.attempts, a)
	}
	footer := r.Footer()
	if footer == nil {
		b.t.Fatal("attempts have no footer")
	}
	p.footer = *footer
	b.addsUp(p)
	return p, err
}

// addsUp holds what every measurement must hold.
func (b *bench) addsUp(p published) {
	b.t.Helper()
	sum := 0
	for _, n := range p.measurement.Accounting.Outcomes {
		sum += n
	}
	if n := p.measurement.Accounting.Planned; sum != n || len(p.attempts) != n || p.footer.Lines != n || *p.header.Planned != n {
		b.t.Errorf("planned %d, outcomes add up to %d, attempts %d, footer %d, header %d", n, sum, len(p.attempts), p.footer.Lines, *p.header.Planned)
	}
	last := int64(-1)
	for _, a := range p.attempts {
		if a.T.End == nil {
			continue
		}
		if *a.T.End < last {
			b.t.Errorf("attempt %d ended at %d, before the line above it at %d", a.Index, *a.T.End, last)
		}
		last = *a.T.End
		for name, at := range map[string]*int64{"sent": a.T.Sent, "written": a.T.Written, "headers": a.T.Headers, "first_byte": a.T.FirstByte, "end": a.T.End} {
			if at != nil && *at < *a.T.Start {
				b.t.Errorf("attempt %d: %s precedes start", a.Index, name)
			}
		}
	}
}

func closed(n, requests int) map[string]any {
	return map[string]any{"mode": "closed", "concurrency": n, "requests": requests}
}

func TestClosedLoopOnTheEmbeddedEngine(t *testing.T) {
	b := newBench(t, nil, map[string]any{"load": closed(4, 12), "max_tokens": 16, "workload": map[string]any{"source": "synthetic", "context_tokens": 64}})
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	prompts := map[digest.Digest]bool{}
	for _, a := range p.attempts {
		if !a.Outcome.Success() || a.Usage.Output == nil || a.Text == nil || *a.Text == "" {
			t.Errorf("attempt %d: outcome %s, usage %+v, error %+v", a.Index, a.Outcome, a.Usage, a.Error)
		}
		if a.T.FirstContent == nil || a.T.Due == nil || len(a.Arrivals) == 0 {
			t.Errorf("attempt %d: stamps %+v, %d arrivals", a.Index, a.T, len(a.Arrivals))
		}
		prompts[a.PromptSHA256] = true
	}
	if len(prompts) != 12 {
		t.Errorf("%d different prompts of 12", len(prompts))
	}
	if c := p.measurement.Connections; c.Opened != 4 || c.Reused != 8 {
		t.Errorf("connections %+v, want 4 opened and 8 requests on used ones", c)
	}
	if !p.measurement.Simulated || p.measurement.Sequence != "cold" || p.measurement.Phase.Status != "completed" {
		t.Errorf("measurement %+v", p.measurement)
	}
	for _, code := range []string{"engine.simulated", "client.same-host", "stamps.user-space", "tokens.estimated", "cache.state-unknown", "load.ramp-included", "client.uncalibrated"} {
		if _, ok := p.Limits[code]; !ok {
			t.Errorf("limitation %s is missing of %v", code, p.Limits)
		}
	}
	if len(p.Findings) > 0 {
		t.Errorf("findings %v", p.Findings)
	}
	if p.header.Stamps != "user" || p.header.Seed != 7 || p.header.Endpoint.BaseURL != nil {
		t.Errorf("header %+v", p.header)
	}
}

func TestDeadEndpointIsAResult(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	url := server.URL + "/v1"
	server.Close()
	b := newBench(t, map[string]any{"base_url": url, "sim": nil}, map[string]any{"load": closed(2, 5)})
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := p.measurement.Accounting.Outcomes[record.OutcomeTransport]; n != 5 {
		t.Fatalf("outcomes %v, want 5 transport", p.measurement.Accounting.Outcomes)
	}
	for _, a := range p.attempts {
		if a.Error == nil || a.Error.Class != "refused" || a.T.Connected != nil || a.T.Sent != nil {
			t.Errorf("attempt %d: %+v %+v", a.Index, a.Error, a.T)
		}
	}
	if text := p.Limits["requests.failed"]; !strings.Contains(text, "5 of 5") || !strings.Contains(text, "transport 5") {
		t.Errorf("requests.failed says %q", text)
	}
}
