package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Bundle returns the schema as a document that stands alone: every file that it
// refers to, and those that these refer to, is a definition below $defs under the
// file's name, and the references lead there. A validator that knows nothing of
// our files can use it. The text is otherwise that of Source.
func Bundle(id ID) ([]byte, error) {
	root, ok := index()[id]
	if !ok {
		return nil, fmt.Errorf("no schema %q", id)
	}
	b := &bundle{root: root, members: map[string][]member{}}
	if err := b.add(root); err != nil {
		return nil, fmt.Errorf("schema %s: %w", id, err)
	}
	return b.document(), nil
}

// A bundle is a schema with all that it refers to, by file name; every reference
// in it is rewritten already.
type bundle struct {
	root    string
	members map[string][]member
}

// A member is one of a schema's own, its value as it is written.
type member struct {
	name string
	text []byte
}

var fileReference = regexp.MustCompile(`("\$ref":\s*)"([^"#]*)(?:#([^"]*))?"`)

func (b *bundle) add(file string) error {
	if _, done := b.members[file]; done {
		return nil
	}
	src, err := files.ReadFile(file)
	if err != nil {
		return err
	}
	var others []string
	text := fileReference.ReplaceAllFunc(src, func(ref []byte) []byte {
		part := fileReference.FindSubmatch(ref)
		to := string(part[2])
		if to == "" {
			to = file
		} else {
			others = append(others, to)
		}
		return fmt.Appendf(part[1], `"#%s%s"`, b.place(to), part[3])
	})
	if b.members[file], err = members(text); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, other := range others {
		if err := b.add(other); err != nil {
			return err
		}
	}
	return nil
}

// place is where the bundle has a file, as a JSON pointer.
func (b *bundle) place(file string) string {
	if file == b.root {
		return ""
	}
	return "/$defs/" + file
}

// members splits an object, in its order.
func members(text []byte) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	var out []member
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		out = append(out, member{fmt.Sprint(name), value})
	}
	return out, nil
}

// document writes the root with the other files among its definitions.
func (b *bundle) document() []byte {
	own := b.members[b.root]
	if len(b.members) > 1 {
		own = b.withDefinitions(own)
	}
	return append(object(own, ""), '\n')
}

func (b *bundle) withDefinitions(own []member) []member {
	var defs []member
	at := slices.IndexFunc(own, func(m member) bool { return m.name == "$defs" })
	if at >= 0 {
		defs, _ = members(own[at].text) // an object: the schema compiles
	} else {
		at = len(own)
		own = append(own, member{name: "$defs"})
	}
	for _, file := range slices.Sorted(maps.Keys(b.members)) {
		if file != b.root {
			defs = append(defs, member{file, b.definition(file)})
		}
	}
	own[at].text = object(defs, "  ")
	return own
}

// definition is a whole file; only a document's root may name its dialect.
func (b *bundle) definition(file string) []byte {
	below := slices.DeleteFunc(slices.Clone(b.members[file]), func(m member) bool { return m.name == "$schema" })
	for i, m := range below {
		below[i].text = bytes.ReplaceAll(m.text, []byte("\n"), []byte("\n    "))
	}
	return object(below, "    ")
}

func object(ms []member, indent string) []byte {
	lines := make([]string, len(ms))
	for i, m := range ms {
		lines[i] = fmt.Sprintf("%s  %s: %s", indent, AppendString(nil, m.name), m.text)
	}
	return []byte("{\n" + strings.Join(lines, ",\n") + "\n" + indent + "}")
}
