package plan_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/pipeline/plan"
)

// A plan says the same, and its faults are the same, however many processors
// read it.
func TestReadingOnSeveralProcessorsChangesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "attempts.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(src string, processors int) (string, string) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		p, err := plan.Parse(file, []byte(src), fakeKinds(), plan.Options{})
		if err != nil {
			return "", err.Error()
		}
		return string(p.Resolved), ""
	}
	for name, src := range map[string]string{
		"stages":   tall(300),
		"children": wide(12),
		"faults":   strings.ReplaceAll(tall(300), "model: m1", "mdl: m1"),
	} {
		t.Run(name, func(t *testing.T) {
			resolved, faults := read(src, 1)
			if (faults != "") != (name == "faults") {
				t.Fatalf("faults: %s", faults)
			}
			for range 3 {
				again, also := read(src, 4)
				if diff := cmp.Diff(resolved+faults, again+also); diff != "" {
					t.Fatalf("on four (-one +four):\n%s", diff)
				}
			}
		})
	}
}
