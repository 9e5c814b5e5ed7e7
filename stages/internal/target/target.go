// Package target opens a plan's endpoint for the kinds that ask it: it starts
// the embedded engine where there is no base_url, resolves credentials, and
// joins the load core, which knows connections and bytes, with the engine
// adapter, which knows what the bytes say.
package target

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"anvil/pipeline/stage"
	"anvil/stages/internal/engine"
	"anvil/stages/internal/load"
	"anvil/stages/sim"
)

// A Target is an endpoint that can be asked.
type Target struct {
	Endpoint engine.Endpoint // as the plan has it
	Protocol *engine.Protocol
	Header   http.Header // of every request, secrets in it

	// Simulated says that the simulator answers: the embedded one, or one behind
	// base_url as soon as an answer of it was decoded. SimVersion is its own.
	Simulated  bool
	SimVersion string

	Compressed int // answers that were decoded and came compressed

	env    stage.Env
	limits Limits
	url    *url.URL
	dialer load.Dialer
}

// Open resolves an endpoint. The embedded engine is the run's: it stays warm
// from one stage to the next.
func Open(ctx context.Context, env stage.Env, in stage.Inputs, e engine.Endpoint, limits Limits) (*Target, error) {
	t := &Target{Endpoint: e, Simulated: e.BaseURL == nil, env: env, limits: limits}
	asked := e
	if t.Simulated {
		t.SimVersion = env.Tool.Version
		base, err := embedded(env, e)
		if err != nil {
			return nil, fmt.Errorf("start the embedded engine of endpoint %s: %w", e.Name, err)
		}
		asked = e.WithBaseURL(base)
	}
	var err error
	if t.Protocol, err = engine.Open(asked); err != nil {
		return nil, err
	}
	if t.url, err = url.Parse(t.Protocol.URL); err != nil {
		return nil, fmt.Errorf("endpoint %s: %w", e.Name, err)
	}
	if err := t.authorize(); err != nil {
		return nil, err
	}
	t.dialer, err = t.dial(ctx, in)
	return t, err
}

// authorize resolves the headers of every request. The embedded engine asks for
// no key, so none is looked up for it.
func (t *Target) authorize() error {
	p := *t.Protocol
	if t.Endpoint.BaseURL == nil {
		p.Endpoint.APIKeyEnv, p.Endpoint.APIKeyFile, p.Endpoint.HeadersEnv = nil, nil, nil
	}
	header, warnings, err := p.Headers(t.env.Secrets, t.env.PlanDir)
	if err != nil {
		return err
	}
	t.Header = header
	for _, w := range warnings {
		t.warnOnce(w)
	}
	return nil
}

// warnOnce says something once in a run.
func (t *Target) warnOnce(text string) {
	_, err := t.env.Resources.Get("warning:"+text, func() (io.Closer, error) {
		t.env.Log.Warn().Msg(text)
		return nothing{}, nil
	})
	if err != nil { // said all the same
		t.env.Log.Warn().Msg(text)
	}
}

type nothing struct{}

func (nothing) Close() error { return nil }

func embedded(env stage.Env, e engine.Endpoint) (base string, err error) {
	server, err := env.Resources.Get("engine:"+e.Name, func() (io.Closer, error) {
		cfg := sim.DefaultConfig()
		if len(e.Sim) > 0 {
			if err := json.Unmarshal(e.Sim, &cfg); err != nil {
				return nil, fmt.Errorf("sim: %w", err)
			}
		}
		if e.Model != nil {
			cfg.Model = *e.Model
		}
		cfg.Version = env.Tool.Version
		return sim.Listen(cfg, "127.0.0.1:0")
	})
	if err != nil {
		return "", err
	}
	return server.(*sim.Server).BaseURL(), nil
}

