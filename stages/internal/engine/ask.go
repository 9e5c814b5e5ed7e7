package engine

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxAnswer bounds what is read of the answer to a question. The longest ones
// are lists of metrics.
const maxAnswer = 8 << 20

// anything is what a question accepts that does not care.
const anything = "application/json, text/plain;q=0.9, */*;q=0.5"

// A Question is a request beside the measured ones: a probe, a fact, a count.
type Question struct {
	Method string
	URL    string
	Body   []byte // JSON; nil for none
	Accept string // "" for anything
	Limit  time.Duration
}

// Ask puts a question and returns the status and the answer, of which no more
// than a bound is read. h are the headers of the endpoint's requests; another
// origin than the endpoint's, which a plan may name for the metrics, gets none of
// them. No redirect is followed, provided that rt follows none.
func (p *Protocol) Ask(ctx context.Context, rt http.RoundTripper, h http.Header, q Question) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, q.Limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, q.Method, q.URL, bytes.NewReader(q.Body))
	if err != nil {
		return 0, nil, err
	}
	req.Header = p.questionHeader(h, req.URL, q)
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s://%s%s: %w", q.Method, req.URL.Scheme, req.URL.Host, req.URL.Path, err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	answer, err = readAnswer(resp)
	return resp.StatusCode, answer, err
}

// questionHeader asks for a plain answer: nobody follows the stream of a question
// or gains by its compression.
func (p *Protocol) questionHeader(h http.Header, to *url.URL, q Question) http.Header {
	out := http.Header{}
	if base, err := p.Endpoint.base(); err == nil && sameOrigin(base, to) {
		out = h.Clone()
	}
	if out == nil {
		out = http.Header{}
	}
	if out.Get("User-Agent") == "" {
		out.Set("User-Agent", "anvil")
	}
	out.Set("Accept-Encoding", "identity")
	out.Set("Accept", anything)
	if q.Accept != "" {
		out.Set("Accept", q.Accept)
	}
	out.Del("Content-Type")
	if q.Body != nil {
		out.Set("Content-Type", "application/json")
	}
	return out
}

// sameOrigin tells whether two URLs have scheme, host and port in common.
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}

// readAnswer decompresses what comes so although it was not asked for.
func readAnswer(resp *http.Response) ([]byte, error) {
	var body io.Reader = resp.Body
	switch strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))) {
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(body)
		if errors.Is(err, io.EOF) { // no body, and so no compressed one
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		body = z
	}
	return io.ReadAll(io.LimitReader(body, maxAnswer))
}
