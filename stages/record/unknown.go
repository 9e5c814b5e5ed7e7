package record

import (
	"fmt"
	"sync"

	"anvil/stages/internal/jsontree"
	"anvil/stages/internal/shape"
)

// knownNames are the members that the schema of benchmark records lists for a
// part of it. The parts that are not here are open: definitions in words, maps by
// size, source or metric, and the usage as the endpoint sent it.
var knownNames = sync.OnceValue(func() map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, part := range []string{
		"", "/properties/sampling", "/properties/serve_flags", "/properties/metric_population", "/$defs/sampling_value", "/$defs/row", "/$defs/failure",
		"/$defs/response_metadata", "/$defs/request_canary", "/$defs/controlled_output",
	} {
		s, err := shape.Fragment(BenchmarkSchema, "#"+part)
		if err != nil {
			return nil // checks report it as schema.missing
		}
		out[part] = map[string]bool{}
		for _, n := range s.Names() {
			out[part][n] = true
		}
	}
	return out
})

// unknowns collects members that no shape has. Those that many rows have are one.
type unknowns struct {
	first []unknownMember // of each, in order
	index map[string]int  // by place, whichever the row
}

type unknownMember struct {
	pointer string
	more    int
}

// look notes what is unknown of one object: part says which members it may have,
// place what the object is to its record.
func (u *unknowns) look(v jsontree.Value, part, place, pointer string) {
	for name, m := range v.Members() {
		if knownNames()[part][name] || isText(name, m) {
			continue // the text is a problem
		}
		key := place + "/" + name
		if i, again := u.index[key]; again {
			u.first[i].more++
			continue
		}
		u.index[key] = len(u.first)
		u.first = append(u.first, unknownMember{pointer: jsontree.Child(pointer, name)})
	}
}

// noteUnknown names the members of every object of known form that no shape has.
func (b *capacityCell) noteUnknown() {
	u := &unknowns{index: map[string]int{}}
	u.look(b.doc, "", "", "")
	for _, part := range []string{"sampling", "serve_flags", "metric_population"} {
		u.look(b.doc.Get(part), "/properties/"+part, part, "/"+part)
	}
	for _, name := range []string{"temperature", "top_p"} {
		u.look(b.doc.At("sampling", name), "/$defs/sampling_value", "sampling value", "/sampling/"+name)
	}
	for _, r := range b.rows {
		u.answer(r.v, "/$defs/row", "row", r.pointer)
	}
	for _, f := range b.failures {
		u.answer(f.v, "/$defs/failure", "failure", f.pointer)
		u.answer(f.v.Get("response_timing"), "/$defs/row", "timing", f.pointer+"/response_timing")
		u.look(f.v.Get("response_metadata"), "/$defs/response_metadata", "metadata", f.pointer+"/response_metadata")
	}
	for _, m := range u.first {
		again := ""
		if m.more > 0 {
			again = fmt.Sprintf(", nor were %d more of the name", m.more)
		}
		b.note(m.pointer, "shape.unknown-member", "no shape of this kind has it; it was not checked%s", again)
	}
}

// answer looks at a row or a failure and at the findings in it.
func (u *unknowns) answer(v jsontree.Value, part, place, pointer string) {
	u.look(v, part, place, pointer)
	for _, name := range []string{"request_canary", "controlled_output"} {
		u.look(v.Get(name), "/$defs/"+name, place+" "+name, pointer+"/"+name)
	}
}
