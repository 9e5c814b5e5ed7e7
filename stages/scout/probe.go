package scout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"anvil/stages/internal/target"
)

// probeLimit bounds one probe, and maxFact how much of its answer is read.
const (
	probeLimit = 10 * time.Second
	maxFact    = 4 << 20
)

// A prober asks an endpoint about itself. What is not offered is unknown, never
// a failure.
type prober struct {
	target *target.Target
	client *http.Client
}

func newProber(t *target.Target) *prober {
	return &prober{target: t, client: t.HTTP(probeLimit)}
}

func (p *prober) get(ctx context.Context, url string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header = p.target.Header.Clone()
	req.Header.Del("Content-Type")
	req.Header.Set("Accept", "application/json, text/plain;q=0.9, */*;q=0.5")
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxFact))
	return resp.StatusCode, body, err
}

// Readiness says how the endpoint came to answer.
type readiness struct {
	Probes   int     `json:"probes"`
	WaitedMS float64 `json:"waited_ms"`
	URL      string  `json:"url"`    // that showed it
	Status   int     `json:"status"` // that it answered with
}

// errNotReady is wrapped when an endpoint did not become ready in its time.
var errNotReady = errors.New("endpoint is not ready")

// ready asks until the endpoint answers as one that serves, or its time is up.
// A health path that says 200 is enough, and where there is none, a list of
// models that answers with anything but an overload or a server's error.
func (p *prober) ready(ctx context.Context, stop <-chan struct{}, timeout, interval time.Duration) (readiness, error) {
	begun := time.Now()
	var r readiness
	for {
		r.Probes++
		url, status, err := p.look(ctx)
		r.WaitedMS = float64(time.Since(begun)) / 1e6
		if err == nil {
			r.URL, r.Status = url, status
			return r, nil
		}
		left := timeout - time.Since(begun)
		if left <= 0 {
			return r, fmt.Errorf("%w after %s and %d probes: %w; is the server running at this address? (ready.timeout waits longer)", errNotReady, timeout, r.Probes, err)
		}
		select {
		case <-time.After(min(interval, left)):
		case <-stop:
			return r, errStopped
		case <-ctx.Done():
			return r, context.Cause(ctx)
		}
	}
}

var errStopped = errors.New("stopped")

func (p *prober) look(ctx context.Context) (url string, status int, err error) {
	health, err := p.target.Protocol.Endpoint.RootPath("/health")
	if err != nil {
		return "", 0, err
	}
	status, _, err = p.get(ctx, health)
	if err != nil {
		return health, 0, err
	}
	if status == http.StatusOK {
		return health, status, nil
	}
	if status >= 500 {
		return health, status, fmt.Errorf("%s answered %d", health, status)
	}
	models, err := p.target.Protocol.Endpoint.BasePath("/models")
	if err != nil {
		return "", 0, err
	}
	status, _, err = p.get(ctx, models)
	if err == nil && (status >= 500 || status == http.StatusTooManyRequests) {
		err = fmt.Errorf("%s answered %d", models, status)
	}
	return models, status, err
}

// facts are what an endpoint says of itself; null with a reason where it does not.
type facts struct {
	Engine        engineName        `json:"-"`      // stands beside the facts
	Models        []string          `json:"models"` // null where no list is offered
	ModelListed   *bool             `json:"model_listed"`
	ContextWindow *int              `json:"context_window"` // tokens
	Root          *string           `json:"root"`           // of the model, as the list has it
	Unknown       map[string]string `json:"unknown"`        // fact to the reason why it is null
}

func (p *prober) facts(ctx context.Context) facts {
	f := facts{Unknown: map[string]string{}}
	p.models(ctx, &f)
	p.version(ctx, &f)
	if f.ContextWindow == nil {
		f.Unknown["context_window"] = "the list of models does not say"
	}
	return f
}

// engineName says which program answers.
type engineName struct {
	Name    *string `json:"name"`
	Version *string `json:"version"`
}

type modelList struct {
	Data []struct {
		ID          string `json:"id"`
		OwnedBy     string `json:"owned_by"`
		Root        string `json:"root"`
		MaxModelLen *int   `json:"max_model_len"`
		Meta        struct {
			NCtx *int `json:"n_ctx"`
		} `json:"meta"`
	} `json:"data"`
}

func (p *prober) models(ctx context.Context, f *facts) {
	var list modelList
	url, err := p.target.Protocol.Endpoint.BasePath("/models")
	if err == nil {
		err = p.read(ctx, url, &list)
	}
	if err != nil {
		reason := err.Error()
		f.Unknown["models"], f.Unknown["model_listed"] = reason, reason
		return
	}
	f.Models = []string{}
	listed := false
	for _, m := range list.Data {
		f.Models = append(f.Models, m.ID)
		if m.ID != p.target.Model() {
			continue
		}
		listed = true
		f.ContextWindow = m.MaxModelLen
		if f.ContextWindow == nil {
			f.ContextWindow = m.Meta.NCtx
		}
		if m.Root != "" {
			root := m.Root
			f.Root = &root
		}
		if owner := m.OwnedBy; owner != "" && f.Engine.Name == nil {
			f.Engine.Name = &owner
		}
	}
	f.ModelListed = &listed
}

func (p *prober) version(ctx context.Context, f *facts) {
	var v struct {
		Version string `json:"version"`
		Engine  string `json:"engine"`
	}
	url, err := p.target.Protocol.Endpoint.RootPath("/version")
	if err == nil {
		err = p.read(ctx, url, &v)
	}
	switch {
	case err != nil:
		f.Unknown["version"] = err.Error()
	case v.Version == "":
		f.Unknown["version"] = "the answer holds no version"
	default:
		f.Engine.Version = &v.Version
	}
	if v.Engine != "" {
		f.Engine.Name = &v.Engine
	}
	if e := p.target.Endpoint.Engine; e != "" && e != "auto" && e != "none" {
		f.Engine.Name = &e
	}
	if f.Engine.Name == nil {
		f.Unknown["engine"] = "nothing names it"
	}
}

func (p *prober) read(ctx context.Context, url string, into any) error {
	status, body, err := p.get(ctx, url)
	switch {
	case err != nil:
		return err
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented:
		return errors.New("not offered")
	case status != http.StatusOK:
		return fmt.Errorf("%s answered %d", url, status)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return nil
}
