package pipeline

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"anvil/pipeline/prov"
	"anvil/schemas"
)

func fitsSchema(t *testing.T, id schemas.ID, what string, raw []byte) {
	t.Helper()
	var doc any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if err := schemas.Check(id, doc); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func TestEverythingThatARunWritesFitsItsSchema(t *testing.T) {
	l := newLab(t)
	p := l.plan("scout gate", "measure look scout", "grade make measure", "bad make measure", "sum sum grade bad", "prove prove grade").
		file("grade", "d.txt", "x").with("bad", `{"n": 1}`)
	l.do["bad"] = fails
	l.run(p, Options{})
	l.do["bad"] = nil
	first := l.run(p, Options{Resume: ResumeNewest})
	runs := []*Run{first, l.run(p, Options{Reuse: first.ID}), l.run(p, Options{Only: []string{"grade"}, Base: first.ID})}
	for _, e := range l.seen.events {
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		fitsSchema(t, "anvil.event/v1", string(raw), raw)
	}
	for _, r := range runs {
		l.verify(r)
		for pattern, id := range map[string]schemas.ID{
			"run.json": prov.ManifestSchema, "stages/*/*/result.json": prov.ResultSchema, "stages/*/*/claim.json": ClaimSchema,
			"statement.json": prov.RunStatementSchema, "stages/*/*/statement.json": prov.StageStatementSchema,
		} {
			files, err := filepath.Glob(filepath.Join(r.Dir, pattern))
			if err != nil || len(files) == 0 && r == first {
				t.Fatalf("%s: %v, %v", pattern, files, err)
			}
			for _, file := range files {
				raw, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				fitsSchema(t, id, file, raw)
			}
		}
		text, err := os.ReadFile(filepath.Join(r.Dir, prov.JournalName))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			fitsSchema(t, prov.JournalSchema, string(line), line)
		}
	}
	list := result(t, l, first, "prove").Inputs[1]
	if list.Port != "made.closure" {
		t.Fatalf("the closure enters as %q", list.Port)
	}
	fitsSchema(t, ClosureSchema, "the closure's list", l.object(list.SHA256))
}
