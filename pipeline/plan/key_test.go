package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"anvil/schemas"
)

// What a configuration needs besides its defaults, so that most of its fields
// are there to be changed.
var samples = map[schemas.ID]string{
	"anvil.measure-config/v1": `{"endpoint": "t", "load": {"mode": "open", "arrival": "constant", "rate": 1, "requests": 1}, "workload": {"source": "dataset", "file": "f"},
		"search": {"axis": "rate", "range": [1, 2], "objective": "ttft_p95_ms<=5"}}`,
	"anvil.scout-config/v1":          `{"endpoint": "t", "same_as": "measure"}`,
	"anvil.grade-config/v1":          `{"dataset": "d", "graders": [{"id": "a", "type": "json", "schema": "s"}, {"id": "b", "type": "equals", "value": "x"}]}`,
	"anvil.verify-weights-config/v1": `{"replicas": [{"name": "a", "path": "p"}, {"name": "b", "ssh": "h", "path": "p"}], "manifest": "m", "signature_key": "k"}`,
	"anvil.import-config/v1":         `{"file": "f", "schema": "anvil.attempts/v1"}`,
	"anvil.summarize-config/v1":      `{"serving_cell": {"public_id": "a", "suite_version": "b"}, "derived_summary": {"cache_caveat": "c"}}`,
}

// A changed field changes the key, unless its schema says that it is cosmetic,
// policy or the path of a file. This runs over every configuration there is.
func TestEveryFieldOfAConfigurationEntersTheKeyUnlessItsSchemaSaysNot(t *testing.T) {
	tried, kept := 0, 0
	for _, id := range schemas.List() {
		if !strings.HasSuffix(string(id), "-config/v1") && id != endpointSchema {
			continue
		}
		t.Run(string(id), func(t *testing.T) {
			doc := sample(t, id)
			c, err := newCodec(id)
			if err != nil {
				t.Fatal(err)
			}
			_, before, marks, err := c.write(doc)
			if err != nil {
				t.Fatal(err)
			}
			out := dropped(marks)
			for _, pointer := range leaves(doc, "") {
				changed := sample(t, id)
				setAt(changed, pointer, "changed")
				_, after, _, err := c.write(changed)
				if err != nil {
					t.Fatal(err)
				}
				tried++
				switch same := string(before) == string(after); {
				case same && !below(pointer, out):
					t.Errorf("%s is changed and the key is not", pointer)
				case !same && below(pointer, out):
					t.Errorf("%s stays out of the key and changes it", pointer)
				case same:
					kept++
				}
			}
		})
	}
	if tried < 100 || kept < 5 {
		t.Errorf("%d fields tried, %d of them out of the key: too few to show anything", tried, kept)
	}
}

func sample(t *testing.T, id schemas.ID) map[string]any {
	t.Helper()
	text := samples[id]
	if text == "" {
		text = "{}"
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	doc := map[string]any{}
	if err := dec.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if err := schemas.Fill(id, doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func leaves(v any, pointer string) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for _, name := range keys(v) {
			out = append(out, leaves(v[name], schemas.Join(pointer, name))...)
		}
	case []any:
		for i, e := range v {
			out = append(out, leaves(e, schemas.Join(pointer, fmt.Sprint(i)))...)
		}
	default:
		out = append(out, pointer)
	}
	return out
}

func below(pointer string, marked map[string]bool) bool {
	for at := range marked {
		if pointer == at || strings.HasPrefix(pointer, at+"/") {
			return true
		}
	}
	return false
}
