package target

import (
	"fmt"
	"slices"
	"strings"

	"anvil/pipeline/digest"
	"anvil/stages/internal/engine"
	"anvil/stages/internal/load"
	"anvil/stages/internal/prompt"
	"anvil/stages/record"
)

// An Ask is how the prompts of a phase are put into requests and what is kept
// of the answers.
type Ask struct {
	MaxTokens int
	Sampling  engine.Sampling
	StoreText bool
	Strict    bool // answers of another length than asked are failures
	ListTries bool // the plan retries: every try is listed

	// Logprobs, when set, asks for the tokens' log probabilities and is given
	// those of each answer: none where they did not come.
	Logprobs func(request int, ps []engine.Logprob)
}

// Body returns the request for a prompt.
func (t *Target) Body(a Ask, p prompt.Prompt) ([]byte, error) {
	return t.Protocol.Body(engine.Request{Messages: p.Messages, Prompt: p.Text, MaxTokens: a.MaxTokens, Sampling: a.Sampling, Logprobs: a.Logprobs != nil})
}

// Watcher follows answers of the endpoint for one worker.
func (t *Target) Watcher() load.Watcher {
	return &watcher{w: t.Protocol.NewWatcher(t.engineLimits())}
}

func (t *Target) engineLimits() engine.Limits {
	return engine.Limits{MaxEvent: int64(t.limits.MaxEvent), MaxBody: int64(t.limits.MaxBody), MaxError: int64(t.limits.MaxError)}
}

type watcher struct{ w *engine.Watcher }

func (w *watcher) Reset(head []byte) { w.w.Reset(headOf(head)) }

func (w *watcher) Feed(b []byte) (saw load.Saw) {
	signal := w.w.Feed(b)
	if signal.Outputs > 0 {
		saw |= load.SawOutput
	}
	return saw | sawOf[signal.End]
}

// sawOf is what ends the reading in the load core's words; other ends it sees itself.
var sawOf = map[engine.EndKind]load.Saw{
	engine.EndMark: load.SawEnd, engine.EndEventTooLarge: load.SawLargeEvent, engine.EndBodyTooLarge: load.SawLargeBody,
}

func (w *watcher) Close() { w.w.Close() }

func headOf(head []byte) engine.Head {
	status, header := load.ParseHead(head)
	return engine.Head{Status: status, Header: header}
}

// Attempt decodes what became of one request. The samples are its tries, the
// last one the attempt's own; none stand for a request that was never begun.
func (t *Target) Attempt(a Ask, p prompt.Prompt, i int, body []byte, capture *load.Capture, tries []load.Tried) (*record.Attempt, error) {
	out := &record.Attempt{
		Index: i, Client: "c0", PromptSHA256: p.Digest, MaxOutputTokens: t.Protocol.Cap(a.MaxTokens),
		Usage: record.Usage{Source: "none"}, TextSHA256: digest.FromBytes(nil),
	}
	if p.Item != "" {
		out.Item = &p.Item
	}
	if p.Planned > 0 {
		out.PlannedInputTokens = &p.Planned
	}
	if len(tries) == 0 || !tries[len(tries)-1].Sample.Begun {
		t.neverSent(out, tries)
		return out, nil
	}
	sum := digest.FromBytes(body)
	out.RequestSHA256 = &sum
	for n, try := range tries {
		if err := t.decode(a, p, out, capture, n, try); err != nil {
			return nil, err
		}
		if a.ListTries {
			out.Tries = append(out.Tries, record.Try{T: out.T, Outcome: out.Outcome, Error: out.Error})
		}
	}
	return out, nil
}

func (t *Target) neverSent(out *record.Attempt, tries []load.Tried) {
	reason := "the request was not sent"
	out.Usage.Reason = &reason
	out.Outcome = record.OutcomeNotStarted
	out.Error = &record.AttemptError{Class: "not_started", Message: "the phase ended before the request began"}
	if len(tries) == 0 {
		return
	}
	s := tries[len(tries)-1].Sample
	if s.Ending == load.EndShed {
		out.T.Due = moment(s.Due)
		out.Outcome = record.OutcomeClientShed
		out.Error = &record.AttemptError{Class: "client_shed", Message: "every slot was taken when the request was due"}
	}
}

func (t *Target) decode(a Ask, p prompt.Prompt, out *record.Attempt, capture *load.Capture, n int, try load.Tried) error {
	guard := newGuard(t.env.Secrets)
	want := engine.Want{
		MaxTokens: a.MaxTokens, Limits: t.engineLimits(), StoreText: a.StoreText, Logprobs: a.Logprobs != nil, Plain: guard.look,
	}
	d := t.Protocol.NewDecoder(want)
	err := capture.Replay(out.Index, n,
		func(head []byte) {
			h := headOf(head)
			t.witnessHead(h)
			d.Head(h)
		},
		func(r load.Read, b []byte) {
			t.witnessBody(b)
			d.Read(engine.Read{At: r.At, SeenEmpty: moment(r.Empty)}, b)
		})
	if err != nil {
		return err
	}
	answer := d.End(ending(try.Sample, try.Fault, t.env.Secrets.RedactCut))
	s := try.Sample
	broke(&answer, s, try.Fault, t.env.Secrets.RedactCut)
	out.T = record.Stamps{
		Due: moment(s.Due), Start: moment(s.Start), Connected: moment(s.Connected), Sent: moment(s.Sent),
		Written: moment(s.Written), Headers: moment(s.Headers), FirstByte: moment(s.FirstByte),
	}
	if a.Logprobs != nil {
		a.Logprobs(out.Index, t.showable(answer.Logprobs))
	}
	failure := check(a, p, out, &answer)
	guard.texts(d)
	guard.answer(&answer)
	answer.Put(out)
	if failure != nil && out.Error == nil {
		out.Error = failure
	}
	if guard.found() {
		capture.Doom(out.Index, n)
		out.Notes = append(out.Notes, "secret_wiped")
	}
	if s.Replaced {
		out.Notes = append(out.Notes, "reconnected")
	}
	if s.Ending == load.EndCancel {
		out.Notes = append(out.Notes, "cancelled_by_plan")
	}
	return nil
}

