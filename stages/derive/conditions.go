package derive

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"sync"

	"anvil/schemas"
	"anvil/stages/record"
)

// ConditionLabels returns the labels of conditions that anvil writes itself
// (schemas/conditions.json); a plan that writes one is wrong.
var ConditionLabels = sync.OnceValue(func() []string {
	src, err := schemas.Table("conditions.json")
	if err != nil {
		panic(err)
	}
	var rows []struct {
		Label string `json:"label"`
	}
	if err := json.Unmarshal(src, &rows); err != nil {
		panic(err)
	}
	return mapOf(rows, func(r struct {
		Label string `json:"label"`
	},
	) string {
		return r.Label
	})
})

// ownConditions writes one condition for each label of the table.
func ownConditions(f facts, cells []*cell) []record.Condition {
	values := map[string]string{
		"Cache state":         perCell(cells, cacheState),
		"Correctness scorer":  perCell(cells, scorer),
		"Dataset SHA-256":     perCell(cells, datasetDigest),
		"Measurement path":    perCell(cells, measurementPath),
		"Peak-overlap basis":  perCell(cells, peakBasis),
		"Request settings":    perCell(cells, requestSettings),
		"Stamp source":        perCell(cells, stampSource),
		"Weight verification": weightVerification(f.weights),
	}
	out := make([]record.Condition, 0, len(values))
	for _, label := range ConditionLabels() {
		out = append(out, record.Condition{Label: label, Value: values[label]})
	}
	return out
}

// perCell states a fact once where all cells agree, else for each.
func perCell(cells []*cell, fact func(*cell) string) string {
	first := fact(cells[0])
	same := true
	parts := make([]string, len(cells))
	for i, c := range cells {
		value := fact(c)
		same = same && value == first
		parts[i] = c.out.ID + ": " + value
	}
	if same {
		return first
	}
	return strings.Join(parts, " | ")
}

func cacheState(c *cell) string {
	m := c.measurement
	if m == nil {
		return "Not recorded"
	}
	return fmt.Sprintf("declared %s; sequence %s; reset %s", m.Cache.State, m.Sequence, m.Cache.Reset)
}

func scorer(c *cell) string {
	if c.grades == nil {
		return "Not graded"
	}
	var graders []struct{ ID, Type string }
	if err := json.Unmarshal(c.grades.header.Graders, &graders); err != nil {
		return "Not recorded"
	}
	names := make([]string, len(graders))
	for i, g := range graders {
		names[i] = g.ID + " (" + g.Type + ")"
	}
	return fmt.Sprintf("%s; specification %s", strings.Join(names, ", "), c.grades.header.SpecSHA256)
}

func datasetDigest(c *cell) string {
	if c.grades == nil {
		return "Not recorded; nothing was graded"
	}
	return c.grades.header.DatasetSHA256.String()
}

// measurementPath reads no meaning out of a name: only an address that is
// spelled as one is called loopback.
func measurementPath(c *cell) string {
	base := c.header.Endpoint.BaseURL
	if base == nil {
		return "Embedded engine over loopback HTTP in the client's own process"
	}
	u, err := url.Parse(*base)
	if err != nil {
		return "Not recorded"
	}
	protocol := "HTTP"
	if m := c.measurement; m != nil && m.Connections.Protocol != "" {
		protocol = m.Connections.Protocol
		if m.Connections.TLS != nil {
			protocol += " over " + *m.Connections.TLS
		}
	}
	place := "a network address"
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && addr.IsLoopback() || u.Hostname() == "localhost" {
		place = "a loopback address"
	}
	return fmt.Sprintf("%s to %s; what lies behind it is not observed", protocol, place)
}

func peakBasis(c *cell) string {
	if reason := c.tally.unknownSpans(); reason != "" {
		return "Not recorded; " + reason
	}
	return fmt.Sprintf("Client request spans from start to end on one monotonic clock, %s", plural(len(c.tally.spans), "span"))
}

// requestSettings lists what was sent with every request; what was not sent is
// left out.
func requestSettings(c *cell) string {
	r := c.header.Request
	parts := []string{fmt.Sprintf("completion cap %d tokens", r.MaxTokens), "protocol " + r.Protocol}
	sampling, ok := r.Sampling.(map[string]any)
	if !ok || r.Protocol == "" {
		return "Not recorded"
	}
	for _, name := range sortedKeys(sampling) {
		value, err := json.Marshal(sampling[name])
		if err != nil || sampling[name] == nil || name == "temperature_requested" {
			continue
		}
		parts = append(parts, strings.ReplaceAll(name, "_", " ")+" "+strings.Trim(string(value), `"`))
	}
	if extra, err := json.Marshal(r.ExtraBody); err == nil && r.ExtraBody != nil {
		parts = append(parts, "extra body "+string(extra))
	}
	return strings.Join(parts, "; ")
}

func stampSource(c *cell) string {
	switch c.header.Stamps {
	case "kernel":
		return "Kernel receive time"
	case "kernel_tls":
		return "Kernel receive time of the last read before the plaintext came out"
	case "user":
		return "Return of the client's read"
	}
	return "Not recorded"
}
