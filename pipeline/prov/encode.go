package prov

import (
	"bytes"
	"encoding/json"
)

// encode writes one of our documents: indented by two, no HTML escapes, a
// final newline; struct fields in their order, map keys sorted.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
