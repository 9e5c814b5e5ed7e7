package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"anvil/schemas"
)

// The schema for editors takes every good plan as it is written, references
// and all, and marks words that no plan has.
func TestEditorSchemaTakesGoodPlans(t *testing.T) {
	files, err := filepath.Glob("../../plans/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("shipped plans: %v, %v", files, err)
	}
	more, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, more...) {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := schemas.Check("anvil.plan/v1", written(t, string(src))); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, c := range []struct{ from, to string }{
			{"schema: anvil.plan/v1", "schemas: anvil.plan/v1"},
			{"name:", "nam:"},
			{"uses: measure", "uses: measured"},
			{"endpoint: target", "endpoints: target"},
			{"requests:", "request:"},
		} {
			wrong := strings.Replace(string(src), c.from, c.to, 1)
			if wrong != string(src) && schemas.Check("anvil.plan/v1", written(t, wrong)) == nil {
				t.Errorf("%s with %q for %q passes", file, c.to, c.from)
			}
		}
	}
}

// written is the plan's value before anything is resolved.
func written(t *testing.T, src string) map[string]any {
	t.Helper()
	var ps problems
	r := &reader{file: "p.yaml", ps: &ps}
	root, _, _ := r.read([]byte(src))
	if err := ps.err(); err != nil {
		t.Fatal(err)
	}
	return root
}
