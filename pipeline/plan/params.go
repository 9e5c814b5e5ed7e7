package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// readParams resolves the parameters: the plan's defaults, under them a base
// run's values, under these what the command line sets.
func (p *parser) readParams() {
	p.scope.env = p.readEnv()
	defaults, _ := p.root["params"].(map[string]any)
	p.scope.params = make(map[string]any, len(defaults))
	if where := p.places.fields["params"]; where != nil && where.fields != nil {
		// A default may name an environment variable, never another parameter.
		p.checkReferences(defaults, where, "/params", &scope{env: p.scope.env}, nil)
	}
	for name, v := range defaults {
		if !isScalar(v) {
			v = nil // the schema reports it
		}
		v = substitute(v, &scope{env: p.scope.env})
		p.scope.params[name] = v
		base, ok := p.opt.Params[name]
		if !ok {
			continue
		}
		if n, ok := asNumber(base); ok {
			base = n
		}
		if !sameType(v, base) {
			p.problem("/params/"+name, fmt.Sprintf("the base run has %s, which is not %s", quoteScalar(base), typeOf(v)), "set it by --set "+name+"=...")
			continue
		}
		p.scope.params[name] = base
	}
	for _, name := range keys(p.opt.Set) {
		def, ok := defaults[name]
		if !ok {
			p.flag(name, "unknown parameter", p.meant(name, "the plan has no parameters", func() []string { return keys(defaults) }))
			continue
		}
		v, wrong := typed(p.opt.Set[name], substitute(def, &scope{env: p.scope.env}))
		if wrong != "" {
			p.flag(name, wrong, "its default is "+quoteScalar(def))
			continue
		}
		p.scope.params[name] = v
	}
}

// flag reports a fault of --set.
func (p *parser) flag(name, message, hint string) {
	p.ps.add(Problem{Pos: Pos{File: FlagSet, Line: 1, Column: 1}, Path: "params." + name, Message: message, Hint: hint})
}

// readEnv looks up the variables that the plan declares; one that is not set
// is null.
func (p *parser) readEnv() map[string]any {
	names, _ := p.root["env"].([]any)
	env := make(map[string]any, len(names))
	for _, n := range names {
		name, ok := n.(string)
		if !ok {
			continue
		}
		env[name] = nil
		if p.opt.Getenv != nil {
			if v, ok := p.opt.Getenv(name); ok {
				env[name] = v
			}
		}
	}
	return env
}

func isScalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// typed reads the text of --set as the type of the default.
func typed(text string, def any) (v any, wrong string) {
	switch d := def.(type) {
	case nil:
		if text == "null" {
			return nil, ""
		}
	case bool:
		if text != "true" && text != "false" {
			return nil, fmt.Sprintf("%q is not true or false", text)
		}
		return text == "true", ""
	case json.Number:
		whole := integerText.MatchString(d.String())
		switch {
		case integerText.MatchString(text) && text != "-0":
			if !exactInteger(text) {
				return nil, text + " is beyond ±(2^53-1)"
			}
			return json.Number(text), ""
		case whole:
			return nil, fmt.Sprintf("%q is not an integer", text)
		case fractionText.MatchString(text):
			return json.Number(text), ""
		}
		return nil, fmt.Sprintf("%q is not a plain decimal number", text)
	}
	return text, ""
}

func sameType(def, v any) bool {
	switch d := def.(type) {
	case nil:
		_, text := v.(string)
		return v == nil || text
	case string:
		_, ok := v.(string)
		return ok
	case bool:
		_, ok := v.(bool)
		return ok
	case json.Number:
		n, ok := v.(json.Number)
		return ok && (!integerText.MatchString(d.String()) || integerText.MatchString(n.String()))
	}
	return false
}

// asNumber takes a base run's number, however its reader gave it.
func asNumber(v any) (json.Number, bool) {
	switch v.(type) {
	case float64, float32, int, int64, int32, uint64, json.Number:
		b, err := json.Marshal(v)
		return json.Number(b), err == nil
	}
	return "", false
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "text or null"
	case bool:
		return "true or false"
	case json.Number:
		if integerText.MatchString(v.String()) {
			return "an integer"
		}
		return "a number"
	}
	return "text"
}

func quoteScalar(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
