package scout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/internal/engine"
	"anvil/stages/internal/load"
	"anvil/stages/internal/prompt"
	"anvil/stages/internal/target"
	"anvil/stages/record"
)

// document is scout.json.
type document struct {
	Schema     string                  `json:"schema"`
	Endpoint   record.AttemptsEndpoint `json:"endpoint"`
	Simulated  bool                    `json:"simulated"`
	StartedAt  string                  `json:"started_at"`
	Ready      readiness               `json:"ready"`
	Engine     engineName              `json:"engine"`
	Facts      engine.Facts            `json:"facts"`
	Weights    *weights                `json:"weights"`
	SameAs     *string                 `json:"same_as"`
	Requests   []*record.Attempt       `json:"requests"`
	Outcomes   map[record.Outcome]int  `json:"outcomes"`
	Prompts    []digest.Digest         `json:"prompts"` // of everything that was sent, the canary's too
	CacheReset string                  `json:"cache_reset"`
	Canary     *canary                 `json:"canary"`
	// What the measurement takes from here.
	BytesPerToken *float64 `json:"bytes_per_token"`
	TokensFrom    *string  `json:"tokens_from"`
	ContextWindow *int     `json:"context_window"`
	MaxFirstMS    *float64 `json:"max_first_output_ms"`
}

type weights struct {
	Verified       bool          `json:"verified"`
	ManifestSHA256 digest.Digest `json:"manifest_sha256"`
}

// Run probes the endpoint, sends the scout's requests and holds the result
// against the gate. It fails when the endpoint never answers.
func (s scout) Run(ctx context.Context, env stage.Env, in stage.Inputs, out *stage.Outputs) error {
	t, err := target.Open(ctx, env, in, s.Endpoint, target.DefaultLimits())
	if err != nil {
		return err
	}
	doc := document{
		Schema: string(scoutSchema), StartedAt: target.Wall(env.Now()), SameAs: s.SameAs,
		Endpoint: record.AttemptsEndpoint{API: t.Protocol.Adapter.API(), Model: t.Model(), BaseURL: s.Endpoint.RecordURL()},
		Requests: []*record.Attempt{}, Outcomes: map[record.Outcome]int{}, Prompts: []digest.Digest{},
	}
	if doc.Weights, err = s.weights(ctx, in); err != nil {
		return err
	}
	p := &prober{target: t, asker: t.Asker()}
	defer p.asker.Close()
	if doc.Ready, err = s.await(env, p).wait(ctx, env.Stop); err != nil {
		return s.notReady(env, err)
	}
	s.inquire(ctx, env, p.asker, &doc)
	ratio := 0.0
	if doc.BytesPerToken != nil {
		ratio = *doc.BytesPerToken
	}
	source, err := target.Prompts(ctx, in, s.Workload, ratio)
	if err != nil {
		return err
	}
	interrupted, err := s.send(ctx, env, t, source, &doc)
	if err != nil {
		return err
	}
	if !interrupted && !s.Canary.Off {
		if interrupted, err = s.sing(ctx, env, t, &doc); err != nil {
			return err
		}
	}
	sent, err := t.Sent()
	if err != nil {
		return err
	}
	sent.Note(env.Stage, doc.Prompts...)
	if doc.CacheReset, err = s.reset(ctx, t, interrupted); err != nil {
		return err
	}
	if doc.CacheReset == target.ResetDone {
		doc.Prompts = []digest.Digest{}
	}
	doc.Simulated = t.Simulated // known once answers were decoded
	s.limit(t, &doc, in, out)
	s.gate(&doc, out)
	redactFacts(env, &doc.Facts)
	doc.Engine = engineName{doc.Facts.Engine, doc.Facts.Version}
	if err := out.JSON(scoutName, doc); err != nil {
		return err
	}
	if interrupted {
		return target.Aborted(ctx, env, "requests")
	}
	return nil
}

// inquire asks the endpoint about itself; an interrupt ends that at once.
func (s scout) inquire(ctx context.Context, env stage.Env, a *target.Asker, doc *document) {
	ctx, stop := target.StopContext(ctx, env.Stop)
	defer stop()
	doc.Facts = a.Facts(ctx)
	doc.ContextWindow = doc.Facts.ContextWindow
	doc.learn(ctx, a)
}

// reset is what the plan asks for, and nothing after an interrupt.
func (s scout) reset(ctx context.Context, t *target.Target, interrupted bool) (became string, err error) {
	if interrupted {
		return target.ResetOff, nil
	}
	return t.ResetCache(ctx, s.CacheReset)
}

func (s scout) await(env stage.Env, p *prober) vigil {
	timeout := s.Ready.Timeout.Std()
	most := cmp.Or(timeout, probeLimit)
	return vigil{prober: p, timeout: timeout, interval: s.Ready.Interval.Std(), word: firstWord, say: func(why error) {
		env.Log.Warn().Msgf("endpoint %s is not ready yet: %s; waiting up to %s", s.Endpoint.Name, env.Secrets.Redact(why.Error()), most)
	}}
}

func (s scout) notReady(env stage.Env, err error) error {
	told := fmt.Errorf("endpoint %s: %w", s.Endpoint.Name, errors.New(env.Secrets.Redact(err.Error())))
	if errors.Is(err, errStopped) {
		return &stage.AbortedError{While: told}
	}
	return told
}

