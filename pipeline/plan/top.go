package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"anvil/pipeline/stage"
	"anvil/schemas"
)

const (
	topSchema   = "anvil.plan-top/v1"
	stageSchema = "anvil.plan-stage/v1"
	latest      = "latest" // names a run wherever a run is named
)

// readTop checks everything but endpoints and what configures kinds.
func (p *parser) readTop() {
	plain := &scope{params: p.scope.params, env: p.scope.env}
	p.top = make(map[string]any, len(p.root))
	for _, name := range p.places.order {
		v, where := p.root[name], p.places.fields[name]
		switch name {
		case "params", "env", "matrix":
			p.top[name] = v
			if name == "matrix" {
				p.top[name] = p.axesValue(v)
			}
		case "endpoints":
			p.top[name] = shallow(v)
		case "stages":
			p.top[name] = shallow(v)
			p.heads = p.stageHeads(v, where, plain)
		default:
			p.checkReferences(v, where, "/"+name, plain, nil)
			p.top[name] = substitute(v, plain)
		}
	}
	p.check(topSchema, "", p.top)
	p.checkStageHeads()

	p.plan.Name, _ = p.top["name"].(string)
	p.plan.Title, _ = p.top["title"].(string)
	p.plan.Salt, _ = p.top["salt"].(string)
	p.plan.Seed = asInt(p.top["seed"])
	p.plan.Params = p.scope.params
	if p.plan.Name == latest {
		p.problem("/name", `must not be "latest"`, "that word names the newest run")
	} else if why := unsafeName(p.plan.Name); why != "" {
		p.problem("/name", why, "")
	}
	p.checkConditions()
}

// check fills the defaults of doc, the value at prefix, and reports its faults.
func (p *parser) check(id schemas.ID, prefix string, doc map[string]any) {
	faults, err := p.own.check(id, doc)
	p.report(prefix, faults, err)
}

func (p *parser) report(prefix string, faults []schemas.Fault, err error) {
	if err != nil {
		p.problem(prefix, err.Error(), "")
	}
	p.faults(prefix, faults)
}

// shallow keeps of a collection of mappings what the plan's own schema says:
// that they are mappings.
func shallow(v any) any {
	empty := func(e any) any {
		if _, ok := e.(map[string]any); ok {
			return map[string]any{}
		}
		return e
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = empty(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = empty(e)
		}
		return out
	}
	return v
}

// stageHeads returns the stages with references substituted and without what
// stands in "with"; nil for a stage that is no mapping.
func (p *parser) stageHeads(v any, where *place, s *scope) []map[string]any {
	list, _ := v.([]any)
	heads := make([]map[string]any, len(list))
	for i, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			continue
		}
		head := make(map[string]any, len(m)+8)
		for _, name := range where.items[i].order {
			if name == "with" {
				head[name] = m[name]
				if _, ok := m[name].(map[string]any); ok {
					head[name] = map[string]any{}
				}
				continue
			}
			p.checkReferences(m[name], where.items[i].fields[name], "/stages/"+strconv.Itoa(i)+"/"+name, s, nil)
			head[name] = substitute(m[name], s)
		}
		heads[i] = head
	}
	return heads
}

func (p *parser) checkStageHeads() {
	faults, errs := make([][]schemas.Fault, len(p.heads)), make([]error, len(p.heads))
	p.spread(len(p.heads), func(w *worker, i int) {
		if p.heads[i] != nil {
			faults[i], errs[i] = w.check(stageSchema, p.heads[i])
		}
	})
	for i := range p.heads {
		p.report("/stages/"+strconv.Itoa(i), faults[i], errs[i])
	}
}

// asInt reads an integer that the schema has checked, 0 for anything else.
func asInt(v any) int64 {
	n, _ := v.(json.Number)
	i, err := strconv.ParseInt(n.String(), 10, 64)
	if err != nil {
		return 0
	}
	return i
}

