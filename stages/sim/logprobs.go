package sim

import "strings"

// probabilities returns invented log probabilities, the same for the same
// token: a shape for clients that ask, without meaning.
func (r *request) probabilities(tokens []string) any {
	if !r.chat {
		return r.textProbabilities(tokens)
	}
	content := make([]any, len(tokens))
	for i, t := range tokens {
		entry := probability(t, logprob(t, 0))
		entry["top_logprobs"] = r.alternatives(t)
		content[i] = entry
	}
	return map[string]any{"content": content}
}

func (r *request) textProbabilities(tokens []string) any {
	values := make([]float64, len(tokens))
	tops := make([]map[string]float64, len(tokens))
	for i, t := range tokens {
		values[i] = logprob(t, 0)
		tops[i] = map[string]float64{}
		for _, a := range r.alternatives(t) {
			tops[i][a["token"].(string)] = a["logprob"].(float64)
		}
	}
	return map[string]any{"tokens": tokens, "token_logprobs": values, "top_logprobs": tops}
}

// alternatives are the token itself and others that could have come, the likeliest first.
func (r *request) alternatives(token string) []map[string]any {
	out := []map[string]any{}
	for i := range r.topLogprobs {
		t := token
		if i > 0 {
			t = plainWords[(tokenID(token)+i)%len(plainWords)]
		}
		out = append(out, probability(t, logprob(token, i)))
	}
	return out
}

func probability(token string, p float64) map[string]any {
	bytes := make([]int, 0, len(token))
	for _, b := range []byte(strings.Clone(token)) {
		bytes = append(bytes, int(b))
	}
	return map[string]any{"token": token, "logprob": p, "bytes": bytes}
}

// logprob falls by 4 from one rank to the next, and lies between -0.5 and 0 at the first.
func logprob(token string, rank int) float64 {
	return -float64(tokenID(token)%512)/1024 - 4*float64(rank)
}
