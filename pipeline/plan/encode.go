package plan

import (
	"encoding/json"

	"github.com/gowebpki/jcs"

	"anvil/schemas"
)

// encode writes plain values as compact JSON, keys sorted, numbers as they are
// spelt, without HTML escapes.
func encode(v any) json.RawMessage { return schemas.AppendJSON(nil, v) }

// canonical is JSON in the form of RFC 8785, one spelling for one value.
func canonical(text []byte) ([]byte, error) {
	wrapped := append(append([]byte{'['}, text...), ']')
	out, err := jcs.Transform(wrapped)
	if err != nil {
		return nil, err
	}
	return out[1 : len(out)-1], nil
}
