package pipeline_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

type goPackage struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

// listPackages asks go list for every package of the module.
func listPackages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps", "anvil/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// shared are the packages below stages that kinds and others may use.
var shared = []string{"anvil/stages/record", "anvil/stages/derive", "anvil/stages/sim"}

func isKind(p string) bool {
	return path.Dir(p) == "anvil/stages" && !slices.Contains(shared, p) && p != "anvil/stages/internal"
}

// may says what a package of the module may depend on, directly or not; nil
// means no limit.
func may(p string) func(dep string) bool {
	within := func(allowed ...string) func(string) bool {
		return func(dep string) bool {
			return slices.ContainsFunc(allowed, func(a string) bool {
				rest, wild := strings.CutSuffix(a, "/...")
				return dep == a || wild && (dep == rest || strings.HasPrefix(dep, rest+"/"))
			})
		}
	}
	vocabulary := []string{"anvil/schemas", "anvil/pipeline/digest", "anvil/pipeline/stage"}
	with := func(more ...string) func(string) bool { return within(append(more, vocabulary...)...) }
	switch {
	case p == "anvil/schemas", p == "anvil/pipeline/digest", p == "anvil/pipeline/event", p == "anvil/pipeline/dag":
		return within()
	case p == "anvil/pipeline/stage":
		return within("anvil/schemas", "anvil/pipeline/digest")
	case p == "anvil/pipeline/plan":
		return with("anvil/pipeline/dag")
	case p == "anvil/pipeline/store", p == "anvil/pipeline/prov", strings.HasPrefix(p, "anvil/pipeline/internal/"):
		return with("anvil/pipeline/internal/...")
	case p == "anvil/pipeline":
		return with("anvil/pipeline/...")
	case strings.HasPrefix(p, "anvil/stages/internal/"):
		return with("anvil/stages/internal/...", "anvil/stages/record", "anvil/stages/sim")
	case slices.Contains(shared, p):
		return with("anvil/stages/internal/...", "anvil/stages/record", "anvil/stages/derive")
	case isKind(p):
		return with(append([]string{"anvil/stages/internal/..."}, shared...)...)
	}
	return nil
}

func TestEachPackageKeepsToItsLayer(t *testing.T) {
	kinds := 0
	for _, p := range listPackages(t) {
		if isKind(p.ImportPath) {
			kinds++
		}
		allowed := may(p.ImportPath)
		for _, dep := range p.Deps {
			if allowed != nil && strings.HasPrefix(dep, "anvil/") && !allowed(dep) {
				t.Errorf("%s depends on %s", p.ImportPath, dep)
			}
		}
	}
	if kinds == 0 {
		t.Error("no kind was looked at")
	}
}

func TestOneHomeForEachParser(t *testing.T) {
	homes := map[string][]string{
		"gopkg.in/yaml.v3":                         {"anvil/pipeline/plan"},
		"github.com/santhosh-tekuri/jsonschema/v5": {"anvil/schemas", "anvil/pipeline/plan"},
		"github.com/spf13/cobra":                   {"anvil/cmd/anvil"},
		"github.com/hashicorp/go-multierror":       {"anvil/pipeline/plan"},
	}
	seen := map[string]bool{}
	for _, p := range listPackages(t) {
		for _, imp := range p.Imports {
			if at, ok := homes[imp]; ok {
				seen[imp] = true
				if !slices.Contains(at, p.ImportPath) {
					t.Errorf("%s imports %s, which belongs to %v", p.ImportPath, imp, at)
				}
			}
		}
	}
	for imp := range homes {
		if !seen[imp] {
			t.Errorf("nothing imports %s any more", imp)
		}
	}
}
