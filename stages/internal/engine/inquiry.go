package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"anvil/stages/internal/engine/jsonview"
)

// Bounds of one question.
const (
	maxFact   = 4 << 20 // bytes of its answer that are read
	factLimit = 10 * time.Second
)

// An inquiry is the asking of one endpoint about itself.
type inquiry struct {
	p       *Protocol
	rt      http.RoundTripper
	header  http.Header
	facts   Facts
	refused map[string]string // path to the reason why it told nothing
}

// object asks a path below the server's root for a JSON object.
func (q *inquiry) object(ctx context.Context, method, path string, body []byte) (v value, ok bool) {
	url, err := q.p.Endpoint.RootPath(path)
	if err != nil {
		q.refused[path] = err.Error()
		return value{}, false
	}
	return q.objectAt(ctx, method, path, url, body)
}

func (q *inquiry) objectAt(ctx context.Context, method, path, url string, body []byte) (v value, ok bool) {
	answer, ok := q.fetch(ctx, method, path, url, body)
	if !ok {
		return value{}, false
	}
	v, ok = jsonview.Parse(answer)
	if !ok || v.Kind() != jsonview.Object {
		q.refused[path] = "the answer is no JSON object"
		return value{}, false
	}
	return v, true
}

// fetch asks once and keeps the reason when nothing comes of it.
func (q *inquiry) fetch(ctx context.Context, method, path, url string, body []byte) (answer []byte, ok bool) {
	status, answer, err := q.roundTrip(ctx, method, url, body)
	switch {
	case err != nil:
		q.refused[path] = bounded(err.Error(), maxName)
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented:
		q.refused[path] = NotOffered
	case status != http.StatusOK:
		q.refused[path] = fmt.Sprintf("%s answered %d", path, status)
	default:
		return answer, true
	}
	return nil, false
}

func (q *inquiry) roundTrip(ctx context.Context, method, url string, body []byte) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, factLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header = q.header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Accept", "application/json, text/plain;q=0.9, */*;q=0.5")
	if body == nil {
		req.Header.Del("Content-Type")
	}
	resp, err := q.rt.RoundTrip(req) // which follows no redirect
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = firstError(err, resp.Body.Close()) }()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxFact))
	return resp.StatusCode, answer, err
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// text, count and flag file a fact that is not known yet; an empty text and what
// is no count say nothing.
func (q *inquiry) text(name, path string, to **string, s string) {
	if s = bounded(s, maxName); s != "" && *to == nil {
		*to, q.facts.Sources[name] = &s, path
	}
}

func (q *inquiry) count(name, path string, to **int, v value) {
	n, ok := v.Int()
	if !ok || n <= 0 || n > 1<<31-1 || *to != nil {
		return
	}
	i := int(n)
	*to, q.facts.Sources[name] = &i, path
}

func (q *inquiry) flag(name, path string, to **bool, b bool) {
	if *to == nil {
		*to, q.facts.Sources[name] = &b, path
	}
}

// settings keeps scalars of the server's configuration, by name.
func (q *inquiry) settings(v value, names ...string) {
	for _, name := range names {
		switch m := v.Get(name); m.Kind() {
		case jsonview.String:
			q.facts.Settings[name] = bounded(m.Text(), maxName)
		case jsonview.Number:
			q.facts.Settings[name] = json.Number(m.Raw())
		case jsonview.Bool:
			q.facts.Settings[name] = m.True()
		default:
		}
	}
}

// reasons says of each unknown fact why: what its usual path answered, or that
// nothing that was asked told it.
func (q *inquiry) reasons() {
	f := &q.facts
	for name, unknown := range map[string]bool{
		"engine": f.Engine == nil, "version": f.Version == nil, "models": f.Models == nil, "model_listed": f.ModelListed == nil, "root": f.Root == nil,
		"context_window": f.ContextWindow == nil, "prefix_cache": f.PrefixCache == nil, "slots": f.Slots == nil, "weights_digest": f.WeightsDigest == nil,
	} {
		if !unknown {
			continue
		}
		usual := map[string]string{"models": "/v1/models", "model_listed": "/v1/models", "root": "/v1/models", "version": "/version"}[name]
		if why := q.refused[usual]; why != "" {
			f.Unknown[name] = why
			continue
		}
		f.Unknown[name] = "nothing that the endpoint offers says it"
	}
}
