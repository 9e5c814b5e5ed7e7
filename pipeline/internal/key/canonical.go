package key

import (
	"strconv"

	"anvil/pipeline/digest"
)

// OfCanonical is Of for a spec whose Config is canonical JSON already, as a
// resolved plan has it: a plan of a thousand stages needs a thousand keys, and
// sorting each configuration again is most of the cost.
func OfCanonical(spec Spec) (digest.Digest, error) {
	b := make([]byte, 0, 256+len(spec.Config)+320*len(spec.Inputs))
	b = append(b, `{"config":`...)
	b = append(b, spec.Config...)
	b = append(b, `,"contract":`...)
	b = strconv.AppendInt(b, int64(spec.Contract), 10)
	b = append(b, `,"inputs":[`...)
	for i, in := range spec.Inputs {
		if i > 0 {
			b = append(b, ',')
		}
		if !plain(in.Port) || !plain(string(in.Schema)) {
			return Of(spec)
		}
		b = append(b, `{"limitations":"`...)
		b = append(b, in.Limitations.String()...)
		b = append(b, `","port":"`...)
		b = append(b, in.Port...)
		b = append(b, `","schema":"`...)
		b = append(b, in.Schema...)
		b = append(b, `","sha256":"`...)
		b = append(b, in.SHA256.String()...)
		b = append(b, `","size":`...)
		b = strconv.AppendInt(b, in.Size, 10)
		b = append(b, '}')
	}
	if !plain(spec.Kind) || !plain(spec.Salt) || spec.Contract >= 1<<53 {
		return Of(spec)
	}
	b = append(b, `],"kind":"`...)
	b = append(b, spec.Kind...)
	b = append(b, `","salt":"`...)
	b = append(b, spec.Salt...)
	b = append(b, `","v":"`+Version+`"}`...)
	return digest.FromBytes(b), nil
}

// plain tells whether a string stands in JSON as it is.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
