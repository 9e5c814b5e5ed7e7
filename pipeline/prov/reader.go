package prov

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

// Objects gives the bytes of objects by digest, verified: the store.
type Objects = stage.Opener

// A whole object at once is cheaper than a stream of it, where that is offered.
type wholeObjects interface {
	Bytes(ctx context.Context, d digest.Digest, limit int64) ([]byte, error)
}

// A Reader reads results and limitation sets from objects and keeps them. It is
// safe for concurrent use. What it returns is shared: do not change it.
type Reader struct {
	objects Objects

	mu      sync.Mutex
	results map[digest.Digest]*Result
	sets    map[digest.Digest]stage.LimitationSet
}

// NewReader returns a Reader of objects.
func NewReader(objects Objects) *Reader {
	return &Reader{objects: objects, results: map[digest.Digest]*Result{}, sets: map[digest.Digest]stage.LimitationSet{}}
}

// maxDocument bounds what is read into memory as one provenance document.
const maxDocument = 256 << 20 // bytes

var errTooLarge = fmt.Errorf("larger than a document of %d bytes", maxDocument)

// Bytes reads a whole object, verified; a size of -1 promises none.
func (r *Reader) Bytes(ctx context.Context, d digest.Digest, size int64) (b []byte, err error) {
	if whole, ok := r.objects.(wholeObjects); ok && size < 0 {
		return whole.Bytes(ctx, d, maxDocument)
	}
	rc, err := r.objects.Open(ctx, d, size)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	// Room for the usual result: io.ReadAll reads it in six pieces.
	buf := bytes.NewBuffer(make([]byte, 0, 8<<10))
	_, err = buf.ReadFrom(io.LimitReader(rc, maxDocument+1))
	if err == nil && buf.Len() > maxDocument {
		err = fmt.Errorf("object %s: %w", d, errTooLarge)
	}
	return buf.Bytes(), err
}

// Result reads a result.json by its digest.
func (r *Reader) Result(ctx context.Context, d digest.Digest) (*Result, error) {
	r.mu.Lock()
	res, ok := r.results[d]
	r.mu.Unlock()
	if ok {
		return res, nil
	}
	b, err := r.Bytes(ctx, d, -1)
	if err != nil {
		return nil, fmt.Errorf("result %s: %w", d.Short(), err)
	}
	res, err = DecodeResult(b)
	if err != nil {
		return nil, fmt.Errorf("result %s: %w", d.Short(), err)
	}
	r.mu.Lock()
	r.results[d] = res
	r.mu.Unlock()
	return res, nil
}

// DecodeResult reads a result.json.
func DecodeResult(b []byte) (*Result, error) {
	res := new(Result)
	if err := jsonv2.Unmarshal(b, res); err != nil {
		return nil, err
	}
	if res.Schema != ResultSchema {
		return nil, fmt.Errorf("schema is %q, want %q", res.Schema, ResultSchema)
	}
	return res, nil
}

// EncodeResult writes a result.json: the same result gives the same bytes. A
// nil list is written as an empty one.
func EncodeResult(res Result) ([]byte, error) {
	res.Schema = ResultSchema
	if res.Inputs == nil {
		res.Inputs = []Input{}
	}
	if res.Outputs == nil {
		res.Outputs = []Output{}
	}
	if res.Limitations == nil {
		res.Limitations = stage.LimitationSet{}
	}
	if res.Findings == nil {
		res.Findings = []stage.Finding{}
	}
	res.StartedAt.Time, res.FinishedAt.Time = res.StartedAt.UTC(), res.FinishedAt.UTC()
	return encode(res)
}

// Set reads a limitation set by its digest.
func (r *Reader) Set(ctx context.Context, d digest.Digest) (stage.LimitationSet, error) {
	r.mu.Lock()
	set, ok := r.sets[d]
	r.mu.Unlock()
	if ok {
		return set, nil
	}
	if d == emptySet {
		return stage.LimitationSet{}, nil
	}
	b, err := r.Bytes(ctx, d, -1)
	if err == nil {
		err = json.Unmarshal(b, &set)
	}
	if err != nil {
		return nil, fmt.Errorf("limitation set %s: %w", d.Short(), err)
	}
	r.mu.Lock()
	r.sets[d] = set
	r.mu.Unlock()
	return set, nil
}

// emptySet is the digest of the set of a leaf file: of the two bytes "[]".
var emptySet = func() digest.Digest { _, d := stage.LimitationSet(nil).Canonical(); return d }()
