package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
	"anvil/schemas"
)

// outputs take what a stage publishes: streams go into the store while they
// are written, documents when the limitation set is known.
type outputs struct {
	ctx   context.Context //nolint:containedctx // the life of one attempt
	store *store.Store
	spec  stage.Spec
	out   *stage.Outputs

	mu      sync.Mutex
	streams map[string]*stream
}

// A stream is one output that is written piece by piece.
type stream struct {
	*store.Writer
	closed bool // without an error
}

// Close commits the stream.
func (s *stream) Close() error {
	err := s.Writer.Close()
	s.closed = err == nil
	return err
}

func newOutputs(ctx context.Context, s *store.Store, spec stage.Spec) *outputs {
	o := &outputs{ctx: context.WithoutCancel(ctx), store: s, spec: spec, streams: map[string]*stream{}}
	o.out = stage.NewOutputs(spec, o.create)
	return o
}

// create opens a stream. It goes on when the stage is cancelled: what was
// measured until then is to be kept.
func (o *outputs) create(name string, _ schemas.ID) (io.WriteCloser, error) {
	w, err := o.store.Create(o.ctx)
	if err != nil {
		return nil, err
	}
	s := &stream{Writer: w}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.streams[name] = s
	return s, nil
}

// abandon drops the streams that the stage left open.
func (o *outputs) abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.streams {
		s.Abort()
	}
}

// publish stores every output with the set that travels with it. With whole,
// every declared output must be there.
func (o *outputs) publish(ctx context.Context, set stage.LimitationSet, whole bool, secrets *stage.Secrets) ([]prov.Output, error) {
	c := o.out.Collect()
	raw, setSum := set.Canonical()
	var outs []prov.Output
	for _, name := range o.names(c) {
		ref := stage.Ref{Schema: c.Schemas[name], Limitations: setSum}
		var err error
		if build, ok := c.Documents[name]; ok {
			err = o.document(ctx, &ref, name, build, set, secrets)
		} else {
			err = o.streamed(&ref, name)
		}
		if err != nil {
			if whole || codeOf(err, "") != "" {
				return nil, err
			}
			continue // partial evidence: what is whole is kept
		}
		outs = append(outs, prov.Output{Name: name, Ref: ref, MediaType: mediaType(name)})
	}
	if whole {
		if err := o.complete(outs); err != nil {
			return nil, err
		}
	}
	if len(outs) > 0 {
		if _, err := o.store.PutBytes(ctx, raw); err != nil {
			return nil, err
		}
	}
	return outs, nil
}

// names are the outputs that were written, in the order in which the kind
// declares them, then those that it names itself.
func (o *outputs) names(c stage.Collected) []string {
	order := map[string]int{}
	for i, p := range o.spec.Out {
		order[p.Name] = i - len(o.spec.Out)
	}
	names := slices.Sorted(maps.Keys(c.Schemas))
	slices.SortStableFunc(names, func(a, b string) int { return order[a] - order[b] })
	return names
}

func (o *outputs) streamed(ref *stage.Ref, name string) error {
	o.mu.Lock()
	s := o.streams[name]
	o.mu.Unlock()
	if s == nil || !s.closed {
		return &codedError{CodeMissing, fmt.Errorf("output %s was begun and not finished", name)}
	}
	ref.SHA256, ref.Size = s.Digest(), s.Size()
	return nil
}

func (o *outputs) document(ctx context.Context, ref *stage.Ref, name string, build stage.Document, set stage.LimitationSet, secrets *stage.Secrets) error {
	content, err := build(set)
	if err != nil {
		return &codedError{CodeInvalid, fmt.Errorf("output %s: %w", name, err)}
	}
	secrets.RedactBytes(content)
	if err := fits(ref.Schema, content); err != nil {
		return &codedError{CodeInvalid, fmt.Errorf("output %s: %w", name, err)}
	}
	ref.Size = int64(len(content))
	ref.SHA256, err = o.store.PutBytes(ctx, content)
	return err
}

// fits checks a JSON document against its schema. A document that is no JSON,
// such as a report, has none.
func fits(id schemas.ID, content []byte) error {
	if _, err := schemas.Source(id); err != nil {
		return nil
	}
	var doc any
	dec := json.NewDecoder(bytes.NewReader(content))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		return err
	}
	return schemas.Check(id, doc)
}

// complete finds a declared output that is not there.
func (o *outputs) complete(outs []prov.Output) error {
	for _, p := range o.spec.Out {
		if p.Optional || p.Name == "" {
			continue
		}
		if !slices.ContainsFunc(outs, func(out prov.Output) bool { return out.Name == p.Name }) {
			return &codedError{CodeMissing, fmt.Errorf("output %s was not written", p.Name)}
		}
	}
	return nil
}

func mediaType(name string) string {
	if strings.HasSuffix(name, ".zst") {
		return "application/zstd"
	}
	switch path.Ext(name) {
	case ".json":
		return "application/json"
	case ".jsonl":
		return "application/jsonl"
	case ".html":
		return "text/html"
	case ".md":
		return "text/markdown"
	}
	return "application/octet-stream"
}
