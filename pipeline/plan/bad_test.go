package plan_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/pipeline/plan"
)

var update = flag.Bool("update", false, "write the golden files")

// Every plan of testdata/bad is wrong, and its .want file holds every problem,
// one a line, with its line and its column.
func TestEveryProblemIsReportedAtItsPlace(t *testing.T) {
	t.Chdir("testdata/bad")
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatalf("bad plans: %v, %v", files, err)
	}
	env := map[string]string{"RACK": "r7"}
	for _, file := range files {
		t.Run(strings.TrimSuffix(file, ".yaml"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = plan.Parse(file, src, fakeKinds(), plan.Options{Getenv: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
			if err == nil {
				t.Fatal("parsed; every plan of this folder is wrong")
			}
			got := err.Error() + "\n"
			want := strings.TrimSuffix(file, ".yaml") + ".want"
			if *update {
				if err := os.WriteFile(want, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(text), got); diff != "" {
				t.Errorf("problems of %s (-want +got):\n%s", file, diff)
			}
		})
	}
}
