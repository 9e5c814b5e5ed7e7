package plan_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"anvil/pipeline/plan"
	"anvil/schemas"
)

// FuzzParse: whatever the bytes are, Parse ends, and either gives a plan whose
// resolved form fits its schema and reads the same a second time, or problems
// that each stand at a place of the file. The corpus in testdata/fuzz is from
//
//	go test ./pipeline/plan -run xx -fuzz FuzzParse -fuzztime 10m -fuzzminimizetime 5x
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "testdata/good/*.yaml", "../../plans/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	for _, src := range []string{good, sweeping, measuring, filing, telling} {
		f.Add([]byte(src))
	}
	kinds := fakeKinds()
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 64<<10 {
			t.Skip("large inputs have a test of their own")
		}
		p, err := plan.Parse("testdata/p.yaml", src, kinds, plan.Options{Getenv: rack})
		if err != nil {
			checkProblems(t, src, err)
			return
		}
		var doc any
		if err := json.Unmarshal(p.Resolved, &doc); err != nil {
			t.Fatalf("resolved plan is no JSON: %v", err)
		}
		if err := schemas.Check(plan.ResolvedSchema, doc); err != nil {
			t.Fatal(err)
		}
		q, err := plan.Parse("testdata/p.yaml", src, kinds, plan.Options{Getenv: rack})
		if err != nil || string(q.Resolved) != string(p.Resolved) {
			t.Fatalf("a second reading gives another plan: %v", err)
		}
		dirs := map[string]bool{}
		for _, s := range p.Stages {
			if dirs[s.Dir] || s.Dir == "" || strings.ContainsAny(s.Dir, "/\\\x00") || strings.HasPrefix(s.Dir, ".") {
				t.Fatalf("folder %q of %q", s.Dir, s.ID)
			}
			dirs[s.Dir] = true
		}
	})
}

func checkProblems(t *testing.T, src []byte, err error) {
	t.Helper()
	lines := strings.Split(strings.TrimPrefix(string(src), "\ufeff"), "\n")
	ps := plan.Problems(err)
	if len(ps) == 0 {
		t.Fatalf("an error without a problem: %v", err)
	}
	for i, p := range ps {
		if p.Pos.Line < 1 || p.Pos.Line > len(lines) || p.Pos.Column < 1 || p.Pos.Column > utf8.RuneCountInString(lines[p.Pos.Line-1])+1 {
			t.Fatalf("%v is no place of a file with %d lines", p, len(lines))
		}
		if p.Message == "" || strings.Contains(p.Error(), "\n") || !utf8.ValidString(p.Error()) {
			t.Fatalf("problem %q", p.Error())
		}
		if i > 0 && ps[i-1].Pos.Compare(p.Pos) > 0 {
			t.Fatalf("problems are not sorted: %v before %v", ps[i-1], p)
		}
	}
}
