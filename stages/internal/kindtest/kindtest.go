// Package kindtest runs a kind in a test the way the executor does: defaults
// filled, configuration resolved, documents built with their limitation set and
// checked against their schemas.
package kindtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/schemas"
)

// A Bench is one stage and what it is given. Change it before Run.
type Bench struct {
	With   map[string]any // as a plan writes it, but for the endpoint, which is whole
	Inputs map[string][]stage.Artifact
	Files  map[string]stage.Artifact
	Peers  map[string]stage.Peer
	Env    stage.Env
	Stop   chan struct{} // behind Env.Stop
	Seed   int64         // the plan's

	t    *testing.T
	kind stage.Kind
}

// New prepares a stage of the kind. An exclusive kind talks to the embedded
// engine, with endpoint on top; others have none. Its resources are closed when
// the test ends.
func New(t *testing.T, kind stage.Kind, endpoint, with map[string]any) *Bench {
	t.Helper()
	b := &Bench{
		With: maps.Clone(with), Inputs: map[string][]stage.Artifact{}, Files: map[string]stage.Artifact{}, Peers: map[string]stage.Peer{},
		Stop: make(chan struct{}), Seed: 7, t: t, kind: kind,
	}
	if kind.Spec().Exclusive {
		b.With["endpoint"] = Endpoint(endpoint)
	}
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	resources := &stage.Resources{}
	t.Cleanup(func() {
		if err := errors.Join(resources.Close(), root.Close()); err != nil {
			t.Error(err)
		}
	})
	b.Env = stage.Env{
		Log: zerolog.Nop(), Now: time.Now, Seed: stage.SeedOf(b.Seed), Stage: kind.Spec().Name, PlanDir: t.TempDir(), Folder: root,
		Progress: &stage.Progress{}, Secrets: &stage.Secrets{}, Resources: resources, Tool: stage.Tool{Version: "test"}, Stop: b.Stop,
	}
	return b
}

// Endpoint is an endpoint as a resolved plan has it: the embedded engine, fast,
// with over on top.
func Endpoint(over map[string]any) map[string]any {
	e := map[string]any{
		"name": "target", "base_url": nil, "api": "openai-chat", "path": nil, "model": "anvil-sim", "api_key_env": nil, "api_key_file": nil,
		"headers": map[string]any{}, "headers_env": map[string]any{}, "extra_body": map[string]any{}, "max_tokens_field": "max_tokens",
		"include_usage": true, "http2": false, "compression": false, "proxy": nil,
		"tls": map[string]any{"ca_file": nil, "server_name": nil, "insecure": false}, "engine": "auto", "metrics": "auto",
		"sim": map[string]any{"decode_tok_s": 2000.0, "prefill_tok_s": 1e6, "seed": 1},
	}
	maps.Copy(e, over)
	return e
}

// Resolve returns the resolved configuration and the problems of it.
func (b *Bench) Resolve() (json.RawMessage, []stage.ResolutionProblem) {
	b.t.Helper()
	plain := maps.Clone(b.With)
	endpoint, named := b.With["endpoint"]
	if named {
		plain["endpoint"] = "target"
	}
	raw, err := json.Marshal(plain)
	if err != nil {
		b.t.Fatal(err)
	}
	with := decode(b.t, raw).(map[string]any)
	spec := b.kind.Spec()
	if err := errors.Join(schemas.Fill(spec.Config, with), schemas.Check(spec.Config, with)); err != nil {
		b.t.Fatal(err)
	}
	if named {
		with["endpoint"] = endpoint
	}
	r := &stage.Resolution{
		With: with, ID: spec.Name, Plan: stage.ResolutionPlan{Seed: b.Seed},
		Peer: func(id string) (stage.Peer, bool) {
			p, ok := b.Peers[id]
			return p, ok
		},
		Open: func(name string) (io.ReadCloser, error) { return os.Open(filepath.Join(b.Env.PlanDir, name)) },
	}
	if spec.Resolve != nil {
		spec.Resolve(r)
	}
	if raw, err = json.Marshal(with); err != nil {
		b.t.Fatal(err)
	}
	return raw, r.Problems()
}

