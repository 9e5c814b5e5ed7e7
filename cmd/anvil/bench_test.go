package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// program builds the command as a user has it, once for all benchmarks of a run.
func program(b *testing.B) string {
	b.Helper()
	exe := filepath.Join(b.TempDir(), "anvil")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", exe, ".").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	return exe
}

func do(b *testing.B, exe string, args ...string) []byte {
	b.Helper()
	c := exec.CommandContext(b.Context(), exe, args...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		b.Fatalf("anvil %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return out
}

// The bar of the issue: `plan run --from grade` on the quickstart's run, a whole
// process, in under 60 ms.
func BenchmarkPlanRunFromGrade(b *testing.B) {
	exe, ws := program(b), b.TempDir()
	do(b, exe, "--workspace", ws, "plan", "run", "../../plans/quickstart.yaml")
	for b.Loop() {
		do(b, exe, "--workspace", ws, "plan", "run", "../../plans/quickstart.yaml", "--from", "grade")
	}
}

// wide writes a plan of one import and n grade stages that all differ.
func wide(b *testing.B, exe, dir string, n int) string {
	b.Helper()
	do(b, exe, "--workspace", dir, "plan", "run", "../../plans/quickstart.yaml")
	attempts := do(b, exe, "--workspace", dir, "artifact", "cat", "latest", "measure/attempts.jsonl.zst")
	dataset, err := filepath.Abs("../../testdata/datasets/quick.jsonl")
	if err != nil {
		b.Fatal(err)
	}
	var plan strings.Builder
	plan.WriteString("schema: anvil.plan/v1\nname: wide\nstages:\n  - {id: old, uses: import, with: {file: attempts.jsonl, schema: anvil.attempts/v1}}\n")
	for i := range n {
		fmt.Fprintf(&plan, "  - {id: g%d, uses: grade, needs: [old], with: {dataset: %q, graders: [{id: a, type: contains, any: [word%d]}]}}\n", i, dataset, i)
	}
	file := filepath.Join(dir, "wide.yaml")
	for name, content := range map[string][]byte{"attempts.jsonl": attempts, "wide.yaml": []byte(plan.String())} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	return file
}

// The other bar: one import and 1,000 grade stages, all restored, in under
// 0.25 s; 10,000 in under 2.5 s.
func BenchmarkPlanRunAllRestored(b *testing.B) {
	exe := program(b)
	for _, n := range []int{10, 100, 1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			if n > 1_000 && testing.Short() {
				b.Skip("10,000 stages are left out with -short")
			}
			dir := b.TempDir()
			file := wide(b, exe, dir, n)
			do(b, exe, "--workspace", dir, "plan", "run", file)
			b.ResetTimer()
			for b.Loop() {
				do(b, exe, "--workspace", dir, "--json", "plan", "run", file)
			}
			b.StopTimer()
			reportManifest(b, dir)
		})
	}
}

// reportManifest shows that nothing is inlined in a manifest.
func reportManifest(b *testing.B, dir string) {
	b.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "runs", "wide-*", "run.json"))
	if err != nil || len(names) == 0 {
		b.Fatalf("no manifest: %v", err)
	}
	src, err := os.ReadFile(names[len(names)-1])
	if err != nil {
		b.Fatal(err)
	}
	var m struct {
		Stages []any `json:"stages"`
	}
	if err := json.Unmarshal(src, &m); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(src))/float64(len(m.Stages)), "manifest-B/stage")
}
