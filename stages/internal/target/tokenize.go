package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"anvil/stages/internal/engine"
)

// A text is counted at once, a very long one in a few seconds. A server that does
// not answer must not hold anything up.
const (
	tokenizeLimit = 2 * time.Second
	tokenizeSlow  = 64 << 10 // bytes of text for each further limit
	specialTokens = 4        // that a tokenizer may put around a text, asked or not
)

// ErrNoTokenizer says that an endpoint has no /tokenize.
var ErrNoTokenizer = errors.New("the endpoint offers no /tokenize")

// Tokens counts the tokens of a text by the endpoint's own /tokenize: that of
// vLLM and the embedded engine, which takes "prompt" and tells a count, or
// llama.cpp's, which takes "content" and lists the tokens. The error says why
// there is no count: ErrNoTokenizer where the endpoint offers none.
func (a *Asker) Tokens(ctx context.Context, text string) (n int, err error) {
	url, err := a.target.Protocol.Endpoint.RootPath("/tokenize")
	if err != nil {
		return 0, err
	}
	body, err := json.Marshal(map[string]any{"model": a.target.Model(), "prompt": text, "content": text, "add_special_tokens": false})
	if err != nil {
		return 0, err
	}
	status, raw, err := a.Ask(ctx, engine.Question{Method: http.MethodPost, URL: url, Body: body, Accept: "application/json", Limit: tokenizeLimit * time.Duration(1+len(text)/tokenizeSlow)})
	switch {
	case err != nil:
		return 0, fmt.Errorf("/tokenize: %w", err)
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		return 0, ErrNoTokenizer
	case status != http.StatusOK:
		return 0, fmt.Errorf("/tokenize answers with status %d", status)
	}
	var answer struct {
		Count  *int              `json:"count"`
		Tokens []json.RawMessage `json:"tokens"`
	}
	if json.Unmarshal(raw, &answer) != nil {
		return 0, errors.New("/tokenize answers with no JSON object")
	}
	n = len(answer.Tokens)
	if answer.Count != nil {
		n = *answer.Count
	}
	if n <= 0 || n > len(text)+specialTokens {
		return 0, fmt.Errorf("/tokenize counts %d tokens in a text of %d bytes", n, len(text))
	}
	return n, nil
}
