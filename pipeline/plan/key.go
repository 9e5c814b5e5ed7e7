package plan

import (
	"encoding/json"
	"slices"
	"strconv"

	"anvil/schemas"
)

// A codec checks and writes the configurations of one kind. What was found of
// the value of a key is kept: the children of a matrix share most of them.
type codec struct {
	*schemas.Checker
	id    schemas.ID
	parts map[string]codedPart
	text  []byte // room for the next key of parts

	whole, keyed int // lengths of the last configuration: the next is about as long
}

// A codedPart is one key of a configuration, in the two forms in which it is
// written.
type codedPart struct {
	key   []byte // canonical, less what stays out of the key; nil when all of it does
	marks []schemas.Mark
}

func newCodec(id schemas.ID) (*codec, error) {
	c, err := schemas.NewChecker(id)
	if err != nil {
		return nil, err
	}
	return &codec{Checker: c, id: id, parts: map[string]codedPart{}}, nil
}

// write returns the configuration as a stage takes it, and what of it enters
// the stage's key: less what its schema marks as cosmetic or as policy, and
// less paths of files, which enter by digest.
func (c *codec) write(with map[string]any) (whole, key json.RawMessage, marks []schemas.Mark, err error) {
	if !c.InParts() {
		whole = encode(with)
		p, err := c.part("", with, whole, func() []schemas.Mark { return c.Marked(with) })
		return whole, p.key, p.marks, err
	}
	whole, key = append(make([]byte, 0, c.whole), '{'), append(make([]byte, 0, c.keyed), '{')
	for _, name := range keys(with) {
		if len(whole) > 1 {
			whole = append(whole, ',')
		}
		whole = append(schemas.AppendString(whole, name), ':')
		at := len(whole)
		whole = schemas.AppendJSON(whole, with[name])
		p, err := c.part(name, with[name], whole[at:], func() []schemas.Mark { return c.MarkedUnder(name, with[name]) })
		if err != nil {
			return nil, nil, nil, err
		}
		marks = append(marks, p.marks...)
		if p.key == nil {
			continue
		}
		if len(key) > 1 {
			key = append(key, ',')
		}
		key = append(schemas.AppendString(key, name), ':')
		key = append(key, p.key...)
	}
	whole, key = append(whole, '}'), append(key, '}')
	c.whole, c.keyed = len(whole), len(key)
	return whole, key, marks, nil
}

func (c *codec) part(name string, v any, text []byte, mark func() []schemas.Mark) (codedPart, error) {
	c.text = append(append(append(c.text[:0], name...), 0), text...)
	if p, ok := c.parts[string(c.text)]; ok {
		return p, nil
	}
	id := string(c.text)
	marks := mark()
	p := codedPart{marks: marks}
	pointer := ""
	if name != "" {
		pointer = schemas.Join("", name)
	}
	switch drop := dropped(marks); {
	case drop[pointer]:
	case len(drop) == 0 && plainlyCanonical(v):
		p.key = []byte(id[len(name)+1:])
	default:
		text, err := canonicalOf(without(v, pointer, drop))
		if err != nil {
			return codedPart{}, err
		}
		p.key = text
	}
	c.parts[id] = p
	return p, nil
}

// dropped are the pointers that stay out of the key.
func dropped(marks []schemas.Mark) map[string]bool {
	drop := map[string]bool{}
	for _, m := range marks {
		if m.Marks.Key != schemas.Semantic || m.Marks.File {
			drop[m.Pointer] = true
		}
		if _, ok := m.Value.(map[string]any); ok && m.Marks.Endpoint {
			drop[m.Pointer+"/tls/ca_file"] = true
		}
	}
	return drop
}

func without(v any, pointer string, drop map[string]bool) any {
	if len(drop) == 0 {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for name, e := range v {
			if at := schemas.Join(pointer, name); !drop[at] {
				m[name] = without(e, at, drop)
			}
		}
		return m
	case []any:
		list := slices.Clone(v)
		for i, e := range list {
			if at := schemas.Join(pointer, strconv.Itoa(i)); drop[at] {
				list[i] = nil // its place tells the others' places
			} else {
				list[i] = without(e, at, drop)
			}
		}
		return list
	}
	return v
}
