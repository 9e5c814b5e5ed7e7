package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	return b.read(out), err
}

// read decodes what was published and holds it to what always holds.
func (b *bench) read(out kindtest.Published) published {
	b.t.Helper()
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
	b.papersHold(p)
	return p
}

// papersHold checks the record of the other producers' kind by the rules of
// records.md, whatever the phase was like.
func (b *bench) papersHold(p published) {
	b.t.Helper()
	name, other := benchmarkName, liveName
	if p.schedule.Mode == "open" {
		name, other = other, name
	}
	if _, ok := p.Streams[other]; ok {
		b.t.Errorf("a %s loop writes %s", p.schedule.Mode, other)
	}
	if _, excused := p.measurement.Unpublished[name]; excused {
		return
	}
	path := filepath.Join(b.t.TempDir(), name)
	if err := os.WriteFile(path, p.Streams[name], 0o600); err != nil {
		b.t.Fatal(err)
	}
	if report := record.CheckFile(path, record.Options{}); !report.OK || report.Status != "ok" {
		b.t.Errorf("%s: %s %+v", name, report.Status, report.Problems)
	}
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

// Cells that share a seed send the same prompts: the second one says so, in
// whichever order they run.
func TestPromptsOfAnotherCellAreNamed(t *testing.T) {
	cell := func(n int, seed any) map[string]any {
		return map[string]any{"load": closed(n, 4), "max_tokens": 4, "workload": map[string]any{"source": "synthetic", "context_tokens": 64, "seed": seed}}
	}
	for _, order := range [][2]int{{1, 2}, {2, 1}} {
		first := newBench(t, nil, cell(order[0], nil))
		first.Env.Stage = "first"
		p, err := first.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := p.Limits["cache.warm-prompts"]; ok {
			t.Errorf("the first cell says %q", text)
		}
		for seed, want := range map[any]string{nil: "requests 0-3, by first", 8: ""} {
			second := newBench(t, nil, cell(order[1], seed))
			second.Env.Resources = first.Env.Resources
			p, err := second.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if text := p.Limits["cache.warm-prompts"]; !strings.Contains(text, want) || want == "" && text != "" {
				t.Errorf("seed %v: the second cell says %q, want %q", seed, text, want)
			}
		}
	}
}

func TestPromptsOfTheScoutAreNamed(t *testing.T) {
	with := map[string]any{"load": closed(1, 4), "max_tokens": 4}
	b := newBench(t, nil, with)
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	digests := map[int]string{}
	for _, a := range p.attempts {
		digests[a.Index] = a.PromptSHA256.String()
	}
	doc, err := json.Marshal(map[string]any{"bytes_per_token": nil, "context_window": 4096, "prompts": []string{digests[1], digests[2]}})
	if err != nil {
		t.Fatal(err)
	}
	again := newBench(t, nil, with) // another run: only the document knows
	again.Bind("scout", "anvil.scout/v1", doc)
	if p, err = again.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text := p.Limits["cache.warm-prompts"]; !strings.Contains(text, "requests 1-2, by other") {
		t.Errorf("limitation %q", text)
	}
	if p.measurement.ServedWindow == nil || *p.measurement.ServedWindow != 4096 {
		t.Errorf("served window %v", p.measurement.ServedWindow)
	}
}

func TestStopDrainsAndKeepsWhatWasMeasured(t *testing.T) {
	first := make(chan struct{})
	release := make(chan struct{})
	h := serveRaw(t, func(c net.Conn, n int) {
		_, _ = io.WriteString(c, sse+chunks(delta("a")))
		if n == 2 {
			close(first)
		}
		if n >= 2 {
			<-release
		}
		_, _ = io.WriteString(c, chunks(finish("stop"), done)+last)
	})
	b := newBench(t, map[string]any{"base_url": h.url, "sim": nil}, map[string]any{"load": closed(1, 10), "drain": "20s"})
	cause := errors.New("interrupt")
	b.Env.StopCause = func() error { return cause }
	go func() {
		<-first
		close(b.Stop)
		close(release)
	}()
	p, err := b.run(t.Context())
	if !errors.Is(err, stage.ErrAborted) || !errors.Is(err, cause) {
		t.Fatalf("error %v, want aborted by the interrupt", err)
	}
	got := p.measurement.Accounting.Outcomes
	if got[record.OutcomeOK] != 3 || got[record.OutcomeNotStarted] != 7 || p.footer.Status != "aborted" || p.measurement.Phase.Status != "aborted" {
		t.Errorf("outcomes %v, footer %+v", got, p.footer)
	}
	if n := h.requests.Load(); n != 3 {
		t.Errorf("the server saw %d requests, want 3", n)
	}
}

func TestDrainEndsWhatDoesNotEnd(t *testing.T) {
	first := make(chan struct{})
	h := serveRaw(t, func(c net.Conn, _ int) {
		_, _ = io.WriteString(c, sse+chunks(delta("a")))
		close(first)
	})
	b := newBench(t, map[string]any{"base_url": h.url, "sim": nil}, map[string]any{"load": closed(1, 3), "drain": "50ms"})
	go func() { <-first; close(b.Stop) }()
	p, err := b.run(t.Context())
	if !errors.Is(err, stage.ErrAborted) {
		t.Fatalf("error %v", err)
	}
	if got := p.measurement.Accounting.Outcomes; got[record.OutcomeClientAbort] != 1 || got[record.OutcomeNotStarted] != 2 {
		t.Errorf("outcomes %v", got)
	}
}

func TestEndOfTheContextStopsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := serveRaw(t, func(c net.Conn, _ int) {
		_, _ = io.WriteString(c, sse+chunks(delta("a")))
		cancel()
	})
	b := newBench(t, map[string]any{"base_url": h.url, "sim": nil}, map[string]any{"load": closed(1, 3), "drain": "1h"})
	p, err := b.run(ctx)
	if !errors.Is(err, stage.ErrAborted) {
		t.Fatalf("error %v", err)
	}
	if got := p.measurement.Accounting.Outcomes; got[record.OutcomeClientAbort] != 1 || got[record.OutcomeNotStarted] != 2 {
		t.Errorf("outcomes %v", got)
	}
}

