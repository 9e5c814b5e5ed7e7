package target

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
)

// Tokens counts the tokens of a text by the endpoint's own /tokenize: that of
// vLLM and the embedded engine, which takes "prompt" and tells a count, or
// llama.cpp's, which takes "content" and lists the tokens. False where it offers
// none.
func (t *Target) Tokens(ctx context.Context, text string) (n int, ok bool) {
	url, err := t.Protocol.Endpoint.RootPath("/tokenize")
	if err != nil {
		return 0, false
	}
	ask, err := json.Marshal(map[string]any{"model": t.Model(), "prompt": text, "content": text, "add_special_tokens": false})
	if err != nil {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, resetLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(ask))
	if err != nil {
		return 0, false
	}
	req.Header = t.Header.Clone()
	req.Header.Set("Accept", "application/json")
	client := t.HTTP(resetLimit)
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	var answer struct {
		Count  *int              `json:"count"`
		Tokens []json.RawMessage `json:"tokens"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, maxMetrics)).Decode(&answer) != nil {
		return 0, false
	}
	n = len(answer.Tokens)
	if answer.Count != nil {
		n = *answer.Count
	}
	return n, n > 0 && n <= len(text)
}
