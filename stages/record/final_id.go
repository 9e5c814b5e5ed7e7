package record

import (
	"bytes"
	"errors"

	"anvil/pipeline/digest"
)

// BlankID is what stands for the id of a final record while it is minted.
const BlankID = "rec-0000000000000000"

var idKey = []byte(`"id": "rec-`)

// MintID replaces the blank id of a final record, as its writer lays it out, by
// "rec-" and the first 16 hex digits of the SHA-256 of the record with them
// zeroed. It returns a new slice.
func MintID(doc []byte) ([]byte, error) {
	at, err := idDigits(doc)
	if err != nil {
		return nil, err
	}
	out := bytes.Clone(doc)
	copy(out[at:], digest.FromBytes(blanked(doc, at)).String()[:16])
	return out, nil
}

// CheckID tells which id the bytes of a final record ask for and whether they bear it.
func CheckID(doc []byte) (want string, ok bool, err error) {
	at, err := idDigits(doc)
	if err != nil {
		return "", false, err
	}
	want = "rec-" + digest.FromBytes(blanked(doc, at)).String()[:16]
	return want, string(doc[at-4:at+16]) == want, nil
}

func blanked(doc []byte, at int) []byte {
	zeroed := bytes.Clone(doc)
	copy(zeroed[at:at+16], "0000000000000000")
	return zeroed
}

// idDigits finds the 16 digits of the record's own id: its second member, so
// that it comes before anything that text could imitate.
func idDigits(doc []byte) (int, error) {
	i := bytes.Index(doc, idKey)
	if i < 0 || i > 256 || len(doc) < i+len(idKey)+17 || doc[i+len(idKey)+16] != '"' {
		return 0, errors.New(`no id of the form "rec-" and 16 hex digits where a final record has it`)
	}
	return i + len(idKey), nil
}
