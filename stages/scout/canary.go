package scout

import (
	"context"
	"fmt"

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
	MaxTokens int          `json:"max_tokens"`
	Logprobs  *string      `json:"logprobs"` // null with its reason in logprobs_reason
	Reason    *string      `json:"logprobs_reason"`
	Answers   []canaryLine `json:"answers"`
	Passed    bool         `json:"passed"`
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

// sing sends the canary's prompts.
func (s scout) sing(ctx context.Context, env stage.Env, t *target.Target, doc *document) (interrupted bool, err error) {
	zero := 0.0
	ask := target.Ask{MaxTokens: s.Canary.MaxTokens, Sampling: engine.Sampling{Temperature: &zero, Thinking: "default"}, StoreText: true}
	source := canarySource(s.Canary.Prompts)
	attempts, interrupted, err := s.ask(ctx, env, t, ask, source, s.Canary.Prompts)
	if err != nil {
		return interrupted, err
	}
	c := &canary{MaxTokens: s.Canary.MaxTokens, Answers: []canaryLine{}, Passed: true}
	reason := "log probabilities are not read yet"
	if !s.Canary.Logprobs {
		reason = "not asked for"
	}
	c.Reason = &reason
	for i, a := range attempts {
		line := canaryLine{Prompt: source.At(i).Text, Outcome: a.Outcome, Text: a.Text, Reasoning: a.Reasoning, TextSHA256: a.TextSHA256, Passed: true}
		if why := wrong(a); why != "" {
			line.Passed, line.Why = false, &why
			c.Passed = false
		}
		c.Answers = append(c.Answers, line)
		doc.Prompts = append(doc.Prompts, a.PromptSHA256)
	}
	doc.Canary = c
	return interrupted, nil
}

// wrong says why an answer cannot be a language model's, "" when it can. What a
// model says is not judged: a small one may say anything.
func wrong(a *record.Attempt) string {
	if !a.Outcome.Success() {
		return "no answer: " + string(a.Outcome)
	}
	return ""
}
