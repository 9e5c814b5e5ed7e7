package plan

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/gowebpki/jcs"
)

// encode writes plain values as compact JSON, keys sorted, numbers as they are
// spelt, without HTML escapes.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("encode plan value: %v", err)) // plain values always encode
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// canonical is encode in the form of RFC 8785, one spelling for one value.
func canonical(v any) (json.RawMessage, error) {
	return jcs.Transform(encode(v))
}
