package scout

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"anvil/stages/internal/engine"
	"anvil/stages/internal/target"
)

// probeLimit bounds one probe.
const probeLimit = 10 * time.Second

// A prober asks an endpoint whether it is there.
type prober struct {
	target *target.Target
	asker  *target.Asker
}

func (p *prober) get(ctx context.Context, url string) (status int, err error) {
	status, _, err = p.asker.Ask(ctx, engine.Question{Method: http.MethodGet, URL: url, Limit: probeLimit})
	return status, err
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
