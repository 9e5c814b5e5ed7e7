package record

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkCheck checks one real record of about the corpus' mean size.
func BenchmarkCheck(b *testing.B) {
	src := testdata(b, corpus+"/v4-c16.json")
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		if r := CheckReader("record", bytes.NewReader(src), Options{}); !r.OK {
			b.Fatal(describe(r))
		}
	}
}

// BenchmarkCheckTenThousand checks 10,000 files: the corpus over and over, so
// of its mean size. The issue asks for less than 10 s on two cores.
func BenchmarkCheckTenThousand(b *testing.B) {
	names, err := filepath.Glob(corpus + "/*.json")
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	for i := range 10_000 {
		src := testdata(b, names[i%len(names)])
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.json", i)), src, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		reports, err := Check(context.Background(), []string{dir}, Options{})
		if err != nil || len(reports) != 10_000 {
			b.Fatal(len(reports), err)
		}
	}
}
