package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"anvil/pipeline/prov"
	"anvil/pipeline/stage"
)

// However large the evidence is, the manifest of a run only names it.
func TestTheManifestStaysSmallBesideLargeArtifacts(t *testing.T) {
	const large, lines = 50 << 20, 100_000
	l := newLab(t)
	l.do["measure"] = func(_ context.Context, _ stage.Env, _ stage.Inputs, out *stage.Outputs) error {
		if err := writeOutput(out, "seen.json", func(w io.Writer) error {
			_, err := io.CopyN(w, endless('x'), large)
			return err
		}); err != nil {
			return err
		}
		return writeOutput(out, "more.jsonl", func(w io.Writer) error {
			for i := range lines {
				if _, err := fmt.Fprintf(w, `{"index":%d,"outcome":"ok"}`+"\n", i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	r := l.run(l.plan("measure pair", "sum sum measure"), Options{})
	wantStates(t, r, "measure=ok/executed sum=ok/executed")
	if got := r.stage("measure").Outputs[0].Size; got != large {
		t.Fatalf("the artifact has %d bytes, want %d", got, large)
	}
	dir := filepath.Join(l.dir, prov.RunsFolder, r.ID)
	for _, name := range []string{prov.ManifestName, prov.StatementName, prov.JournalName} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 16<<10 {
			t.Errorf("%s has %d bytes beside %d of evidence", name, info.Size(), large)
		}
	}
	l.verify(r)
}

func writeOutput(out *stage.Outputs, name string, write func(io.Writer) error) error {
	w, err := out.Create(name)
	if err != nil {
		return err
	}
	if err := write(w); err != nil {
		return err
	}
	return w.Close()
}

// endless is a reader of one byte, over and over.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	copy(p, bytes.Repeat([]byte{byte(e)}, len(p)))
	return len(p), nil
}
