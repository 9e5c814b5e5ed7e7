package stage

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"anvil/schemas"
)

type nopWriteCloser struct{ io.Writer }

func (nopWriteCloser) Close() error { return nil }

func discard(string, schemas.ID) (io.WriteCloser, error) { return nopWriteCloser{io.Discard}, nil }

func TestOnlyDeclaredOutputsAreTakenAndOnce(t *testing.T) {
	spec := Spec{Name: "measure", Out: []Port{{Name: "a.json", Schema: "anvil.a/v1"}, {Name: "b.jsonl", Schema: "anvil.b/v1"}}}
	out := NewOutputs(spec, discard)
	if err := out.JSON("a.json", map[string]int{}); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Create("b.jsonl"); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"a second time": out.JSON("a.json", map[string]int{}),
		"not declared":  out.JSON("c.json", map[string]int{}),
		"a path":        out.JSON("../a.json", map[string]int{}),
	} {
		if !errors.Is(err, ErrNotDeclared) {
			t.Errorf("%s: got %v, want ErrNotDeclared", name, err)
		}
	}
	if _, err := out.Create("b.jsonl"); !errors.Is(err, ErrNotDeclared) {
		t.Errorf("a second stream: got %v, want ErrNotDeclared", err)
	}
}

func TestMarshalDocumentInjectsTheSet(t *testing.T) {
	set := NewLimitationSet(Limitation{Code: "plan.stated", Severity: Caveat, Origin: "plan", AppliesTo: []string{"*"}, Text: "a<b>&c"})
	for name, v := range map[string]any{
		"struct": struct {
			Schema string `json:"schema"`
		}{"anvil.x/v1"},
		"empty": map[string]int{},
	} {
		b, err := MarshalDocument(v, set)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var doc struct {
			Limitations LimitationSet `json:"limitations"`
		}
		if err := json.Unmarshal(b, &doc); err != nil {
			t.Fatalf("%s: %v in %s", name, err, b)
		}
		if len(doc.Limitations) != 1 || doc.Limitations[0].Text != "a<b>&c" {
			t.Errorf("%s: read back %v", name, doc.Limitations)
		}
		if b[len(b)-1] != '\n' {
			t.Errorf("%s: no final newline", name)
		}
	}
	if _, err := MarshalDocument([]int{1}, set); err == nil {
		t.Error("an array was taken for a document")
	}
}

func TestDefineRefusesUnknownConfiguration(t *testing.T) {
	type config struct {
		Known int `json:"known"`
	}
	k := Define(Spec{Name: "x"}, func(config) (Stage, error) { return nil, nil })
	if _, err := k.New(json.RawMessage(`{"known": 1}`)); err != nil {
		t.Error(err)
	}
	if _, err := k.New(json.RawMessage(`{"unknown": 1}`)); err == nil {
		t.Error("an unknown field was dropped in silence")
	}
}

func TestAnArtifactWithoutBytesIsAnError(t *testing.T) {
	if _, err := (Artifact{}).Open(context.Background()); err == nil {
		t.Error("want an error")
	}
}
