package schemas

import (
	"encoding/json"
	"testing"
)

func TestEverySchemaCompilesUnderItsOwnName(t *testing.T) {
	ids := List()
	if len(ids) == 0 {
		t.Fatal("no schemas are embedded")
	}
	for _, id := range ids {
		if _, err := Compile(id); err != nil {
			t.Errorf("compile: %v", err)
		}
		if got := index()[id]; got != id.FileName() {
			t.Errorf("%s stands in %s, want %s", id, got, id.FileName())
		}
	}
}

func TestDeclaredIDsAreThoseOfTheParsedFiles(t *testing.T) {
	for id, name := range index() {
		src, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var head struct {
			ID ID `json:"x-anvil-id"`
		}
		if err := json.Unmarshal(src, &head); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if head.ID != id {
			t.Errorf("%s says %q, found %q", name, head.ID, id)
		}
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{"0B": 0, "64KiB": 64 << 10, "16MiB": 16 << 20, "2TiB": 2 << 40} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "64", "64 KiB", "64kb", "-1B", "1.5MiB", "010KiB", "99999999999999999999B", "9999999999TiB"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", in, got)
		}
	}
}
