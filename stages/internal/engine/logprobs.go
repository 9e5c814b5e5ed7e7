package engine

import "anvil/stages/internal/engine/jsonview"

// A Logprob is one token of an answer with the log probability that the server
// gives it, null where it gives none.
type Logprob struct {
	Token   string   `json:"token"`
	Logprob *float64 `json:"logprob"`
}

// maxLogprobs bounds what is kept of an answer.
const maxLogprobs = 4096

// logprobFields are the members by which an API is asked for log probabilities, nil
// where it has none or its answers are not read for them.
func (p *Protocol) logprobFields() Fields {
	switch p.Adapter.API() {
	case "openai-chat":
		return Fields{"logprobs": true}
	case "openai-completions":
		return Fields{"logprobs": 1}
	}
	return nil
}

// HasLogprobs tells whether an API can be asked for log probabilities.
func (p *Protocol) HasLogprobs() bool { return p.logprobFields() != nil }

// likely takes the log probabilities of a choice in either form: a list of
// entries, as chat has them, or lists side by side, as completions have them.
func (r *reading) likely(choice int, v value) {
	if r.live || !r.keepLogprobs || choice != 0 || v.Kind() != jsonview.Object {
		return
	}
	if content := v.Get("content"); content.Kind() == jsonview.Array {
		for at := 0; ; {
			entry, more := content.Next(&at)
			if !more {
				return
			}
			r.likelyToken(entry.Get("token"), entry.Get("logprob"))
		}
	}
	tokens, values := v.Get("tokens"), v.Get("token_logprobs")
	for i, j := 0, 0; ; {
		token, more := tokens.Next(&i)
		if !more {
			return
		}
		p, _ := values.Next(&j)
		r.likelyToken(token, p)
	}
}

func (r *reading) likelyToken(token, p value) {
	if token.Kind() != jsonview.String || len(r.logprobs) == maxLogprobs {
		return
	}
	l := Logprob{Token: bounded(token.Text(), maxName)}
	if f, ok := p.Float(); ok && p.Kind() == jsonview.Number {
		l.Logprob = &f
	}
	r.logprobs = append(r.logprobs, l)
}
