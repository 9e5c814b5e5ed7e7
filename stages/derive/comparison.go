package derive

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gowebpki/jcs"

	"anvil/pipeline/digest"
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
	flatten(conditions, "workload", c.header.Request.Workload)
	flatten(conditions, "sampling", c.header.Request.Sampling)
	m := c.measurement
	if m == nil {
		m = &record.Measurement{}
	}
	maybe("sequence", m.Sequence, m.Sequence != "")
	maybe("cache.state", m.Cache.State, m.Cache.State != "" && m.Cache.State != "unknown")
	maybe("cache.reset", m.Cache.Reset, m.Cache.Reset != "")
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

// flatten writes the members of nested objects under dotted names. Paths of
// files are no conditions: the digest of the prompts is.
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