var windowsNames = func() map[string]bool {
	m := map[string]bool{"con": true, "prn": true, "aux": true, "nul": true}
	for i := range 10 {
		m[fmt.Sprintf("com%d", i)], m[fmt.Sprintf("lpt%d", i)] = true, true
	}
	return m
}()

// unsafeName says why a slug is no good as a file name everywhere, "" for a
// good one.
func unsafeName(slug string) string {
	stem, _, _ := strings.Cut(strings.ToLower(slug), ".")
	switch {
	case windowsNames[stem]:
		return fmt.Sprintf("%q is a device on Windows and cannot name a file", slug)
	case strings.HasSuffix(slug, "."):
		return "must not end with a dot: Windows drops it"
	}
	return ""
}

// reservedLabels are the conditions that anvil writes itself, from evidence.
var reservedLabels = sync.OnceValue(func() []string { return column("conditions.json", "label") })

// metricIDs are the metrics that a limitation may apply to.
var metricIDs = sync.OnceValue(func() []string { return column("metrics.json", "id") })

// column reads one column of an embedded table; nil where there is no such table.
func column(table, name string) []string {
	src, err := schemas.Table(table)
	if err != nil {
		return nil
	}
	var rows []map[string]any
	if err := json.Unmarshal(src, &rows); err != nil {
		panic(err) // a fault of the build
	}
	values := make([]string, len(rows))
	for i, r := range rows {
		values[i], _ = r[name].(string)
	}
	return values
}

// checkMetric reports a metric that does not exist: a limitation for it would
// say nothing. Rivals' conventions have a dot in their names and no table yet.
func (p *parser) checkMetric(pointer, id string) {
	if id == stage.Every || id == "" || strings.Contains(id, ".") || slices.Contains(metricIDs(), id) {
		return
	}
	hint := `"*" stands for every metric`
	if near, ok := p.ps.near(id, metricIDs); ok {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	p.problem(pointer, fmt.Sprintf("unknown metric %q", id), hint)
}

func (p *parser) checkConditions() {
	list, _ := p.top["conditions"].([]any)
	seen := map[string]bool{}
	for i, c := range list {
		m, _ := c.(map[string]any)
		label, ok := m["label"].(string)
		if !ok {
			continue
		}
		pointer := fmt.Sprintf("/conditions/%d/label", i)
		if slices.ContainsFunc(reservedLabels(), func(l string) bool { return strings.EqualFold(l, label) }) {
			p.problem(pointer, fmt.Sprintf("anvil writes the condition %q itself, from the evidence", label), "leave it out")
		}
		if seen[label] {
			p.problem(pointer, fmt.Sprintf("the condition %q is stated twice", label), "")
		}
		seen[label] = true
	}
}

// readLimitations builds the plan's own limitation set.
func (p *parser) readLimitations() {
	list, _ := p.top["limitations"].([]any)
	var ls []stage.Limitation
	for i, e := range list {
		l := stage.Limitation{Code: "plan.stated", Severity: stage.Caveat, Origin: stage.OriginPlan, AppliesTo: []string{stage.Every}}
		switch e := e.(type) {
		case string:
			l.Text = e
		case map[string]any:
			l.Text, _ = e["text"].(string)
			l.Code, _ = e["code"].(string)
			severity, _ := e["severity"].(string)
			l.Severity = stage.Severity(severity)
			if to, ok := e["applies_to"].([]any); ok {
				l.AppliesTo = nil
				for j, m := range to {
					l.AppliesTo = append(l.AppliesTo, fmt.Sprint(m))
					p.checkMetric(fmt.Sprintf("/limitations/%d/applies_to/%d", i, j), fmt.Sprint(m))
				}
			}
		default:
			continue
		}
		ls = append(ls, l)
	}
	p.plan.Limitations = stage.NewLimitationSet(ls...)
	if p.plan.Limitations == nil {
		p.plan.Limitations = stage.LimitationSet{}
	}
}