func TestDurationEndsAClosedLoop(t *testing.T) {
	b := newBench(t, nil, map[string]any{
		"load":       map[string]any{"mode": "closed", "concurrency": 2, "duration": "300ms"},
		"max_tokens": 4, "workload": map[string]any{"source": "synthetic", "context_tokens": 16},
	})
	p, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := p.measurement.Accounting.Planned
	if n < 2 || p.measurement.Accounting.Outcomes[record.OutcomeNotStarted] != 0 {
		t.Errorf("planned %d, outcomes %v", n, p.measurement.Accounting.Outcomes)
	}
	seen := make([]bool, n)
	for _, a := range p.attempts {
		seen[a.Index] = true
	}
	for i, ok := range seen {
		if !ok {
			t.Errorf("index %d is missing", i)
		}
	}
}

func TestServersOwnCounters(t *testing.T) {
	metrics := []string{
		"# TYPE vllm:request_success_total counter\nvllm:request_success_total{finished_reason=\"stop\"} 10\nvllm:request_success_total{finished_reason=\"length\"} 5\n",
		"# TYPE vllm:request_success_total counter\nvllm:request_success_total{finished_reason=\"stop\"} 15\nvllm:request_success_total{finished_reason=\"length\"} 5\n",
	}
	cases := map[string]struct {
		requests int
		second   string
		foreign  string
	}{
		"alone":         {5, metrics[1], ""},
		"not alone":     {2, metrics[1], "3 requests more"},
		"restarted":     {2, strings.ReplaceAll(metrics[0], "10", "1"), ""},
		"no counters":   {2, "<html>", ""},
		"other metrics": {2, "# TYPE x counter\nx 3\n", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			reads := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					_, _ = io.WriteString(w, []string{metrics[0], tc.second}[reads])
					reads++
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, delta("a")+finish("stop")+done)
			}))
			t.Cleanup(server.Close)
			b := newBench(t, map[string]any{"base_url": server.URL + "/v1", "sim": nil}, map[string]any{"load": closed(1, tc.requests)})
			p, err := b.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if text := p.Limits["endpoint.foreign-traffic"]; !strings.Contains(text, tc.foreign) || tc.foreign == "" && text != "" {
				t.Errorf("limitation %q, want %q", text, tc.foreign)
			}
			before, _ := p.measurement.Counters.Before.(map[string]any)
			if name == "alone" && before["vllm:request_success_total"] != 15.0 {
				t.Errorf("counters %+v", p.measurement.Counters)
			}
			if name == "no counters" && p.measurement.Counters.After != nil {
				t.Errorf("counters %+v", p.measurement.Counters)
			}
		})
	}
}

func TestCacheReset(t *testing.T) {
	with := func(reset string) map[string]any {
		return map[string]any{"load": closed(1, 3), "max_tokens": 4, "cache": map[string]any{"reset": reset}}
	}
	first := newBench(t, nil, with("off"))
	if _, err := first.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := newBench(t, nil, with("require"))
	second.Env.Resources = first.Env.Resources
	p, err := second.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, warm := p.Limits["cache.warm-prompts"]; warm || p.measurement.Cache.Reset != "done" {
		t.Errorf("cache %+v, limitations %v", p.measurement.Cache, p.Limits)
	}
	for _, a := range p.attempts {
		if a.Usage.Cached == nil || *a.Usage.Cached != 0 {
			t.Errorf("attempt %d: %v cached tokens after a reset", a.Index, a.Usage.Cached)
		}
	}
	h := serveRaw(t, func(c net.Conn, n int) {
		if n == 0 || n == 1 { // the two paths of a reset
			_, _ = io.WriteString(c, "HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n")
			return
		}
		_, _ = io.WriteString(c, sse+chunks(delta("a"), finish("stop"), done)+last)
	})
	if p, err = newBench(t, map[string]any{"base_url": h.url, "sim": nil}, with("try")).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := p.Limits["cache.reset-not-offered"]; !ok || p.measurement.Cache.Reset != "not_offered" {
		t.Errorf("cache %+v, limitations %v", p.measurement.Cache, p.Limits)
	}
	none := serveRaw(t, func(c net.Conn, _ int) {
		_, _ = io.WriteString(c, "HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n")
	})
	if _, err = newBench(t, map[string]any{"base_url": none.url, "sim": nil}, with("require")).run(t.Context()); err == nil || !strings.Contains(err.Error(), "require") {
		t.Errorf("error %v", err)
	}
	if n := none.requests.Load(); n != 2 {
		t.Errorf("%d requests were sent although the reset was required", n)
	}
}