// Published is what a stage left behind.
type Published struct {
	Documents map[string][]byte // of JSON documents, with their limitations
	Streams   map[string][]byte
	Limits    map[string]string // code to text
	Raised    []stage.Limitation
	Carried   []stage.Limitation
	Findings  []stage.Finding
}

type stream struct{ *bytes.Buffer }

func (stream) Close() error { return nil }

// Run runs the stage. With an error that does not wrap ErrAborted nothing is
// published.
func (b *Bench) Run(ctx context.Context) (Published, error) {
	b.t.Helper()
	return b.do(func(s stage.Stage, in stage.Inputs, out *stage.Outputs) error { return s.Run(ctx, b.Env, in, out) })
}

// Recover does with the stage's folder what the executor does after a kill. The
// kind must be able to.
func (b *Bench) Recover(ctx context.Context) (Published, error) {
	b.t.Helper()
	return b.do(func(s stage.Stage, in stage.Inputs, out *stage.Outputs) error {
		return s.(stage.Recoverer).Recover(ctx, b.Env, in, out)
	})
}

func (b *Bench) do(what func(stage.Stage, stage.Inputs, *stage.Outputs) error) (Published, error) {
	b.t.Helper()
	config, problems := b.Resolve()
	for _, p := range problems {
		b.t.Fatalf("problem at %s: %s (%s)", p.Pointer, p.Message, p.Hint)
	}
	s, err := b.kind.New(config)
	if err != nil {
		b.t.Fatal(err)
	}
	spec := b.kind.Spec()
	if spec.Outputs != nil {
		spec.Out = spec.Outputs(decode(b.t, config).(map[string]any))
	}
	streams := map[string]*bytes.Buffer{}
	out := stage.NewOutputs(spec, func(name string, _ schemas.ID) (io.WriteCloser, error) {
		streams[name] = &bytes.Buffer{}
		return stream{streams[name]}, nil
	})
	runErr := what(s, stage.NewInputs(b.Inputs, b.Files, nil), out)
	if runErr != nil && !errors.Is(runErr, stage.ErrAborted) {
		return Published{}, runErr
	}
	return b.collect(out, streams), runErr
}

func (b *Bench) collect(out *stage.Outputs, streams map[string]*bytes.Buffer) Published {
	b.t.Helper()
	c := out.Collect()
	p := Published{Documents: map[string][]byte{}, Streams: map[string][]byte{}, Limits: map[string]string{}, Raised: c.Limitations, Carried: c.Carried, Findings: c.Findings}
	for i := range c.Limitations {
		c.Limitations[i].Origin = b.Env.Stage
		p.Limits[c.Limitations[i].Code] = c.Limitations[i].Text
	}
	set := stage.NewLimitationSet(c.Limitations...)
	for name, build := range c.Documents {
		raw, err := build(set)
		if err != nil {
			b.t.Fatalf("%s: %v", name, err)
		}
		if err := schemas.Check(c.Schemas[name], decode(b.t, raw)); err != nil {
			b.t.Errorf("%s: %v\n%.4000s", name, err, raw)
		}
		p.Documents[name] = raw
	}
	for name, s := range streams {
		p.Streams[name] = s.Bytes()
	}
	return p
}

func decode(t *testing.T, raw []byte) any {
	t.Helper()
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Bind puts a document on an input port.
func (b *Bench) Bind(port string, schema schemas.ID, raw []byte) {
	a := Artifact(schema, port+".json", raw)
	b.Inputs[port] = []stage.Artifact{a}
}

// Artifact holds raw in memory.
func Artifact(schema schemas.ID, name string, raw []byte) stage.Artifact {
	_, none := stage.LimitationSet{}.Canonical()
	ref := stage.Ref{Schema: schema, SHA256: digest.FromBytes(raw), Size: int64(len(raw)), Limitations: none}
	return stage.NewArtifact(ref, "other", name, memory(raw), nil)
}

type memory []byte

// Open gives the bytes, whatever digest is asked for.
func (m memory) Open(context.Context, digest.Digest, int64) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(string(m))), nil
}
