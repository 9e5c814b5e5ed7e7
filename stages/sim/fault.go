package sim

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A fault is one way in which a server provokes an outcome of streams.md 5.
type fault struct {
	Outcome string
	Variant string
}

// faultVariants are the outcomes that a server can provoke, each with the ways
// it can; a fault that names no variant takes them in turn. These are the
// names of the configuration's "faults":
//
//	"cut": 0.1           a tenth of the requests, each variant in turn
//	"cut.done": 0.1      a tenth, always this variant
//	"cut@3": 1           the fourth request that the engine gets
//	"cut.done@3": 1      that one, in this way
//
// Requests count from 0 in order of arrival, a scout's too, but for those that a
// client may not make (400, 404). canary_failed and length_mismatch change
// nothing where a prompt asks for no marker or no code words. Half an answer is
// at least one event. However few tokens a request allows, each fault shows. An
// answer that is not streamed has no middle: what would stall in mid-stream never
// begins, and what would be cut is half a body.
func faultVariants() map[string][]string {
	return map[string][]string{
		"refused_load": {
			"503", "429", "529", // with Retry-After; no slot is taken
		},
		"http_error": {
			"500", "502_html", "400", "redirect", "401_string", // no slot is taken
		},
		"in_band_error": {
			"object",    // half an answer, an error object, [DONE]
			"string",    // half an answer, an error that is a string, [DONE]
			"event",     // half an answer, an event named error
			"first",     // an error object before any token, [DONE]
			"finish",    // half an answer, finish reason error
			"after_end", // the whole answer with its finish reason, then an error object, [DONE]
		},
		"malformed": {
			"json", // half an answer, an event that is no JSON, the rest
			"half", // half an answer, an event cut in the middle of its JSON, the rest
			"html", // a 200 with an HTML page
			"body", // one JSON completion where a stream was asked for
		},
		"cut": {
			"eof",   // half an answer, a clean end of the body
			"done",  // half an answer, [DONE] without a finish reason
			"chunk", // half an answer, the connection closed in the middle of a chunk
		},
		"stalled_first": {
			"silent",     // headers, then nothing until the client goes away
			"comments",   // headers, then a comment every 100 ms
			"no_headers", // nothing at all
		},
		"stalled_mid": {
			"silent", "comments", // the same after half an answer
		},
		"total_timeout": {
			"drip", // tokens at their pace, at least one every 50 ms, without an end
		},
		"transport": {
			"reset", // the connection is reset before any byte of an answer
			"close", // closed
		},
		"empty": {
			"stop",   // a finish reason, no output
			"blanks", // deltas of no characters, a finish reason
		},
		"truncated": {
			"half", // half an answer, at least the marker and the code words, finish reason length
		},
		"canary_failed": {
			"missing", // the answer without its marker
			"foreign", // with the marker of another request before its own
			"late",    // with its marker after the first word
		},
		"length_mismatch": {
			"short", // the last code word is missing; in place of a single one stands another word
			"long",  // other words stand before the code words
		},
	}
}

// clientOutcomes are those that no server can provoke.
var clientOutcomes = []string{"client_abort", "client_shed", "not_started", "ok"}

// faultPlan says which request gets which fault.
type faultPlan struct {
	at     map[int]fault
	shares []faultShare // by name, so that a map's order has no say
	spread spread
	seen   map[string]int // how often each outcome was injected without naming a variant
}

type faultShare struct {
	fault fault
	below float64 // the sum of all shares up to this one
}

func newFaultPlan(cfg Config) (*faultPlan, error) {
	p := &faultPlan{at: map[int]fault{}, spread: newSpread(cfg.Seed, "faults"), seen: map[string]int{}}
	var errs []error
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(cfg.Faults)) {
		share := cfg.Faults[name]
		f, index, err := parseFault(name)
		switch {
		case err != nil:
		case math.IsNaN(share) || share < 0 || share > 1:
			err = fmt.Errorf("faults: %s: want a share from 0 to 1, got %v", name, share)
		case index >= 0 && share != 1:
			err = fmt.Errorf("faults: %s: a fault of one request has the share 1, got %v", name, share)
		case index >= 0:
			if other, taken := p.at[index]; taken {
				err = fmt.Errorf("faults: %s: request %d already gets %s", name, index, other.Outcome)
			}
			p.at[index] = f
		default:
			sum += share
			p.shares = append(p.shares, faultShare{f, sum})
		}
		errs = append(errs, err)
	}
	if sum > 1+1e-9 {
		errs = append(errs, fmt.Errorf("faults: the shares add up to %v, more than 1", sum))
	}
	return p, errors.Join(errs...)
}

// parseFault reads outcome[.variant][@index]; the index is -1 where there is none.
func parseFault(name string) (f fault, index int, err error) {
	what, at, indexed := strings.Cut(name, "@")
	f.Outcome, f.Variant, _ = strings.Cut(what, ".")
	index = -1
	if indexed {
		if index, err = strconv.Atoi(at); err != nil || index < 0 || strconv.Itoa(index) != at {
			return f, -1, fmt.Errorf("faults: %q: want the number of a request after @", name)
		}
	}
	variants, known := faultVariants()[f.Outcome]
	switch {
	case slices.Contains(clientOutcomes, f.Outcome):
		return f, -1, fmt.Errorf("faults: %q: no server can provoke %s", name, f.Outcome)
	case !known:
		return f, -1, fmt.Errorf("faults: %q: want one of %s", name,
			strings.Join(slices.Sorted(maps.Keys(faultVariants())), ", "))
	case strings.Contains(what, ".") && !slices.Contains(variants, f.Variant):
		return f, -1, fmt.Errorf("faults: %q: want %s.V with V one of %s", name, f.Outcome, strings.Join(variants, ", "))
	}
	return f, index, nil
}

// of returns the fault of the request that arrived as number seq; the zero
// fault is none. It is asked once for each request, in order.
func (p *faultPlan) of(seq int) fault {
	f, ok := p.at[seq]
	if !ok {
		f = p.byShare(p.spread.at(seq))
	}
	if f.Outcome == "" || f.Variant != "" {
		return f
	}
	variants := faultVariants()[f.Outcome]
	f.Variant = variants[p.seen[f.Outcome]%len(variants)]
	p.seen[f.Outcome]++
	return f
}

func (p *faultPlan) byShare(u float64) fault {
	for _, s := range p.shares {
		if u < s.below {
			return s.fault
		}
	}
	return fault{}
}
