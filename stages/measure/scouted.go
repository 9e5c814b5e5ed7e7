package measure

import (
	"context"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

// readScout takes from a scout's document what the phase needs; a scout that is
// not bound leaves everything unknown.
func readScout(ctx context.Context, in stage.Inputs) (scouted, error) {
	s := scouted{Prompts: map[digest.Digest]bool{}}
	a, ok := in.One("scout")
	if !ok {
		return s, nil
	}
	doc, err := stage.Decode[struct {
		BytesPerToken *float64 `json:"bytes_per_token"`
		TokensFrom    *string  `json:"tokens_from"`
		ContextWindow *int     `json:"context_window"`
		Prompts       []string `json:"prompts"`
	}](ctx, a)
	if err != nil {
		return s, err
	}
	if doc.BytesPerToken != nil {
		s.BytesPerToken = *doc.BytesPerToken
		s.Counted = doc.TokensFrom != nil && *doc.TokensFrom == "tokenize"
	}
	s.Stage, s.ContextWindow = a.Stage, doc.ContextWindow
	for _, text := range doc.Prompts {
		d, err := digest.Parse(text)
		if err != nil {
			return s, err
		}
		s.Prompts[d] = true
	}
	return s, nil
}
