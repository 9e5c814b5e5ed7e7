package prompt

import (
	"encoding/json"
	"strings"
	"testing"

	"anvil/pipeline/stage"
)

// A common prefix is a part of the prompt: one that is longer than the smallest
// would make it another size than planned.
func TestACommonPrefixFitsIntoTheSmallestPrompt(t *testing.T) {
	for _, tc := range []struct {
		size   string
		mode   string
		shared int
		want   string // "": no problem
	}{
		{`512`, "shared", 512, ""},
		{`512`, "shared", 513, "513 tokens does not fit into prompts of 512"},
		{`{"uniform": [100, 900]}`, "shared", 100, ""},
		{`{"uniform": [100, 900]}`, "shared", 101, "of 101 tokens does not fit into prompts of 100"},
		{`{"normal": [500, 50, 300, 700]}`, "shared", 300, ""},
		{`{"normal": [500, 50, 299.5, 700]}`, "shared", 300, ""},
		{`{"normal": [500, 50, 300, 700]}`, "shared", 301, "prompts of 300"},
		{`{"choices": {"64": 0, "256": 1, "1024": 3}}`, "shared", 256, ""},
		{`{"choices": {"64": 1, "256": 1, "1024": 3}}`, "shared", 65, "prompts of 64"},
		{`512`, "unique", 0, ""},
		{`512`, "unique", 4096, "unique prompts share no prefix"},
	} {
		var size any
		dec := json.NewDecoder(strings.NewReader(tc.size))
		dec.UseNumber()
		if err := dec.Decode(&size); err != nil {
			t.Fatal(err)
		}
		shared, err := json.Marshal(tc.shared)
		if err != nil {
			t.Fatal(err)
		}
		r := &stage.Resolution{With: map[string]any{"workload": map[string]any{
			"source": "synthetic", "context_tokens": size, "cache_mode": tc.mode, "shared_prefix_tokens": json.Number(shared),
		}}}
		Resolve(r, "/workload", "measure")
		problems := r.Problems()
		if tc.want == "" {
			if len(problems) > 0 {
				t.Errorf("%s, %d: %+v", tc.size, tc.shared, problems)
			}
			continue
		}
		if len(problems) != 1 || problems[0].Pointer != "/workload/shared_prefix_tokens" || !strings.Contains(problems[0].Message, tc.want) || problems[0].Hint == "" {
			t.Errorf("%s, %d: %+v, want %q", tc.size, tc.shared, problems, tc.want)
		}
	}
}
