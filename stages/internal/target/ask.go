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
	transport transport
}

// Asker opens one. It has to be closed.
func (t *Target) Asker() *Asker {
	open := func() *http.Transport {
		r := &http.Transport{TLSClientConfig: t.dialer.TLS, MaxIdleConns: 4, DisableCompression: true}
		if t.dialer.Proxy != nil {
			r.Proxy = http.ProxyURL(t.dialer.Proxy)
		}
		return r
	}
	a := &Asker{target: t, transport: transport{host: t.url.Host, own: open(), other: open()}}
	if t.Endpoint.HTTP2 {
		p := new(http.Protocols)
		p.SetUnencryptedHTTP2(true)
		p.SetHTTP2(true)
		p.SetHTTP1(t.url.Scheme == "https") // without TLS nothing is agreed on
		a.transport.own.Protocols = p
	}
	return a
}

// A transport speaks to the endpoint as the plan says; its counters may be
// offered by another server, of whose protocol the plan says nothing.
type transport struct {
	host       string
	own, other *http.Transport
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == t.host {
		return t.own.RoundTrip(r)
	}
	return t.other.RoundTrip(r)
}

// Close lets the connections go.
func (a *Asker) Close() {
	a.transport.own.CloseIdleConnections()
	a.transport.other.CloseIdleConnections()
}

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
