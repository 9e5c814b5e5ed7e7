package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"anvil/pipeline/stage"
	"anvil/schemas"
)

// A piece is literal text or one reference.
type piece struct {
	text        string
	space, name string // "params", "base_url"; both empty for text
}

// pieces splits "${params.x} and $${literal}". wrong is empty unless the text
// holds something that looks like a reference and is none.
func pieces(s string) (out []piece, wrong string) {
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			out = append(out, piece{text: text.String()})
			text.Reset()
		}
	}
	for s != "" {
		i := strings.Index(s, "${")
		if i < 0 {
			text.WriteString(s)
			break
		}
		if i > 0 && s[i-1] == '$' {
			text.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			return nil, "${ without its }"
		}
		ref := s[i+2 : i+end]
		space, name, ok := strings.Cut(ref, ".")
		if !ok || name == "" {
			return nil, fmt.Sprintf("${%s} is no reference", ref)
		}
		text.WriteString(s[:i])
		flush()
		out = append(out, piece{space: space, name: name})
		s = s[i+end+1:]
	}
	flush()
	return out, ""
}

// A scope is what references may name where a text stands.
type scope struct {
	params map[string]any
	env    map[string]any // null for a variable that is not set
	cell   stage.Cell
	axes   []string // that a reference may name here; nil where the matrix has no meaning
}

func (s *scope) lookup(p piece) (any, bool) {
	switch p.space {
	case "params":
		v, ok := s.params[p.name]
		return v, ok
	case "env":
		v, ok := s.env[p.name]
		return v, ok
	case "matrix":
		for _, a := range s.cell {
			if a.Axis == p.name {
				return a.Value, true
			}
		}
	}
	return nil, false
}

// knows tells whether a reference names something where the text stands.
func (s *scope) knows(p piece) bool {
	ok := false
	switch p.space {
	case "params":
		_, ok = s.params[p.name]
	case "env":
		_, ok = s.env[p.name]
	case "matrix":
		ok = slices.Contains(s.axes, p.name)
	}
	return ok
}

// complain says what is wrong with a reference, "" for nothing.
func (s *scope) complain(p piece, ps *problems) (message, hint string) {
	names := map[string]func() []string{
		"params": func() []string { return keys(s.params) },
		"env":    func() []string { return keys(s.env) },
		"matrix": func() []string { return s.axes },
	}[p.space]
	switch {
	case names == nil:
		return fmt.Sprintf("${%s.%s} names nothing", p.space, p.name), "${params.NAME}, ${matrix.AXIS} and ${env.NAME} are references; $${ writes a literal ${"
	case p.space == "matrix" && s.axes == nil:
		return fmt.Sprintf("${matrix.%s} has no meaning here", p.name), "the matrix multiplies stages: name it in a stage's with or in an endpoint"
	case p.space == "params" && s.params == nil:
		return fmt.Sprintf("${params.%s} has no meaning here", p.name), ""
	case s.knows(p):
		if v, ok := s.env[p.name]; p.space == "env" && ok && v == nil {
			return fmt.Sprintf("the environment variable %s is not set", p.name), "export " + p.name + "=..."
		}
		return "", ""
	}
	message = map[string]string{
		"params": fmt.Sprintf("unknown parameter %q", p.name),
		"env":    fmt.Sprintf("the variable %q is not in the plan's env list", p.name),
		"matrix": fmt.Sprintf("unknown axis %q", p.name),
	}[p.space]
	if near, ok := ps.near(p.name, names); ok {
		return message, fmt.Sprintf("did you mean ${%s.%s}?", p.space, near)
	}
	if p.space == "env" {
		return message, "add it to env, unless it is a secret"
	}
	return message, ""
}

// checkReferences reports every reference below v that names nothing, once,
// and marks its place. It returns the axes that are named, in no order.
func (p *parser) checkReferences(v any, where *place, pointer string, s *scope, axes map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range where.order {
			p.checkReferences(v[name], where.fields[name], schemas.Join(pointer, name), s, axes)
		}
	case []any:
		for i, e := range v {
			p.checkReferences(e, where.items[i], schemas.Join(pointer, fmt.Sprint(i)), s, axes)
		}
	case string:
		if !strings.Contains(v, "${") || where.bad {
			return
		}
		parts, wrong := pieces(v)
		if wrong != "" {
			p.problem(pointer, wrong, "$${ writes a literal ${")
			where.bad = true
		}
		bad := where.bad
		for _, part := range parts {
			if part.space == "" {
				continue
			}
			message, hint := s.complain(part, &p.ps)
			if x, _ := s.lookup(part); message == "" && x == nil && len(parts) > 1 && part.space != "matrix" {
				message = fmt.Sprintf("${%s.%s} is null, which has no text", part.space, part.name)
			}
			if message != "" {
				p.problem(pointer, message, hint)
				bad = true
			} else if part.space == "matrix" && axes != nil {
				axes[part.name] = true
			}
		}
		where.bad = bad
	}
}

// retypeHint is the hint of a fault. A value of the wrong type that came by a
// reference cannot be written otherwise where it stands: what it names decides.
func (p *parser) retypeHint(pointer string, f schemas.Fault) string {
	parts, wrong := pieces(p.written(pointer))
	if !f.WrongType() || wrong != "" || !slices.ContainsFunc(parts, func(x piece) bool { return x.space != "" }) {
		return f.Hint
	}
	const ofEnv = "what the environment holds is text: declare a parameter, which is of the type of its default, and --set it"
	switch x := parts[0]; {
	case len(parts) > 1:
		return "a reference with text around it is text: write the reference alone, to a parameter or an axis that holds the whole value"
	case x.space == "env":
		return ofEnv
	case x.space == "params" && strings.Contains(p.written(schemas.Join("/params", x.name)), "${"):
		return ofEnv
	case f.Hint == "":
		return ""
	case x.space == "params":
		return fmt.Sprintf("%s where parameter %q has its default", f.Hint, x.name)
	default:
		return fmt.Sprintf("%s in the axis %q", f.Hint, x.name)
	}
}

// substitute returns a copy of v in which every reference is replaced. A text
// that is one reference alone keeps the value's type. What checkReferences has
// reported stays as it is.
func substitute(v any, s *scope) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v)+8)
		for k, e := range v {
			m[k] = substitute(e, s)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = substitute(e, s)
		}
		return list
	case string:
		if strings.Contains(v, "${") {
			return substituteText(v, s)
		}
	}
	return v
}

func substituteText(text string, s *scope) any {
	parts, wrong := pieces(text)
	if wrong != "" {
		return text
	}
	if len(parts) == 1 && parts[0].space != "" {
		if v, ok := s.lookup(parts[0]); ok {
			return v
		}
		return text
	}
	var b strings.Builder
	for _, part := range parts {
		if part.space == "" {
			b.WriteString(part.text)
			continue
		}
		v, ok := s.lookup(part)
		if !ok {
			return text
		}
		b.WriteString(scalarText(v))
	}
	return b.String()
}

// scalarText writes a parameter or the value of an axis as text.
func scalarText(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return fmt.Sprint(v)
}
