package plan

import (
	"encoding/json"
	"slices"
	"strconv"

	"anvil/schemas"
)

// keyConfig is what of a resolved configuration enters the stage's key: less
// what its schema marks as cosmetic or as policy, and less paths of files,
// which enter by digest. It copies only what lies on the way to a key that
// goes.
func keyConfig(with map[string]any, marks []schemas.Mark) (json.RawMessage, error) {
	drop := map[string]bool{}
	for _, m := range marks {
		if m.Marks.Key != schemas.Semantic || m.Marks.File {
			drop[m.Pointer] = true
		}
		if _, ok := m.Value.(map[string]any); ok && m.Marks.Endpoint {
			drop[m.Pointer+"/tls/ca_file"] = true
		}
	}
	return canonical(without(with, "", drop))
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
