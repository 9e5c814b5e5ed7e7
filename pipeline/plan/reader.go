package plan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"gopkg.in/yaml.v3"
)

// A reader turns the bytes of a plan into plain values (maps, slices, strings,
// booleans, json.Number, nil) and the places where they stand.
type reader struct {
	file string
	ps   *problems

	path     []string            // of the value at hand, dotted parts
	open     map[*yaml.Node]bool // anchors that are being expanded
	aliases  int                 // how many aliases lie around the value at hand
	expanded int                 // values that stand where an alias does
	full     bool                // the cap on expanded values was reported
}

// maxExpanded is how many values aliases and merge keys may stand for in all.
const maxExpanded = 50_000

func (r *reader) at(line, column int, path, message, hint string) {
	r.ps.add(Problem{Pos: Pos{File: r.file, Line: line, Column: column}, Path: path, Message: message, Hint: hint})
}

func (r *reader) here(n *yaml.Node, message, hint string) {
	if r.ps.full() {
		r.ps.dropped++
		return
	}
	r.at(max(n.Line, 1), max(n.Column, 1), strings.TrimPrefix(strings.Join(r.path, ""), "."), message, hint)
}

// read returns the plan's value; ok is false when there is none to work on.
func (r *reader) read(src []byte) (root map[string]any, where *place, ok bool) {
	if !r.checkText(src) {
		return nil, nil, false
	}
	node := r.parse(src)
	if node == nil {
		return nil, nil, false
	}
	r.open = map[*yaml.Node]bool{}
	v, where := r.value(node, 0)
	if v == nil && !where.bad {
		r.at(1, 1, "", "the plan is empty", "a plan begins with: schema: anvil.plan/v1")
		return nil, nil, false
	}
	root, ok = v.(map[string]any)
	if !ok && !where.bad {
		r.here(node, "a plan must be a mapping", "a plan begins with: schema: anvil.plan/v1")
	}
	return root, where, ok
}

// parse returns the node of the one document, nil when there is none.
func (r *reader) parse(src []byte) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(src))
	doc, err := decode(dec)
	switch {
	case errors.Is(err, io.EOF):
		r.at(1, 1, "", "the plan is empty", "a plan begins with: schema: anvil.plan/v1")
		return nil
	case err != nil:
		r.syntax(src, err)
		return nil
	}
	switch second, err := decode(dec); {
	case err == nil:
		r.at(max(second.Line, 1), max(second.Column, 1), "", "a second document begins here", "one file holds one plan")
	case !errors.Is(err, io.EOF):
		r.syntax(src, err)
	}
	if len(doc.Content) == 0 {
		return nil
	}
	return doc.Content[0]
}

// decode reads one document. The library's own bugs show as panics; none of
// them may reach a user.
func decode(dec *yaml.Decoder) (doc *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: %v", p)
		}
	}()
	doc = new(yaml.Node)
	err = dec.Decode(doc)
	return doc, err
}

// value returns the plain value of a node and where it stands.
func (r *reader) value(n *yaml.Node, depth int) (any, *place) {
	p := &place{at: spot{max(n.Line, 1), max(n.Column, 1)}}
	p.key = p.at
	if depth > maxDepth {
		r.here(n, fmt.Sprintf("nested more than %d deep", maxDepth), "")
		p.bad = true
		return nil, p
	}
	if r.aliases > 0 {
		if r.expanded++; r.expanded > maxExpanded {
			if !r.full {
				r.here(n, fmt.Sprintf("aliases stand for more than %d values", maxExpanded), "write less of the plan by aliases")
			}
			r.full, p.bad = true, true
			return nil, p
		}
	}
	switch n.Kind {
	case yaml.AliasNode:
		return r.alias(n, p, depth)
	case yaml.MappingNode:
		if r.tagged(n, p) {
			return nil, p
		}
		return r.mapping(n, p, depth), p
	case yaml.SequenceNode:
		if r.tagged(n, p) {
			return nil, p
		}
		list := make([]any, len(n.Content))
		p.items = make([]*place, len(n.Content))
		for i, c := range n.Content {
			r.path = append(r.path, "["+strconv.Itoa(i)+"]")
			list[i], p.items[i] = r.value(c, depth+1)
			r.path = r.path[:len(r.path)-1]
		}
		return list, p
	case yaml.ScalarNode:
		v, wrong, hint := scalar(n)
		if wrong != "" {
			r.here(n, wrong, hint)
			p.bad = true
		}
		return v, p
	case yaml.DocumentNode:
	}
	return nil, p // the library makes no node of another kind below a document
}

