package derive

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gowebpki/jcs"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// claims of the deployment block that two cells must share before their
// figures may be compared.
var claims = []string{
	"revision", "variant", "quantization", "hardware", "device_ids", "gpu_count", "node_count", "runtime",
	"runtime_version", "runtime_image", "flags_sha256", "template_sha256", "context_limit",
}

// compare states what must be equal before this cell may be compared with
// another one (records.md 7). A fact that is unknown blocks; null alone may
// also mean that something is known to be absent, as a parameter not sent is.
func (c *cell) compare(config SummarizeConfig, f facts) {
	conditions, unknown := map[string]any{}, []string{}
	known := func(name string, v any) { conditions[name] = v }
	maybe := func(name string, v any, ok bool) {
		if conditions[name] = v; !ok {
			conditions[name] = nil
			unknown = append(unknown, name)
		}
	}
	known("requests", c.tally.planned)
	known("eligible", c.tally.planned > 0 && c.tally.succeeded() == c.tally.planned)
	known("endpoint.api", c.header.Endpoint.API)
	known("endpoint.model", c.header.Endpoint.Model)
	known("stamps", c.header.Stamps)
	known("protocol", c.header.Request.Protocol)
	known("max_tokens", c.header.Request.MaxTokens)
	known("prompts_sha256", c.prompts)
	known("quantile", config.Quantile)
	flatten(conditions, "load", c.header.Load)
	if c.open() {
		due, ok := c.arrivals.digest()
		maybe("load.arrivals_sha256", due, ok)
	}
	flatten(conditions, "workload", c.header.Request.Workload)
	flatten(conditions, "sampling", c.header.Request.Sampling)
	known("extra_body", c.header.Request.ExtraBody)
	m := c.measurement
	if m == nil {
		m = &record.Measurement{}
	}
	maybe("sequence", m.Sequence, m.Sequence != "")
	maybe("cache.state", m.Cache.State, m.Cache.State != "" && m.Cache.State != "unknown")
	maybe("cache.reset", m.Cache.Reset, m.Cache.Reset != "")
	share := c.tally.cachedShare(0)
	maybe("cache.measured_share", hundredths(share.value), share.reason == "")
	maybe("contract", c.contract, c.contract != nil)
	maybe("served_window", m.ServedWindow, m.ServedWindow != nil)
	o := observe(f, []*cell{c})
	maybe("engine.name", o.Engine, o.Engine != nil)
	maybe("engine.build", o.Version, o.Version != nil)
	maybe("weights.manifest_sha256", o.Weights.ManifestSHA256, o.Weights.ManifestSHA256 != nil)
	for _, name := range claims {
		maybe("deployment."+name, config.Deployment[name], config.Deployment[name] != nil)
	}
	c.out.Comparison = comparison(conditions, unknown)
}

func comparison(conditions map[string]any, unknown []string) record.Comparison {
	slices.Sort(unknown)
	out := record.Comparison{Conditions: conditions, Unknown: unknown}
	if len(unknown) > 0 {
		out.KeyReason = new(fmt.Sprintf("%s unknown: %s", plural(len(unknown), "condition"), strings.Join(unknown, ", ")))
		return out
	}
	d, err := canonicalDigest(conditions)
	if err != nil {
		out.KeyReason = new("the conditions have no canonical form: " + err.Error())
		return out
	}
	out.Key = &d
	return out
}

// hundredths is a measured share as a condition: unlike cache states are tens of
// them apart (records.md 8, number 3), and no two phases agree to the last digit.
func hundredths(share float64) float64 { return math.Round(share*100) / 100 }

// firstContract is the contract of every measurement whose document does not
// name one: measure has had no other.
const firstContract = 1

// readContract takes from measurement.json under which contract of measure the
// figures came about.
func (c *cell) readContract(ctx context.Context, measurement stage.Artifact) error {
	m, err := stage.Decode[struct {
		Contract *int `json:"contract"`
	}](ctx, measurement)
	if c.contract = m.Contract; c.contract == nil {
		c.contract = new(firstContract)
	}
	return err
}

// arrivals are the moments at which an open loop wanted to send, of whatever
// process or trace: of a trace the load names a file and no more.
type arrivals struct {
	due     map[int]int64
	unknown bool
}

func (r *arrivals) add(a *record.Attempt) {
	due := a.T.Due
	if len(a.Tries) > 0 {
		due = a.Tries[0].T.Due // that of the last try is when it was tried again
	}
	switch {
	case due == nil:
		r.unknown = true
	case r.due == nil:
		r.due = map[int]int64{a.Index: *due}
	default:
		r.due[a.Index] = *due
	}
}

// digest is the SHA-256 of the moments in order of index, ns, a line each.
func (r *arrivals) digest() (digest.Digest, bool) {
	h := sha256.New()
	for i := range len(r.due) {
		fmt.Fprintf(h, "%d\n", r.due[i])
	}
	return digest.Digest(h.Sum(nil)), !r.unknown
}

// open tells whether the load is an open loop.
func (c *cell) open() bool {
	load, _ := c.header.Load.(map[string]any)
	return load["mode"] == "open"
}

// flatten writes the members of nested objects under dotted names. Paths of
// files are no conditions: the digests of the prompts and of the arrivals are.
func flatten(into map[string]any, name string, v any) {
	object, ok := v.(map[string]any)
	if !ok {
		into[name] = v
		return
	}
	for key, member := range object {
		if key != "file" && key != "pacing" {
			flatten(into, name+"."+key, member)
		}
	}
}

// canonicalDigest is the SHA-256 of the JCS form of v.
func canonicalDigest(v any) (digest.Digest, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return digest.Digest{}, err
	}
	canonical, err := jcs.Transform(raw)
	if err != nil {
		return digest.Digest{}, err
	}
	return digest.FromBytes(canonical), nil
}
