package stage

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"anvil/schemas"
)

// A Finding is a gate that failed: everything is published, the exit code is 5.
type Finding struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// A Document builds a JSON artifact at the stage's end, when the limitation set
// of the outputs is known. What it returns is stored byte for byte.
type Document func(set LimitationSet) ([]byte, error)

// A Creator opens the file of a streamed artifact. The executor gives one that
// hashes while it writes and syncs at Close.
type Creator func(name string, schema schemas.ID) (io.WriteCloser, error)

// Outputs takes what a stage publishes. It is safe for concurrent use.
type Outputs struct {
	spec   Spec
	create Creator

	mu        sync.Mutex
	documents map[string]Document
	schemas   map[string]schemas.ID
	written   map[string]bool
	limits    []Limitation
	carried   []Limitation
	findings  []Finding
}

// NewOutputs is for the executor and for tests of a kind.
func NewOutputs(spec Spec, create Creator) *Outputs {
	return &Outputs{
		spec: spec, create: create,
		documents: map[string]Document{}, schemas: map[string]schemas.ID{}, written: map[string]bool{},
	}
}

// ErrNotDeclared is wrapped when a stage writes an output that its kind does
// not declare, or one output twice.
var ErrNotDeclared = errors.New("output not declared, or written twice")

func (o *Outputs) claim(name string, schema schemas.ID) (schemas.ID, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.spec.Out {
		// An output without a name or a schema is named by the stage: import.
		if p.Name != "" && p.Name != name {
			continue
		}
		if p.Schema != "" {
			schema = p.Schema
		}
		if o.written[name] || schema == "" {
			break
		}
		o.written[name] = true
		o.schemas[name] = schema
		return schema, nil
	}
	return "", fmt.Errorf("output %q of %s: %w", name, o.spec.Name, ErrNotDeclared)
}

// JSON publishes v, a struct or map without "limitations", as an indented JSON
// document. The executor injects the limitation set and checks the schema when
// the stage ends.
func (o *Outputs) JSON(name string, v any) error {
	return o.Build(name, func(set LimitationSet) ([]byte, error) { return MarshalDocument(v, set) })
}

// Build publishes what build returns once the limitation set is known.
func (o *Outputs) Build(name string, build Document) error {
	if _, err := o.claim(name, ""); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.documents[name] = build
	return nil
}

// Create opens a streamed output: JSON Lines or a foreign shape. The caller
// closes it; an output that was not closed without error is not published.
func (o *Outputs) Create(name string) (io.WriteCloser, error) { return o.CreateAs(name, "") }

// CreateAs is Create for an output whose schema the kind does not declare.
func (o *Outputs) CreateAs(name string, schema schemas.ID) (io.WriteCloser, error) {
	schema, err := o.claim(name, schema)
	if err != nil {
		return nil, err
	}
	return o.create(name, schema)
}

// Limit adds limitations; nothing takes any away. Their origin is set by the
// executor; Every and the code's severity stand in for what is left empty.
func (o *Outputs) Limit(ls ...Limitation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.limits = append(o.limits, ls...)
}

// Carry adds limitations that a document from elsewhere already bears, with
// their origins as they stand. Only import has such.
func (o *Outputs) Carry(set LimitationSet) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.carried = append(o.carried, set...)
}

// Finding records a gate that failed.
func (o *Outputs) Finding(code, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.findings = append(o.findings, Finding{Code: code, Text: text})
}

// Collected is what the executor takes from Outputs when the stage has ended.
type Collected struct {
	Documents   map[string]Document
	Schemas     map[string]schemas.ID // of every output that was claimed
	Limitations []Limitation          // raised; the executor sets their origin
	Carried     []Limitation          // of an imported document; their origin stays
	Findings    []Finding
}

// Collect returns everything that was handed in so far.
func (o *Outputs) Collect() Collected {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Collected{Documents: o.documents, Schemas: o.schemas, Limitations: o.limits, Carried: o.carried, Findings: o.findings}
}
