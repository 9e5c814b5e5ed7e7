package record

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/schemas"
	"anvil/stages/internal/jsontree"
	"anvil/stages/internal/shape"
)

var ruleName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*\.[a-z0-9-]+$`)

// The table of rules is what the code names, no more and no less.
func TestRulesAreThoseOfTheCode(t *testing.T) {
	listed := map[string]bool{}
	for _, r := range tableOfRules() {
		if listed[r.Name] || !ruleName.MatchString(r.Name) || r.Text == "" {
			t.Errorf("rule %q is listed twice, or has no name or text", r.Name)
		}
		listed[r.Name] = true
	}
	prefixes := map[string]bool{}
	for name := range listed {
		prefix, _, _ := strings.Cut(name, ".")
		prefixes[prefix] = true
	}
	used := map[string]bool{}
	for _, f := range []jsontree.Fault{jsontree.Syntax, jsontree.Depth, jsontree.DuplicateKey, jsontree.NumberRange, jsontree.Surrogate, jsontree.UTF8} {
		used[string(f)] = true
	}
	for _, text := range literals(t) {
		prefix, _, _ := strings.Cut(text, ".")
		if ruleName.MatchString(text) && prefixes[prefix] {
			used[text] = true
		}
	}
	sorted := func(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
	if d := cmp.Diff(sorted(used), sorted(listed)); d != "" {
		t.Errorf("rules differ (-code +table):\n%s", d)
	}
}

// literals are the string literals of the package but for tests, the table among them.
func literals(t *testing.T) (out []string) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if s, err := strconv.Unquote(l.Value); err == nil {
					out = append(out, s)
				}
			}
			return true
		})
	}
	return out
}

// Every kind has a schema that both validators compile, and members that its
// schema requires.
func TestEveryKindIsWhole(t *testing.T) {
	for _, k := range All() {
		if _, err := schemas.Compile(k.ID); err != nil {
			t.Errorf("%s: %v", k.ID, err)
			continue
		}
		s, err := shape.Compile(k.ID)
		if err != nil {
			t.Errorf("%s: %v", k.ID, err)
			continue
		}
		if (k.Check == nil) == (k.Lines == nil) {
			t.Errorf("%s is neither a document nor lines, or both", k.ID)
		}
		empty, err := jsontree.Parse([]byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		var required []string
		for _, v := range s.Check(empty, "", 1000) {
			if v.Keyword == "required" {
				required = append(required, strings.TrimPrefix(v.Pointer, "/"))
			}
		}
		for _, m := range k.Members {
			if !slices.Contains(required, m) {
				t.Errorf("%s is recognised by %s, which its schema does not require", k.ID, m)
			}
		}
	}
}
