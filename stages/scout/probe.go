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

// look asks the health path, and where there is none the list of models, which
// need not be there either: an answer is enough.
func (p *prober) look(ctx context.Context) (url string, status int, err error) {
	health, err := p.target.Protocol.Endpoint.RootPath("/health")
	if err != nil {
		return "", 0, err
	}
	status, err = p.get(ctx, health)
	if err == nil && failing(status) {
		err = fmt.Errorf("%s answered %d", health, status)
	}
	if err != nil || status == http.StatusOK {
		return health, status, err
	}
	models, err := p.target.Protocol.Endpoint.BasePath("/models")
	if err != nil {
		return "", 0, err
	}
	status, err = p.get(ctx, models)
	if err == nil && (failing(status) || status == http.StatusTooManyRequests) {
		err = fmt.Errorf("%s answered %d", models, status)
	}
	return models, status, err
}

// failing tells whether a server says that it cannot serve, and not that it lacks
// the path: many know no other path than the one that is measured.
func failing(status int) bool { return status >= 500 && !engine.Lacks(status) }
