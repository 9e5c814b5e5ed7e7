package validate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/schemas"
	"anvil/stages/record"
)

// object is one artifact's bytes.
type object []byte

func (o object) Open(_ context.Context, d digest.Digest, size int64) (io.ReadCloser, error) {
	return digest.Verify(io.NopCloser(bytes.NewReader(o)), d, size), nil
}

// known is the closure of a record that was imported: what it names is there,
// and nothing says how it was made.
type known []stage.Artifact

func (known) All() iter.Seq[stage.Artifact]               { return slices.Values([]stage.Artifact(nil)) }
func (known) Made(digest.Digest) (stage.Production, bool) { return stage.Production{}, false }
func (known) Absent() []stage.Ref                         { return nil }

func (k known) Get(d digest.Digest) (stage.Artifact, bool) {
	i := slices.IndexFunc(k, func(a stage.Artifact) bool { return a.SHA256 == d })
	if i < 0 {
		return stage.Artifact{}, false
	}
	return k[i], true
}

// imported is the golden record of package derive as from elsewhere.
func imported(t *testing.T, change func(*record.Final)) (stage.Artifact, known) {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("..", "derive", "testdata", "record.golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var f record.Final
	if err := json.Unmarshal(src, &f); err != nil {
		t.Fatal(err)
	}
	set := f.Limitations
	f.Limitations, f.ID = nil, record.BlankID
	if change != nil {
		change(&f)
	}
	doc, err := stage.MarshalDocument(f, set)
	if err != nil {
		t.Fatal(err)
	}
	if doc, err = record.MintID(doc); err != nil {
		t.Fatal(err)
	}
	var closure known
	for _, e := range f.Evidence {
		closure = append(closure, stage.NewArtifact(e.Ref, e.Stage, e.Name, nil, nil))
	}
	_, limits := set.Canonical()
	ref := stage.Ref{Schema: record.FinalSchema, SHA256: digest.FromBytes(doc), Size: int64(len(doc)), Limitations: limits}
	return stage.NewArtifact(ref, "old", "record.json", object(doc), set), closure
}

func validated(t *testing.T, level int, rec stage.Artifact, closure known) (record.Validation, []stage.Finding) {
	t.Helper()
	s, err := Kind.New(fmt.Appendf(nil, `{"level": %d}`, level))
	if err != nil {
		t.Fatal(err)
	}
	out := stage.NewOutputs(Kind.Spec(), nil)
	in := stage.NewInputs(map[string][]stage.Artifact{"record": {rec}}, nil, map[string]stage.Closure{"record": closure})
	if err := s.Run(t.Context(), stage.Env{}, in, out); err != nil {
		t.Fatal(err)
	}
	c := out.Collect()
	doc, err := c.Documents["validation.json"](rec.LimitationSet())
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(doc, &tree); err != nil {
		t.Fatal(err)
	}
	if err := schemas.Check(record.ValidationSchema, tree); err != nil {
		t.Error(err)
	}
	var v record.Validation
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatal(err)
	}
	return v, c.Findings
}

// Nothing says how an imported record was made: it is consistent at best.
func TestBelowTheLevelIsAFinding(t *testing.T) {
	for level, wanted := range map[int]bool{1: false, 2: false, 3: true} {
		rec, closure := imported(t, nil)
		v, findings := validated(t, level, rec, closure)
		if v.Level != 2 {
			t.Errorf("level %d reached, want 2; problems %+v", v.Level, v.Problems)
		}
		if (len(findings) == 1) != wanted {
			t.Errorf("level %d wanted: findings %+v", level, findings)
		}
		for _, f := range findings {
			if f.Code != "validate.level" || !strings.Contains(f.Text, "level 2 reached, 3 is wanted") || !strings.Contains(f.Text, "old/record.json") {
				t.Errorf("finding %+v does not say what is missing where", f)
			}
		}
	}
}

func TestTheFindingNamesAProblemBelowTheLevel(t *testing.T) {
	rec, closure := imported(t, func(f *record.Final) { f.Count = 5 })
	v, findings := validated(t, 2, rec, closure)
	if v.Level != 1 || len(findings) != 1 || !strings.Contains(findings[0].Text, "limitations_count") {
		t.Errorf("level %d, findings %+v, problems %+v", v.Level, findings, v.Problems)
	}
	if _, findings := validated(t, 1, rec, closure); len(findings) != 0 {
		t.Errorf("level 1 is reached: %+v", findings)
	}
}

func TestARecordMustBeBound(t *testing.T) {
	s, err := Kind.New([]byte(`{"level": 3}`))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Run(t.Context(), stage.Env{}, stage.NewInputs(nil, nil, nil), stage.NewOutputs(Kind.Spec(), nil))
	if err == nil || !strings.Contains(err.Error(), "no record") {
		t.Errorf("error %v", err)
	}
}
