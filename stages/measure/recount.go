package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"anvil/pipeline/stage"
	"anvil/stages/internal/target"
	"anvil/stages/record"
)

// recountLimit is how long all counting after a phase may take.
const recountLimit = 2 * time.Minute

// Counts differ when they are apart by more than differTokens, an end mark or
// two, and by more than differShare: a text need not be cut again where the model
// cut it.
const (
	differTokens = 2
	differShare  = 0.05
)

// A recount has the engine's own tokenizer count each stored text once, after the
// phase: whole texts, since a tokenizer may add its marks to each piece. It ends
// with the first text that is not counted. The nil one counts nothing.
type recount struct {
	ask   func(text string) (tokens int, ok bool)
	close func()
	found record.TokenCounts
}

var errRecountOver = errors.New("counting ended after " + recountLimit.String())

// recount begins to count for a phase that ended by itself.
func (m measure) recount(ctx context.Context, env stage.Env, t *target.Target, p phase) *recount {
	c := &recount{close: func() {}}
	switch {
	case p.result.Interrupted:
		c.stop("the phase was interrupted")
		return c
	case !m.StoreText:
		c.stop("no text is stored")
		return c
	case m.Endpoint.Engine == "none":
		c.stop("the plan says that there is no engine to ask")
		return c
	}
	ctx, cancel := context.WithTimeoutCause(ctx, recountLimit, errRecountOver)
	ctx, stop := target.StopContext(ctx, env.Stop)
	asker := t.Asker()
	c.close = func() { stop(); cancel(); asker.Close() }
	c.ask = func(text string) (int, bool) {
		n, err := asker.Tokens(ctx, text)
		switch cause := context.Cause(ctx); {
		case err == nil:
		case errors.Is(cause, errRecountOver):
			c.stop(cause.Error())
		case cause != nil:
			c.stop("the stage was interrupted")
		default:
			c.stop(err.Error())
		}
		return n, err == nil
	}
	return c
}

func (c *recount) stop(why string) { c.ask, c.found.Reason = nil, &why }

// whole tells whether an answer came to its end, whatever it holds. A server that
// does not finish its answers is asked nothing more.
func whole(a *record.Attempt) bool {
	return a.Outcome.Success() || a.Outcome == record.OutcomeCanaryFailed || a.Outcome == record.OutcomeLengthMismatch
}

// count fills an attempt's engine_tokens.
func (c *recount) count(a *record.Attempt) {
	if c == nil || c.ask == nil || !whole(a) || a.Text == nil || *a.Text == "" || a.TextTruncated || slices.Contains(a.Notes, "secret_wiped") {
		return
	}
	n, ok := c.ask(*a.Text)
	if !ok {
		return
	}
	a.EngineTokens = &n
	c.found.Counted++
	if usage, ok := textUsage(a); ok {
		c.compare(usage, int64(n))
	}
}

// textUsage is the output of an answer by usage, as far as it speaks of its text
// alone: not where thoughts are counted with it and nobody says how many, and not
// where calls or other choices are.
func textUsage(a *record.Attempt) (tokens int64, ok bool) {
	if !a.Outcome.Success() || a.Usage.Output == nil || len(a.ToolCalls) > 0 || a.Choices != 1 {
		return 0, false
	}
	tokens = *a.Usage.Output
	if slices.Contains(a.Notes, "think_tags") { // the thoughts stand in the text
		return tokens, true
	}
	if a.Usage.Reasoning != nil {
		return tokens - *a.Usage.Reasoning, true
	}
	return tokens, a.Reasoning == nil || *a.Reasoning == ""
}

func (c *recount) compare(usage, engine int64) {
	f := &c.found
	f.Compared++
	f.Usage, f.Engine, f.Difference = f.Usage+usage, f.Engine+engine, f.Difference+engine-usage
	if apart := max(usage-engine, engine-usage); apart > differTokens && float64(apart) > differShare*float64(max(usage, engine)) {
		f.Differing++
	}
}

// counts is what measurement.json says of it.
func (c *recount) counts() record.TokenCounts {
	if c == nil {
		why := "the phase was decoded by a later process, which asks no server"
		return record.TokenCounts{Reason: &why}
	}
	return c.found
}

// limit says so when the counts disagree.
func (c *recount) limit(out *stage.Outputs) {
	if c == nil || c.found.Differing == 0 {
		return
	}
	f := c.found
	out.Limit(stage.Limit("tokens.disagree", "difference", fmt.Sprintf(
		"in %d of %d answers; %d tokens by usage, %d by the tokenizer (%+d)", f.Differing, f.Compared, f.Usage, f.Engine, f.Difference)))
}
