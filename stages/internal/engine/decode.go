package engine

// A Decoder turns one answer into its fields, behind or after the phase.
type Decoder struct{ p *Protocol }

// NewDecoder returns a decoder for one answer.
func (p *Protocol) NewDecoder(w Want) *Decoder { return &Decoder{p: p} }

// Head takes the head; without one there was no answer.
func (d *Decoder) Head(h Head) {}

// Read takes one read of the body and its stamps. b may be reused when it returns.
func (d *Decoder) Read(r Read, b []byte) {}

// End takes how the reading ended and returns the answer.
func (d *Decoder) End(e Ending) Answer { return Answer{} }

type reading struct{}
