// Package engine speaks the APIs of serving engines: what a request's body is
// and how the bytes of an answer, with the stamp of each read, become the answer
// fields of a record.Attempt (streams.md 1 to 5).
//
// It does no I/O of its own in the request path. A load core builds bodies with
// [Protocol.Body] before the phase, feeds what it reads to a [Watcher] during it
// (no allocation a read), and hands the same bytes to a [Decoder] behind or after
// it. Watcher and Decoder share one parser and one reading of each event, so they
// cannot disagree about what is output.
package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"anvil/stages/internal/engine/jsonview"
)

// An Adapter speaks one API. Adapters are values without state.
type Adapter interface {
	// API is the name by which a plan asks for it.
	API() string
	// Proof says what stands behind it: captured streams of named engine
	// versions, or published documentation alone.
	Proof() Proof
	// Path is what is appended to the base URL.
	Path(model string, stream bool) string
	// Framing is how a streamed body is divided.
	Framing() Framing
	// Body fills the fields of a request, before extra_body.
	Body(e *Endpoint, r Request, stream bool) (Fields, error)
	// Cap is where Body puts the cap on the output: paths of members, of which the
	// first that extra_body sets is the one that counts.
	Cap() [][]string
	// Unsent names the sampling switches that are set and have no field in this API.
	Unsent(s Sampling) []string

	// event reads one payload of a stream, body a whole answer that was not streamed.
	event(r *reading, name, data []byte)
	body(r *reading, data []byte)
}

// Proof is the evidence behind an adapter.
type Proof struct {
	Captured bool   // false: measure raises api.unproven
	Source   string // engine and version, or the address of the documentation
}

// Framing is how a streamed body is divided into events.
type Framing uint8

// The framings.
const (
	EventStream Framing = iota // text/event-stream
	Lines                      // one JSON object a line, application/x-ndjson
)

// All lists every adapter, in the order of plan-keys.md.
func All() []Adapter {
	return []Adapter{
		openaiChat{},
		openaiCompletions{},
		openaiResponses{},
		anthropicMessages{},
		tgi{},
		sglang{},
		triton{},
		ollama{},
		llamaCPP{},
		generateSSE{},
	}
}

// Find returns the adapter of that name.
func Find(api string) (Adapter, bool) {
	all := All()
	i := slices.IndexFunc(all, func(a Adapter) bool { return a.API() == api })
	if i < 0 {
		return nil, false
	}
	return all[i], true
}

// A Protocol is an endpoint with its adapter: how it is asked and how its answers
// are read. It is safe for concurrent use.
type Protocol struct {
	Endpoint Endpoint
	Adapter  Adapter
	Stream   bool   // false where extra_body says "stream": false: answers are whole bodies
	URL      string // where requests are POSTed; holds no credentials of the URL
	Model    string // asked for
}

// Open resolves an endpoint that has a base URL.
func Open(e Endpoint) (*Protocol, error) {
	a, ok := Find(cmp.Or(e.API, "openai-chat"))
	if !ok {
		return nil, fmt.Errorf("endpoint %s: unknown api %q", e.Name, e.API)
	}
	p := &Protocol{Endpoint: e, Adapter: a, Stream: e.streams(), Model: e.asked()}
	u, err := e.requestURL(a.Path(e.model(), p.Stream))
	if err != nil {
		return nil, err
	}
	p.URL = u
	return p, nil
}

// Cap is the cap on the output as it goes out: asked, unless extra_body says
// another; 0 where it takes the cap away.
func (p *Protocol) Cap(asked int) int {
	extra, ok := jsonview.Parse(p.Endpoint.ExtraBody)
	if !ok {
		return asked
	}
	for _, path := range p.Adapter.Cap() {
		switch v := extra.At(path...); v.Kind() {
		case jsonview.Absent:
		case jsonview.Null:
			return 0
		default:
			if n, ok := v.Int(); ok && n > 0 && n <= maxCap {
				return int(n)
			}
			return 0 // what the server makes of it is not known
		}
	}
	return asked
}

// maxCap is the largest number that counts as a cap.
const maxCap = 1<<31 - 1

// Body returns the request's bytes: equal requests give equal bytes. extra_body
// is merged last, objects into objects, so that it can add to and override
// everything.
func (p *Protocol) Body(r Request) ([]byte, error) {
	f, err := p.Adapter.Body(&p.Endpoint, r, p.Stream)
	if err != nil {
		return nil, fmt.Errorf("%s request: %w", p.Adapter.API(), err)
	}
	if r.Logprobs {
		maps.Copy(f, p.logprobFields())
	}
	return f.merge(p.Endpoint.ExtraBody).encode()
}
