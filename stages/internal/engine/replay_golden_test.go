package engine

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestCapturesSayWhatTheySaid decodes every capture and holds text, reasoning,
// tool calls, counts, finish reasons and outcome against the golden file.
func TestCapturesSayWhatTheySaid(t *testing.T) {
	const golden = "testdata/captures.golden.json"
	got := map[string]said{}
	for _, c := range allCaptures(t) {
		s := says(decode(c.protocol(t), c.head, c.body))
		if c.edited {
			s.Text, s.Usage, s.Kinds = "", "", ""
		}
		got[c.name] = s
	}
	if *update {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "\t")
		if err := e.Encode(got); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]said{}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, ignoreEmpty()); d != "" {
		t.Errorf("captures (-golden +got):\n%s", d)
	}
}
