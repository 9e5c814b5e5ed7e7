package derive_test

import (
	"fmt"
	"strings"
	"testing"

	"anvil/pipeline/stage"
	"anvil/stages/record"
)

// big is a phase of n answered requests with 100 output events each.
func big(b *testing.B, n int) (*lab, stage.Artifact, string) {
	b.Helper()
	l := newLab(b)
	text := strings.Repeat("word ", 100) + `{"owner": "Mara"}`
	var data strings.Builder
	rows := make([]record.Attempt, n)
	for i := range rows {
		item := fmt.Sprintf("item-%d", i%1000)
		if i < 1000 {
			fmt.Fprintf(&data, `{"id":%q,"prompt":"p","expected":{"fields":{"owner":"Mara"}}}`+"\n", item)
		}
		rows[i] = answered(i, item, text, int64(i)*ms, 100)
	}
	return l, l.attempts("measure", header(n), rows), data.String()
}

// The bar: 100,000 attempts in seconds, in memory that holds the samples and
// not the texts.
func BenchmarkSummarize(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l, attempts, _ := big(b, n)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {attempts}})
			}
		})
	}
}

func BenchmarkGrade(b *testing.B) {
	l, attempts, data := big(b, 10_000)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := l.grade(attempts, data, map[string]any{"graders": []any{map[string]any{"id": "f", "type": "evidence_fields"}}}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	l, attempts, data := big(b, 10_000)
	p, err := l.grade(attempts, data, map[string]any{"graders": []any{map[string]any{"id": "f", "type": "evidence_fields"}}})
	if err != nil {
		b.Fatal(err)
	}
	rec, _ := l.summarize(map[string]any{}, map[string][]stage.Artifact{"attempts": {attempts}, "grades": {p.artifacts["grades.jsonl"]}})
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if v := l.validate(rec.artifacts["record.json"]); !v.OK {
			b.Fatal(v.Problems)
		}
	}
}
