package target

import (
	"context"
	"net/http"

	"anvil/stages/internal/engine"
)

// An Asker puts questions to an endpoint, one after the other over one
// connection: what is not measured. It reaches the server the way the load core
// does.
type Asker struct {
	target    *Target
	transport *http.Transport
}

// Asker opens one. It has to be closed.
func (t *Target) Asker() *Asker {
	a := &Asker{target: t, transport: &http.Transport{TLSClientConfig: t.dialer.TLS, MaxIdleConns: 4, DisableCompression: true}}
	if t.dialer.Proxy != nil {
		a.transport.Proxy = http.ProxyURL(t.dialer.Proxy)
	}
	return a
}

// Close lets the connections go.
func (a *Asker) Close() { a.transport.CloseIdleConnections() }

// Ask puts one question.
func (a *Asker) Ask(ctx context.Context, q engine.Question) (status int, answer []byte, err error) {
	return a.target.Protocol.Ask(ctx, a.transport, a.target.Header, q)
}

// Facts asks the endpoint about itself.
func (a *Asker) Facts(ctx context.Context) engine.Facts {
	return a.target.Protocol.Probe(ctx, a.transport, a.target.Header)
}

// ask puts one question over a connection of its own.
func (t *Target) ask(ctx context.Context, q engine.Question) (status int, answer []byte, err error) {
	a := t.Asker()
	defer a.Close()
	return a.Ask(ctx, q)
}