// broke sees to it that the transport comes first (streams.md 5): a reset, or a
// fault of TLS, in an answer that was not complete outranks what the answer itself
// had said, which becomes a note.
func broke(a *engine.Answer, s *load.Sample, f load.Fault, redact func(string) string) {
	cut := slices.Index(a.Notes, string(record.OutcomeCut))
	if s.Ending != load.EndReset || f.Class == "protocol" || a.Outcome != record.OutcomeCut && cut < 0 {
		return
	}
	if cut >= 0 {
		a.Notes[cut] = string(a.Outcome)
	}
	a.Outcome = record.OutcomeTransport
	a.Error = &record.AttemptError{Class: f.Class, Message: redact(f.Message)}
}

// visible is the text that canaries and code words are looked for in: thoughts in
// tags, and the blanks behind them, are none of it.
func visible(a *engine.Answer) string {
	if !slices.Contains(a.Notes, "think_tags") {
		return a.Content
	}
	_, rest, _ := strings.Cut(a.Content, "</think>")
	return strings.TrimLeft(rest, " \r\n\t")
}

// check looks for what a complete answer was asked to hold. A failure outranks
// only success: what went wrong before says more.
func check(a Ask, p prompt.Prompt, out *record.Attempt, answer *engine.Answer) (failure *record.AttemptError) {
	if !answer.Outcome.Success() && answer.Outcome != record.OutcomeEmpty {
		return nil
	}
	text := visible(answer)
	if p.Words > 0 {
		c := prompt.CheckWords(p.Words, a.Strict, p.Marker, text, true)
		out.ControlledOutput = c
		if !c.Passed {
			failure = &record.AttemptError{Class: "length_mismatch", Message: fmt.Sprintf(
				"%d of %d code words in order, %d other words", c.ObservedCodeWords, c.RequestedWords, c.ObservedExtraWords)}
		}
	}
	if p.Marker != "" {
		c := prompt.CheckCanary(p.Marker, text, true)
		out.Canary = c
		if !c.Passed {
			failure = &record.AttemptError{Class: "canary_failed", Message: canaryMessage(c)}
			answer.Fail(record.OutcomeCanaryFailed)
		}
	}
	if c := out.ControlledOutput; c != nil && !c.Passed {
		answer.Fail(record.OutcomeLengthMismatch)
	}
	return failure
}

func canaryMessage(c *record.Canary) string {
	switch {
	case c.ForeignMarkerCount > 0:
		return fmt.Sprintf("%d markers of other requests stand in the answer", c.ForeignMarkerCount)
	case c.ObservedMarkerCount == 0:
		return "the answer does not hold its marker " + c.Marker
	}
	return "the answer does not begin with its marker " + c.Marker
}

// showable are log probabilities of tokens that do not spell a secret.
func (t *Target) showable(ps []engine.Logprob) []engine.Logprob {
	var text strings.Builder
	for _, p := range ps {
		text.WriteString(p.Token)
	}
	if t.env.Secrets.Redact(text.String()) != text.String() {
		return nil
	}
	return ps
}

func moment(stamp int64) *int64 {
	if stamp == load.None {
		return nil
	}
	return &stamp
}

func ending(s *load.Sample, f load.Fault, redact func(string) string) engine.Ending {
	e := engine.Ending{At: s.End, Class: f.Class, Message: redact(f.Message)}
	switch s.Ending {
	case load.EndMark:
		e.Kind = engine.EndMark
	case load.EndBody, load.EndClose:
		e.Kind, e.Open = engine.EndClean, s.Ending == load.EndClose
	case load.EndCapped:
		e.Kind = engine.EndEnough
	case load.EndCut, load.EndReset:
		e.Kind = engine.EndCut
	case load.EndStalledFirst:
		e.Kind = engine.EndFirstOutput
	case load.EndStalledMid:
		e.Kind = engine.EndGap
	case load.EndTotal:
		e.Kind = engine.EndTotal
	case load.EndEventTooLarge:
		e.Kind = engine.EndEventTooLarge
	case load.EndBodyTooLarge:
		e.Kind = engine.EndBodyTooLarge
	case load.EndAborted, load.EndCancel:
		e.Kind = engine.EndAbort
	default: // EndConnect, EndBroken
		e.Kind = engine.EndTransport
	}
	return e
}
