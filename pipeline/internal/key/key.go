// Package key computes stage keys: what a stage is made of, by content alone.
package key

import (
	"encoding/json"
	"fmt"

	"github.com/gowebpki/jcs"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
)

// Version is the "v" of every stage key.
const Version = "anvil.key/v1"

// An Input is one input as it enters a key: by digest alone, no path, time,
// host or user.
type Input struct {
	Port string `json:"port"` // or "with." and a JSON pointer
	stage.Ref
}

// A Spec is all that a stage key is made of.
type Spec struct {
	Kind     string
	Contract int
	Config   json.RawMessage // without what is cosmetic, policy or a file
	Inputs   []Input         // in the kind's order of ports, plan order within one
	Salt     string
}

// Of returns the key: SHA-256(JCS({v, kind, contract, config, inputs, salt})).
func Of(spec Spec) (digest.Digest, error) {
	text, err := Text(spec)
	if err != nil {
		return digest.Digest{}, err
	}
	return digest.FromBytes(text), nil
}

// Text returns the canonical bytes that Of hashes.
func Text(spec Spec) ([]byte, error) {
	if spec.Inputs == nil {
		spec.Inputs = []Input{}
	}
	raw, err := json.Marshal(struct {
		V        string          `json:"v"`
		Kind     string          `json:"kind"`
		Contract int             `json:"contract"`
		Config   json.RawMessage `json:"config"`
		Inputs   []Input         `json:"inputs"`
		Salt     string          `json:"salt"`
	}{Version, spec.Kind, spec.Contract, spec.Config, spec.Inputs, spec.Salt})
	if err == nil {
		raw, err = jcs.Transform(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("key of a %s stage: %w", spec.Kind, err)
	}
	return raw, nil
}
