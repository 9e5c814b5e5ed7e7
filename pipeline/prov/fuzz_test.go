package prov_test

import (
	"bytes"
	"context"
	"testing"

	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
	"anvil/pipeline/store"
)

// FuzzReadJournal takes any bytes for a journal: what is accepted is a chain,
// and all of it that ends with a newline.
func FuzzReadJournal(f *testing.F) {
	f.Add([]byte(`{"seq":0,"at":"2026-11-30T09:00:00Z","event":"run.started","prev":null}` + "\n"))
	f.Add([]byte("{}\n{"))
	f.Add([]byte("\n\n"))
	f.Add([]byte{0xff, '\n'})
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := prov.ReadJournal(text)
		if len(c.Sums) != len(c.Lines) || (c.Head == nil) != (len(c.Lines) == 0) {
			t.Fatalf("%d lines, %d sums, head %v", len(c.Lines), len(c.Sums), c.Head)
		}
		if err == nil && len(c.Lines) != bytes.Count(text, []byte("\n")) {
			t.Fatalf("%d lines of %d were read, without an error", len(c.Lines), bytes.Count(text, []byte("\n")))
		}
		for i, l := range c.Lines {
			if l.Seq != int64(i) || (i > 0) != (l.Prev != nil) || i > 0 && *l.Prev != c.Sums[i-1] {
				t.Fatalf("line %d does not follow: %+v", i, l)
			}
		}
	})
}

// FuzzImportedDocument takes any bytes for a document that was imported: its
// closure is what it refers to, or nothing, and never an error.
func FuzzImportedDocument(f *testing.F) {
	s, err := store.Open(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	const zero = `0000000000000000000000000000000000000000000000000000000000000000`
	f.Add([]byte(`{"a":[{"schema":"x/v1","sha256":"` + zero + `","size":1,"limitations":"` + zero + `"}]}`))
	f.Add([]byte(`{"schema":"x/v1","sha256":"` + zero + `","size":1e400,"limitations":"` + zero + `"}`))
	f.Add([]byte("{\"a\":1}\n{\"b\":2}"))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, text []byte) {
		sum, err := s.PutBytes(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		a := stage.NewArtifact(stage.Ref{Schema: "x/v1", SHA256: sum, Size: int64(len(text))}, "", "f", s, nil)
		c, err := prov.NewClosure(context.Background(), prov.NewReader(s), a, nil)
		if err != nil {
			t.Fatal(err)
		}
		for m := range c.All() {
			if !s.Has(m.SHA256, m.Size) {
				t.Fatalf("%v is no object of the store", m.Ref)
			}
		}
	})
}