// Offline resolves an endpoint of which a phase is decoded: nothing is asked of
// it, and no engine is started.
func Offline(env stage.Env, e engine.Endpoint, limits Limits) (*Target, error) {
	t := &Target{Endpoint: e, Simulated: e.BaseURL == nil, SimVersion: env.Tool.Version, env: env, limits: limits}
	asked := e
	if t.Simulated {
		asked = e.WithBaseURL("http://127.0.0.1/v1")
	}
	var err error
	if t.Protocol, err = engine.Open(asked); err != nil {
		return nil, err
	}
	t.url, err = url.Parse(t.Protocol.URL)
	if !t.Simulated {
		t.SimVersion = ""
	}
	if err != nil {
		return nil, err
	}
	if !t.Simulated { // the answers may hold what was sent; a key that is gone by now hides nothing
		_, _, _ = t.Protocol.Headers(env.Secrets, env.PlanDir)
	}
	return t, nil
}

func (t *Target) dial(ctx context.Context, in stage.Inputs) (load.Dialer, error) {
	d := load.Dialer{Target: t.url}
	if p := t.Endpoint.Proxy; p != nil {
		u, err := url.Parse(*p)
		if err != nil || u.Scheme != "http" || u.Host == "" {
			return d, fmt.Errorf("endpoint %s: proxy: want http://host:port", t.Endpoint.Name)
		}
		if u.User != nil {
			if password, ok := u.User.Password(); ok {
				t.env.Secrets.Hide(password)
			}
		}
		d.Proxy = u
	}
	if t.url.Scheme == "https" {
		cfg, err := t.tls(ctx, in)
		if err != nil {
			return d, fmt.Errorf("endpoint %s: tls: %w", t.Endpoint.Name, err)
		}
		d.TLS = cfg
	}
	return d, nil
}

func (t *Target) tls(ctx context.Context, in stage.Inputs) (*tls.Config, error) {
	cfg := &tls.Config{InsecureSkipVerify: t.Endpoint.TLS.Insecure} //nolint:gosec // the plan asks for it, a limitation says so
	if name := t.Endpoint.TLS.ServerName; name != nil {
		cfg.ServerName = *name
	}
	path := t.Endpoint.TLS.CAFile
	if path == nil {
		return cfg, nil
	}
	pem, err := t.caFile(ctx, in, *path)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ca_file %s: no certificate in it", *path)
	}
	return cfg, nil
}

// caFile prefers the leaf that was stored when the stage started.
func (t *Target) caFile(ctx context.Context, in stage.Inputs, path string) ([]byte, error) {
	if a, ok := in.File("/endpoint/tls/ca_file"); ok {
		return a.Bytes(ctx)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.env.PlanDir, path)
	}
	return os.ReadFile(path)
}

// Client returns a client for a phase.
func (t *Target) Client(fresh bool) *load.Client {
	return load.NewClient(load.Config{
		Dialer: t.dialer, URL: t.url, Header: t.Header, Fresh: fresh, HTTP2: t.Endpoint.HTTP2, Limits: t.limits.load(),
	})
}

func (l Limits) load() load.Limits {
	return load.Limits{
		Connect: l.Connect.Std(), FirstOutput: l.FirstOutput.Std(), Gap: l.Gap.Std(), Total: l.Total.Std(),
		MaxBody: int64(l.MaxBody), MaxError: int64(l.MaxError),
	}
}

// Local tells whether the server is on this host, as far as its address shows it.
func (t *Target) Local() bool {
	host := t.url.Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Limitations are those that hold for whatever is asked of the endpoint.
func (t *Target) Limitations() []stage.Limitation {
	var out []stage.Limitation
	if t.Simulated {
		out = append(out, stage.Limit("engine.simulated"))
	}
	if t.Local() {
		out = append(out, stage.Limit("client.same-host"))
	}
	if !t.Protocol.Adapter.Proof().Captured {
		out = append(out, stage.Limit("api.unproven", "api", t.Protocol.Adapter.API()))
	}
	if t.Endpoint.TLS.Insecure && t.url.Scheme == "https" {
		out = append(out, stage.Limit("tls.unverified"))
	}
	if t.Endpoint.Proxy != nil {
		out = append(out, stage.Limit("proxy.used"))
	}
	return out
}

// Model is the name that answers are asked of, as it goes out: extra_body may say
// another than the endpoint.
func (t *Target) Model() string { return t.Protocol.Model }
