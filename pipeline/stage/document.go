package stage

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// MarshalDocument encodes v, whose JSON is an object, with the limitation set
// as its last member: indent 2, no HTML escapes, a final newline.
func MarshalDocument(v any, set LimitationSet) ([]byte, error) {
	if set == nil {
		set = LimitationSet{}
	}
	head, err := marshalPlain(v)
	if err != nil {
		return nil, err
	}
	head = bytes.TrimSpace(head)
	if len(head) < 2 || head[0] != '{' || head[len(head)-1] != '}' {
		return nil, fmt.Errorf("a document must be a JSON object, got %.20q", head)
	}
	tail, err := marshalPlain(set)
	if err != nil {
		return nil, err
	}
	joined := append(bytes.Clone(head[:len(head)-1]), ',')
	if len(head) == 2 {
		joined = joined[:1]
	}
	joined = append(joined, `"limitations":`...)
	joined = append(append(joined, bytes.TrimSpace(tail)...), '}')
	var out bytes.Buffer
	if err := json.Indent(&out, joined, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func marshalPlain(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
