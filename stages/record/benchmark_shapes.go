package record

import (
	"fmt"
	"strings"
	"sync"

	"anvil/stages/internal/jsontree"
)

// laterMembers are, for each shape, the members and metrics ("metrics/x") that
// only records of later shapes have.
var laterMembers = sync.OnceValue(func() map[Shape]map[string]bool {
	// The early and the late form of capacity-v3, and v4, differ in metrics alone
	// and are one here.
	timed := []string{"capacity-v3", "first-output"}
	has, all := map[Shape]map[string]bool{}, map[string]bool{}
	for s, forms := range map[Shape][]string{ShapeNone: {"none"}, ShapeV2: {"capacity-v2"}, ShapeV3: timed, ShapeV4: timed, ShapeNewest: {"newest"}} {
		own := map[string]bool{"request_timings": s != ShapeNone && s != ShapeV2} // which any record may lack
		for _, f := range forms {
			def := benchmarkForm().def(f)
			for _, n := range def.Required {
				own[n] = true
			}
			for _, n := range def.property("metrics").Required {
				own["metrics/"+n] = true
			}
		}
		has[s] = own
		for n := range own {
			all[n] = true
		}
	}
	later := map[Shape]map[string]bool{}
	for s, own := range has {
		later[s] = map[string]bool{}
		for n := range all {
			later[s][n] = !own[n]
		}
	}
	return later
})

// checkShape: an old record has nothing that only later ones have. The label
// says which rules hold, and under a wrong one most of them are passed over.
func (b *capacityCell) checkShape() {
	if b.shape == "" || missesCore(b.doc) {
		return
	}
	later := laterMembers()[b.shape]
	var found []string
	collect := func(prefix string, object jsontree.Value) {
		for name := range object.Members() {
			if later[prefix+name] {
				found = append(found, prefix+name)
			}
		}
	}
	collect("", b.doc)
	collect("metrics/", b.doc.Get("metrics"))
	if len(found) > 0 {
		b.problem("/measurement_protocol", "shape.contradicts", b.doc.Get("measurement_protocol"), nil,
			"by its label the record is of shape %s, which never had %s: it is of a later one, whose rules were not applied", b.shape, enumerate(found))
	}
}

// enumerate lists the first of many.
func enumerate(names []string) string {
	const most = 12
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
