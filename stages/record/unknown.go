package record

import (
	"fmt"

	"anvil/stages/internal/jsontree"
)

// unknowns collects members that no shape has. Those that many rows have are one.
type unknowns struct {
	first []unknownMember // of each, in order
	index map[string]int  // by place, whichever the row
}

type unknownMember struct {
	pointer string
	more    int
}

// look notes what is unknown of one object: f lists the members that it may have,
// place says what the object is to its record.
func (u *unknowns) look(v jsontree.Value, f *form, place, pointer string) {
	for name, m := range v.Members() {
		if f.Properties[name] != nil || isText(name, m) {
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
// Not all are of one: definitions in words, maps by size, source or metric, and
// the usage as the endpoint sent it are open.
func (b *capacityCell) noteUnknown() {
	f, u := benchmarkForm(), &unknowns{index: map[string]int{}}
	u.look(b.doc, f, "", "")
	for _, part := range []string{"sampling", "serve_flags", "metric_population"} {
		u.look(b.doc.Get(part), f.property(part), part, "/"+part)
	}
	for _, name := range []string{"temperature", "top_p"} {
		u.look(b.doc.At("sampling", name), f.def("sampling_value"), "sampling value", "/sampling/"+name)
	}
	for _, r := range b.rows {
		u.answer(r.v, f.def("row"), "row", r.pointer)
	}
	for _, x := range b.failures {
		u.answer(x.v, f.def("failure"), "failure", x.pointer)
		u.answer(x.v.Get("response_timing"), f.def("row"), "timing", x.pointer+"/response_timing")
		u.look(x.v.Get("response_metadata"), f.def("response_metadata"), "metadata", x.pointer+"/response_metadata")
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
func (u *unknowns) answer(v jsontree.Value, f *form, place, pointer string) {
	u.look(v, f, place, pointer)
	for _, name := range []string{"request_canary", "controlled_output"} {
		if found := v.Get(name); found.Is(jsontree.Object) {
			u.look(found, benchmarkForm().def(name), place+" "+name, pointer+"/"+name)
		}
	}
}
