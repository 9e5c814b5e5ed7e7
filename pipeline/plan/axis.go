package plan

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"anvil/schemas"
)

// An axis of the matrix, with its values as written.
type axis struct {
	name   string
	values []any
}

const rep = "rep" // the axis of repetition

// readAxes reads the matrix; its values may name parameters and variables.
func (p *parser) readAxes() {
	matrix, _ := p.root["matrix"].(map[string]any)
	where := p.places.fields["matrix"]
	if where == nil || where.fields == nil {
		return
	}
	s := &scope{params: p.scope.params, env: p.scope.env}
	p.checkReferences(matrix, where, "/matrix", s, nil)
	for _, name := range where.order {
		a := axis{name: name}
		list, _ := matrix[name].([]any)
		seen := map[string]any{}
		for i, v := range list {
			pointer := schemas.Join("/matrix", name, fmt.Sprint(i))
			v = substitute(v, s)
			if !isScalar(v) {
				continue // the schema reports it
			}
			if text, ok := v.(string); ok && strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				p.problem(pointer, "a value of an axis cannot hold control characters: it names a folder", "")
			}
			if first, ok := seen[foldValue(v)]; ok {
				message := fmt.Sprintf("%s stands twice on the axis", quoteScalar(v))
				if scalarText(first) != scalarText(v) {
					message = fmt.Sprintf("%s and %s would share a name", quoteScalar(first), quoteScalar(v))
				}
				p.problem(pointer, message, "")
			} else {
				seen[foldValue(v)] = v
			}
			a.values = append(a.values, v)
		}
		if len(a.values) > 0 {
			p.axes = append(p.axes, a)
		}
	}
	p.scope.axes = p.axisNames()
}

// foldValue is equal for values whose folders some file system takes for one.
func foldValue(v any) string {
	text := scalarText(v)
	if n, ok := asNumber(v); ok {
		if r, ok := new(big.Rat).SetString(n.String()); ok {
			return r.RatString() // 1.0 is 1
		}
	}
	return strings.ToLower(norm.NFC.String(text))
}

func (p *parser) axisNames() []string {
	names := make([]string, len(p.axes))
	for i, a := range p.axes {
		names[i] = a.name
	}
	return names
}

// axesValue is the matrix with references substituted, for the schema.
func (p *parser) axesValue(v any) any {
	return substitute(v, &scope{params: p.scope.params, env: p.scope.env})
}

// checkOrder reports an order that the matrix cannot have.
func (p *parser) checkOrder() {
	if p.top["matrix_order"] != "abba" {
		return
	}
	i := slices.IndexFunc(p.axes, func(a axis) bool { return a.name == rep })
	if len(p.axes) == 2 && i >= 0 && len(p.axes[1-i].values) == 2 {
		return
	}
	p.problem("/matrix_order", "abba needs a matrix of one axis with two values and the axis rep", "")
}
