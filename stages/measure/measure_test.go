package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/schemas"
	"anvil/stages/record"
)

// A bench runs the kind as an executor would, against files of a test's folder.
type bench struct {
	t       *testing.T
	with    map[string]any
	inputs  map[string][]stage.Artifact
	files   map[string]stage.Artifact
	env     stage.Env
	stop    chan struct{}
	written map[string]*bytes.Buffer
}

func newBench(t *testing.T, endpoint, with map[string]any) *bench {
	t.Helper()
	b := &bench{t: t, with: with, inputs: map[string][]stage.Artifact{}, files: map[string]stage.Artifact{}, written: map[string]*bytes.Buffer{}}
	b.with["endpoint"] = fullEndpoint(endpoint)
	b.stop = make(chan struct{})
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	resources := &stage.Resources{}
	t.Cleanup(func() {
		if err := errors.Join(resources.Close(), root.Close()); err != nil {
			t.Error(err)
		}
	})
	b.env = stage.Env{
		Log: zerolog.Nop(), Now: time.Now, Seed: stage.SeedOf(7), Stage: "measure", PlanDir: t.TempDir(), Folder: root,
		Progress: &stage.Progress{}, Secrets: &stage.Secrets{}, Resources: resources, Tool: stage.Tool{Version: "test"}, Stop: b.stop,
	}
	return b
}

// fullEndpoint fills the endpoint as a resolved plan has it.
func fullEndpoint(over map[string]any) map[string]any {
	e := map[string]any{
		"name": "target", "base_url": nil, "api": "openai-chat", "path": nil, "model": "anvil-sim", "api_key_env": nil, "api_key_file": nil,
		"headers": map[string]any{}, "headers_env": map[string]any{}, "extra_body": map[string]any{}, "max_tokens_field": "max_tokens",
		"include_usage": true, "http2": false, "compression": false, "proxy": nil,
		"tls": map[string]any{"ca_file": nil, "server_name": nil, "insecure": false}, "engine": "auto", "metrics": "auto",
		"sim": map[string]any{"decode_tok_s": 2000.0, "prefill_tok_s": 1e6, "seed": 1},
	}
	maps.Copy(e, over)
	return e
}

// resolve fills the defaults and lets the kind resolve the rest.
func (b *bench) resolve() json.RawMessage {
	b.t.Helper()
	endpoint := b.with["endpoint"]
	b.with["endpoint"] = "target"
	raw, err := json.Marshal(b.with)
	if err != nil {
		b.t.Fatal(err)
	}
	var with map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&with); err != nil {
		b.t.Fatal(err)
	}
	if err := schemas.Fill("anvil.measure-config/v1", with); err != nil {
		b.t.Fatal(err)
	}
	if err := schemas.Check("anvil.measure-config/v1", with); err != nil {
		b.t.Fatal(err)
	}
	with["endpoint"] = endpoint
	r := &stage.Resolution{With: with, ID: "measure", Plan: stage.ResolutionPlan{Seed: 7}}
	resolve(r)
	for _, p := range r.Problems() {
		b.t.Fatalf("problem %+v", p)
	}
	raw, err = json.Marshal(with)
	if err != nil {
		b.t.Fatal(err)
	}
	return raw
}

// A published is what a run left behind.
type published struct {
	header      record.AttemptsHeader
	attempts    []record.Attempt
	footer      record.AttemptsFooter
	measurement record.Measurement
	schedule    schedule
	limits      map[string]string // code to text
	findings    []stage.Finding
}

type closer struct{ *bytes.Buffer }

func (closer) Close() error { return nil }

func (b *bench) run(ctx context.Context) (published, error) {
	b.t.Helper()
	s, err := Kind.New(b.resolve())
	if err != nil {
		b.t.Fatal(err)
	}
	out := stage.NewOutputs(Kind.Spec(), func(name string, _ schemas.ID) (io.WriteCloser, error) {
		b.written[name] = &bytes.Buffer{}
		return closer{b.written[name]}, nil
	})
	runErr := s.Run(ctx, b.env, stage.NewInputs(b.inputs, b.files, nil), out)
	if runErr != nil && !errors.Is(runErr, stage.ErrAborted) {
		return published{}, runErr
	}
	return b.collect(out), runErr
}

func (b *bench) collect(out *stage.Outputs) (p published) {
	b.t.Helper()
	c := out.Collect()
	p.limits = map[string]string{}
	for i := range c.Limitations {
		c.Limitations[i].Origin = "measure"
		p.limits[c.Limitations[i].Code] = c.Limitations[i].Text
	}
	p.findings = c.Findings
	set := stage.NewLimitationSet(c.Limitations...)
	for name, into := range map[string]any{measurementName: &p.measurement, scheduleName: &p.schedule} {
		raw, err := c.Documents[name](set)
		if err != nil {
			b.t.Fatalf("%s: %v", name, err)
		}
		var doc any
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		if err := dec.Decode(&doc); err != nil {
			b.t.Fatal(err)
		}
		if err := schemas.Check(c.Schemas[name], doc); err != nil {
			b.t.Errorf("%s: %v\n%s", name, err, raw)
		}
		if err := json.Unmarshal(raw, into); err != nil {
			b.t.Fatal(err)
		}
	}
	r, err := record.NewAttemptsReader(b.written[attemptsName])
	if err != nil {
		b.t.Fatal(err)
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
	return p
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
		if _, ok := p.limits[code]; !ok {
			t.Errorf("limitation %s is missing of %v", code, p.limits)
		}
	}
	if len(p.findings) > 0 {
		t.Errorf("findings %v", p.findings)
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
	if text := p.limits["requests.failed"]; !strings.Contains(text, "5 of 5") || !strings.Contains(text, "transport 5") {
		t.Errorf("requests.failed says %q", text)
	}
}