func (s scout) weights(ctx context.Context, in stage.Inputs) (*weights, error) {
	a, ok := in.One("weights")
	if !ok {
		return nil, nil
	}
	doc, err := stage.Decode[struct {
		OK             bool          `json:"ok"`
		ManifestSHA256 digest.Digest `json:"manifest_sha256"`
	}](ctx, a)
	return &weights{doc.OK, doc.ManifestSHA256}, err
}

// Where the length of a token is known from.
const (
	fromTokenize = "tokenize"
	fromUsage    = "usage"
	fromMatch    = "same_as"
)

// learn asks the engine's own tokenizer how long its tokens are.
func (d *document) learn(ctx context.Context, a *target.Asker) {
	sample := prompt.Sample()
	if n, err := a.Tokens(ctx, sample); err == nil {
		ratio, from := float64(len(sample))/float64(n), fromTokenize
		d.BytesPerToken, d.TokensFrom = &ratio, &from
	}
}

// learnFrom takes the length of a token from what the engine counted, where its
// tokenizer could not be asked. A scout that sends a measurement's own prompts
// must not change their size afterwards.
func (s scout) learnFrom(d *document, attempts []*record.Attempt, source prompt.Source) {
	if d.BytesPerToken != nil {
		return
	}
	ratio, from := bytesPerToken(attempts, source), fromUsage
	if s.SameAs != nil {
		used := prompt.DefaultBytesPerToken
		ratio, from = &used, fromMatch
	}
	if ratio != nil {
		d.BytesPerToken, d.TokensFrom = ratio, &from
	}
}

// send sends the scout's requests; those past the end of a dataset are none.
func (s scout) send(ctx context.Context, env stage.Env, t *target.Target, source prompt.Source, doc *document) (interrupted bool, err error) {
	n := s.Requests
	if source.Len() >= 0 {
		n = min(n, source.Len())
	}
	ask := target.Ask{MaxTokens: s.MaxTokens, Sampling: s.Sampling.Sampling, StoreText: true, Strict: s.Workload.Strict()}
	attempts, interrupted, err := s.ask(ctx, env, t, ask, source, n)
	doc.Requests = append(doc.Requests, attempts...)
	for _, a := range attempts {
		doc.Outcomes[a.Outcome]++
		doc.Prompts = append(doc.Prompts, a.PromptSHA256)
	}
	s.learnFrom(doc, attempts, source)
	doc.MaxFirstMS = slowest(attempts)
	return interrupted, err
}

func (s scout) ask(ctx context.Context, env stage.Env, t *target.Target, ask target.Ask, source prompt.Source, n int) (out []*record.Attempt, interrupted bool, err error) {
	if n == 0 {
		return nil, false, nil
	}
	env.Progress.SetUnit("requests")
	env.Progress.Total.Add(int64(n))
	d := &target.Drive{
		Target: t, Ask: ask, Source: source,
		Plan: load.Plan{Workers: make([]int64, min(s.Concurrency, n)), Requests: n, Drain: drain},
	}
	if err := d.Prepare(ctx, nil, n); err != nil {
		return nil, false, fmt.Errorf("prepare requests: %w", err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	r := d.Run(ctx, env.Stop, func() {})
	if err := d.Seal(); err != nil {
		return nil, r.Interrupted, err
	}
	for i := range n {
		a, err := d.Attempt(i)
		if err != nil {
			return nil, r.Interrupted, fmt.Errorf("decode request %d: %w", i, err)
		}
		env.Progress.Count(string(a.Outcome))
		out = append(out, a)
	}
	return out, r.Interrupted, nil
}

// drain is how long open requests may go on after an interrupt.
const drain = 10 * time.Second

// bytesPerToken is what the server's own count says of our prompts: the bytes
// of text to a token, templates included. Null where no answer counts its input.
func bytesPerToken(attempts []*record.Attempt, source prompt.Source) *float64 {
	var bytes, tokens int64
	for i, a := range attempts {
		if a.Usage.Input == nil || *a.Usage.Input <= 0 {
			continue
		}
		p := source.At(i)
		n := len(p.Text)
		for _, m := range p.Messages {
			n += len(m.Text)
		}
		bytes, tokens = bytes+int64(n), tokens+*a.Usage.Input
	}
	if tokens == 0 || bytes == 0 {
		return nil
	}
	ratio := float64(bytes) / float64(tokens)
	return &ratio
}

// slowest is the longest time to first output; null where there was none.
func slowest(attempts []*record.Attempt) *float64 {
	var most *float64
	for _, a := range attempts {
		if a.T.FirstOutput == nil || a.T.Start == nil {
			continue
		}
		if ms := float64(*a.T.FirstOutput-*a.T.Start) / 1e6; most == nil || ms > *most {
			most = &ms
		}
	}
	return most
}

func redactFacts(env stage.Env, f *engine.Facts) {
	redact := env.Secrets.Redact
	for _, s := range []*string{f.Engine, f.Version, f.Root, f.WeightsDigest} {
		if s != nil {
			*s = redact(*s)
		}
	}
	for i := range f.Models {
		f.Models[i] = redact(f.Models[i])
	}
	for k, v := range f.Settings {
		if text, ok := v.(string); ok {
			f.Settings[k] = redact(text)
		}
	}
	for k, v := range f.Unknown {
		f.Unknown[k] = redact(v)
	}
}

// engineName says which program answers.
type engineName struct {
	Name    *string `json:"name"`
	Version *string `json:"version"`
}
