package plan_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"anvil/pipeline/plan"
)

// tall is a plan of one import and n further stages.
func tall(n int) string {
	var b strings.Builder
	b.WriteString("schema: anvil.plan/v1\nname: many\nstages:\n  - {id: old, uses: import, with: {file: attempts.jsonl, schema: anvil.attempts/v1}}\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {id: g%d, uses: score, needs: [old], with: {model: m%d}}\n", i, i)
	}
	return b.String()
}

// wide is a plan whose matrix multiplies a measurement to n*n children.
func wide(n int) string {
	axis := make([]string, n)
	for i := range axis {
		axis[i] = fmt.Sprint(i + 1)
	}
	values := strings.Join(axis, ", ")
	return fmt.Sprintf(`schema: anvil.plan/v1
name: wide
matrix: {concurrency: [%s], rep: [%s]}
endpoints: {target: {base_url: null}}
stages:
  - {id: scout, uses: scout, with: {endpoint: target}}
  - {id: measure, uses: measure, needs: [scout], with: {endpoint: target, load: {mode: closed, concurrency: "${matrix.concurrency}", requests: 32},
      workload: {source: synthetic, seed: "${matrix.rep}"}}}
  - {id: all, uses: join, needs: [scout, measure]}
`, values, values)
}

func benchmarkParse(b *testing.B, src string) {
	b.Helper()
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "attempts.jsonl"), nil, 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := plan.Parse(filepath.Join(dir, "p.yaml"), []byte(src), fakeKinds(), plan.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseThousandStages(b *testing.B)      { benchmarkParse(b, tall(1_000)) }
func BenchmarkParseTenThousandStages(b *testing.B)   { benchmarkParse(b, tall(10_000)) }
func BenchmarkParseTenThousandChildren(b *testing.B) { benchmarkParse(b, wide(100)) }
