package scout

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"anvil/stages/internal/target"
)

// probeLimit bounds one probe, and maxFact how much of its answer is taken in.
const (
	probeLimit = 10 * time.Second
	maxFact    = 4 << 20
)

// A prober asks an endpoint whether it is there.
type prober struct {
	target *target.Target
	client *http.Client
}

func newProber(t *target.Target) *prober {
	return &prober{target: t, client: t.HTTP(probeLimit)}
}

func (p *prober) get(ctx context.Context, url string) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	req.Header = p.target.Header.Clone()
	req.Header.Del("Content-Type")
	req.Header.Set("Accept", "application/json, text/plain;q=0.9, */*;q=0.5")
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	// Read it, so that the connection can be used again.
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxFact))
	return resp.StatusCode, err
}

func (p *prober) look(ctx context.Context) (url string, status int, err error) {
	health, err := p.target.Protocol.Endpoint.RootPath("/health")
	if err != nil {
		return "", 0, err
	}
	status, err = p.get(ctx, health)
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
	status, err = p.get(ctx, models)
	if err == nil && (status >= 500 || status == http.StatusTooManyRequests) {
		err = fmt.Errorf("%s answered %d", models, status)
	}
	return models, status, err
}
