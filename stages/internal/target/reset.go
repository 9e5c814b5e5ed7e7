package target

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"anvil/stages/internal/engine"
)

// What became of a cache's reset, in the words of measurement.json.
const (
	ResetOff        = "off"
	ResetDone       = "done"
	ResetNotOffered = "not_offered"
	ResetFailed     = "failed"
)

// resetPaths are where engines empty their prefix cache: vLLM (in development
// mode) and the embedded engine, SGLang.
var resetPaths = [...]string{"/reset_prefix_cache", "/flush_cache"}

const resetLimit = 10 * time.Second

// ResetCache empties the endpoint's prefix cache: "off" does nothing, "try" says
// what became of it, "require" fails where it is not done.
func (t *Target) ResetCache(ctx context.Context, how string) (became string, err error) {
	if how == ResetOff {
		return ResetOff, nil
	}
	became, why := ResetNotOffered, "the endpoint offers no way to do it"
	for _, path := range resetPaths {
		status, err := t.post(ctx, path)
		switch {
		case err != nil:
			became, why = ResetFailed, t.env.Secrets.Redact(err.Error())
		case status == http.StatusOK:
			return ResetDone, t.forget()
		case !engine.Lacks(status):
			became, why = ResetFailed, fmt.Sprintf("%s answered %d", path, status)
		}
		if became == ResetFailed {
			break
		}
	}
	if how == "require" {
		return became, fmt.Errorf("reset the cache of endpoint %s: %s (cache reset: require)", t.Endpoint.Name, why)
	}
	return became, nil
}

func (t *Target) post(ctx context.Context, path string) (status int, err error) {
	url, err := t.Protocol.Endpoint.RootPath(path)
	if err != nil {
		return 0, err
	}
	status, _, err = t.ask(ctx, engine.Question{Method: http.MethodPost, URL: url, Limit: resetLimit})
	return status, err
}

// forget: what was sent before a reset is cached no more.
func (t *Target) forget() error {
	s, err := t.Sent()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.by)
	return nil
}
