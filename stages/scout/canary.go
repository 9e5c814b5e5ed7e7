package scout

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/internal/engine"
	"anvil/stages/internal/prompt"
	"anvil/stages/internal/target"
	"anvil/stages/record"
)

// canary is what the endpoint answered greedily to fixed prompts: two endpoints
// that answer differently do not serve the same weights in the same way. A
// canary fails when an answer does not come or is no text.
type canary struct {
	MaxTokens int                `json:"max_tokens"`
	Logprobs  [][]engine.Logprob `json:"logprobs"` // an entry an answer; null with its reason in logprobs_reason
	Reason    *string            `json:"logprobs_reason"`
	Answers   []canaryLine       `json:"answers"`
	Passed    bool               `json:"passed"`
}

type canaryLine struct {
	Prompt     string         `json:"prompt"`
	Outcome    record.Outcome `json:"outcome"`
	Text       *string        `json:"text"`
	Reasoning  *string        `json:"reasoning"`
	TextSHA256 digest.Digest  `json:"text_sha256"`
	Passed     bool           `json:"passed"`
	Why        *string        `json:"why"` // it failed
}

// canaryPrompts never change: a fingerprint is compared over years. More are
// made by counting on.
var canaryPrompts = [...]string{
	"Anvil canary 1. Name the first five prime numbers.",
	"Anvil canary 2. Write the days of the week in order.",
	"Anvil canary 3. Say in one sentence what a hammer is for.",
}

type canarySource int

func (s canarySource) Len() int { return int(s) }

func (s canarySource) At(i int) prompt.Prompt {
	text := fmt.Sprintf("Anvil canary %d. Count from %d upwards.", i+1, i+1)
	if i < len(canaryPrompts) {
		text = canaryPrompts[i]
	}
	return prompt.Prompt{Text: text, Digest: digest.FromBytes([]byte(text))}
}

// sing sends the canary's prompts. A server that refuses to be asked for log
// probabilities is asked once more without.
func (s scout) sing(ctx context.Context, env stage.Env, t *target.Target, doc *document) (interrupted bool, err error) {
	c := &canary{MaxTokens: s.Canary.MaxTokens, Answers: []canaryLine{}, Passed: true}
	reason := ""
	switch {
	case !s.Canary.Logprobs:
		reason = "not asked for"
	case !t.Protocol.HasLogprobs():
		reason = "not asked for: " + t.Protocol.Adapter.API() + " is not read for them"
	}
	attempts, interrupted, err := s.singOnce(ctx, env, t, c, reason == "")
	if refused := refusal(attempts); err == nil && !interrupted && reason == "" && refused != "" {
		reason = "the server refuses to be asked for them: " + refused
		doc.sent(attempts)
		attempts, interrupted, err = s.singOnce(ctx, env, t, c, false)
	}
	if err != nil {
		return interrupted, err
	}
	if reason == "" && !c.likely() {
		reason = "asked for, and no answer holds any"
	}
	if reason != "" {
		c.Logprobs, c.Reason = nil, &reason
	}
	for i, a := range attempts {
		c.add(canarySource(s.Canary.Prompts).At(i).Text, a)
	}
	doc.sent(attempts)
	doc.Canary = c
	return interrupted, nil
}

func (s scout) singOnce(ctx context.Context, env stage.Env, t *target.Target, c *canary, logprobs bool) ([]*record.Attempt, bool, error) {
	zero := 0.0
	ask := target.Ask{MaxTokens: s.Canary.MaxTokens, Sampling: engine.Sampling{Temperature: &zero, Thinking: "default"}, StoreText: true}
	if logprobs {
		c.Logprobs = make([][]engine.Logprob, s.Canary.Prompts)
		ask.Logprobs = func(i int, ps []engine.Logprob) { c.Logprobs[i] = ps }
	}
	return s.ask(ctx, env, t, ask, canarySource(s.Canary.Prompts), s.Canary.Prompts)
}

// refusal is what a server says that does not take a request as it is, "" for
// none: 400, or 422 where the fields are checked by a schema.
func refusal(attempts []*record.Attempt) string {
	for _, a := range attempts {
		if a.HTTPStatus != nil && (*a.HTTPStatus == http.StatusBadRequest || *a.HTTPStatus == http.StatusUnprocessableEntity) && a.Error != nil {
			return fmt.Sprintf("%d %.200s", *a.HTTPStatus, a.Error.Message)
		}
	}
	return ""
}

// likely tells whether any answer came with log probabilities.
func (c *canary) likely() bool {
	return slices.ContainsFunc(c.Logprobs, func(ps []engine.Logprob) bool { return len(ps) > 0 })
}

func (c *canary) add(asked string, a *record.Attempt) {
	line := canaryLine{Prompt: asked, Outcome: a.Outcome, Text: a.Text, Reasoning: a.Reasoning, TextSHA256: a.TextSHA256, Passed: true}
	if why := wrong(a); why != "" {
		line.Passed, line.Why = false, &why
		c.Passed = false
	}
	c.Answers = append(c.Answers, line)
}

// sent lists what the engine has seen now.
func (d *document) sent(attempts []*record.Attempt) {
	for _, a := range attempts {
		if !slices.Contains(d.Prompts, a.PromptSHA256) {
			d.Prompts = append(d.Prompts, a.PromptSHA256)
		}
	}
}

// wrong says why an answer cannot be a language model's, "" when it can. What a
// model says is not judged: a small one may say anything.
func wrong(a *record.Attempt) string {
	if !a.Outcome.Success() {
		return "no answer: " + string(a.Outcome)
	}
	return ""
}
