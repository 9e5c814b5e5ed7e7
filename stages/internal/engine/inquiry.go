package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"anvil/stages/internal/engine/jsonview"
)

// Bounds of an inquiry: how long one question may take, how long all of them,
// and how many may go without an answer before no more are asked.
const (
	factLimit  = 10 * time.Second
	factsLimit = 30 * time.Second
	maxSilence = 2
)

// An inquiry is the asking of one endpoint about itself.
type inquiry struct {
	p       *Protocol
	rt      http.RoundTripper
	header  http.Header
	facts   Facts
	refused map[string]string // path to the reason why it told nothing
	silence int               // questions that ended without an answer in their time
	over    string            // why no more are asked, "" while they are
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
	if q.over != "" {
		q.refused[path] = q.over
		return nil, false
	}
	status, answer, err := q.p.Ask(ctx, q.rt, q.header, Question{Method: method, URL: url, Body: body, Limit: factLimit})
	switch {
	case err != nil:
		q.refused[path] = bounded(err.Error(), maxName)
		q.unanswered(ctx, err)
	case Lacks(status):
		q.refused[path] = NotOffered
	case status != http.StatusOK:
		q.refused[path] = fmt.Sprintf("%s answered %d", path, status)
	default:
		return answer, true
	}
	return nil, false
}

// unanswered ends the inquiry of a server that lets questions wait: there are
// more of them than anyone would wait for.
func (q *inquiry) unanswered(ctx context.Context, err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		q.silence++
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		q.over = fmt.Sprintf("not asked: the questions before took %s", factsLimit)
	case ctx.Err() != nil:
		q.over = "not asked: interrupted"
	case q.silence == maxSilence:
		q.over = fmt.Sprintf("not asked: %d questions got no answer within %s each", maxSilence, factLimit)
	}
}

// Lacks tells whether a status says that the server does not have the path at all.
func Lacks(status int) bool {
	return status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented
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
		f.Unknown[name] = cmp.Or(q.over, "nothing that the endpoint offers says it")
	}
}