func (r *reader) tagged(n *yaml.Node, p *place) bool {
	if n.Style&yaml.TaggedStyle == 0 {
		return false
	}
	r.here(n, "tag "+n.Tag+" is not allowed", "leave the tag out")
	p.bad = true
	return true
}

// alias returns what the anchor has; the place is that of the alias, those
// below it the anchor's.
func (r *reader) alias(n *yaml.Node, p *place, depth int) (any, *place) {
	if r.open[n.Alias] || r.full {
		if !r.full {
			r.here(n, fmt.Sprintf("alias *%s stands inside its own anchor", n.Value), "")
		}
		p.bad = true
		return nil, p
	}
	r.open[n.Alias] = true
	r.aliases++
	v, q := r.value(n.Alias, depth+1)
	r.aliases--
	delete(r.open, n.Alias)
	q.at, q.key = p.at, p.at
	return v, q
}

func (r *reader) mapping(n *yaml.Node, p *place, depth int) any {
	r.open[n] = true // an alias to the mapping inside itself never ends
	defer delete(r.open, n)
	m := make(map[string]any, len(n.Content)/2)
	p.fields = make(map[string]*place, len(n.Content)/2)
	var merges []*yaml.Node
	var merged *yaml.Node
	normal := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if isMerge(k) {
			if merged != nil {
				r.here(k, `duplicate key "<<"`, fmt.Sprintf("first at line %d; merge several by a list", merged.Line))
			}
			merged = k
			merges = append(merges, v)
			continue
		}
		name, ok := r.key(k)
		if !ok {
			continue
		}
		r.path = append(r.path, dottedKey(name))
		if first, ok := p.fields[name]; ok {
			r.here(k, fmt.Sprintf("duplicate key %q", name), fmt.Sprintf("first at line %d", first.key.line))
			r.value(v, depth+1) // for what is wrong inside it
		} else {
			if other, ok := sameLetters(normal, name); ok {
				r.here(k, fmt.Sprintf("key %+q differs from %+q in its Unicode form only", name, other), "write one of them")
			}
			var child *place
			m[name], child = r.value(v, depth+1)
			child.key = spot{max(k.Line, 1), max(k.Column, 1)}
			p.fields[name] = child
			p.order = append(p.order, name)
		}
		r.path = r.path[:len(r.path)-1]
	}
	for _, v := range merges {
		r.merge(v, m, p, depth)
	}
	return m
}

func isMerge(k *yaml.Node) bool {
	return k.Kind == yaml.ScalarNode && k.Value == "<<" && k.Style == 0
}

func dottedKey(name string) string {
	if plainKey.MatchString(name) {
		return "." + name
	}
	return "[" + strconv.Quote(name) + "]"
}

// sameLetters finds a key that looks the same and has other bytes.
func sameLetters(seen map[string]string, name string) (string, bool) {
	if isASCII(name) {
		return "", false
	}
	form := norm.NFC.String(name)
	other, ok := seen[form]
	seen[form] = name
	return other, ok
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// key returns the text of a key. Integers are fine: context sizes are keys.
func (r *reader) key(k *yaml.Node) (string, bool) {
	if k.Kind != yaml.ScalarNode {
		r.here(k, "a key must be plain text", "")
		return "", false
	}
	v, wrong, hint := scalar(k)
	if _, isText := v.(string); wrong == "" && !isText && !integerText.MatchString(k.Value) {
		wrong, hint = fmt.Sprintf("key %q is no text", k.Value), "write "+strconv.Quote(k.Value)
	}
	if wrong == "" && strings.Contains(k.Value, "${") {
		wrong, hint = "a key cannot hold a reference", "references stand in values"
	}
	if wrong != "" {
		r.here(k, wrong, hint)
		return "", false
	}
	return k.Value, true
}

// merge adds the keys of a merged mapping that are not written out. Of several
// the first wins.
func (r *reader) merge(v *yaml.Node, m map[string]any, p *place, depth int) {
	r.path = append(r.path, ".<<")
	defer func() { r.path = r.path[:len(r.path)-1] }()
	sources := []*yaml.Node{v}
	if v.Kind == yaml.SequenceNode {
		sources = v.Content
	}
	for _, s := range sources {
		r.aliases++
		value, from := r.value(s, depth+1)
		r.aliases--
		more, ok := value.(map[string]any)
		if !ok {
			if !from.bad {
				r.here(s, "only a mapping can be merged", "<<: *anchor")
			}
			continue
		}
		for _, name := range from.order {
			if _, ok := p.fields[name]; !ok {
				m[name] = more[name]
				p.fields[name] = from.fields[name]
				p.order = append(p.order, name)
			}
		}
	}
}
