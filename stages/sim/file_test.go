package sim

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/schemas"
)

func TestConfigFileFillsItsDefaults(t *testing.T) {
	for _, src := range []string{`{}`, `{"schema": "anvil.sim-config/v1"}`} {
		got, err := ParseConfig([]byte(src))
		if err != nil {
			t.Fatal(err)
		}
		want := DefaultConfig()
		want.Faults = map[string]float64{}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the schema's defaults are not DefaultConfig (-want +got):\n%s", src, diff)
		}
	}
}

func TestConfigFileIsRead(t *testing.T) {
	got, err := ParseConfig([]byte(`{"model": "m", "prefill_tok_s": 10.5, "decode_tok_s": 2, "slots": 3, "queue": 4, "prefix_cache": false,
		"reasoning_tokens": 5, "tokens_per_event": 6, "jitter": 0.5, "accuracy": 0.75, "seed": -7, "faults": {"cut.eof@3": 1, "empty": 0.25}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Model: "m", PrefillTokS: 10.5, DecodeTokS: 2, Slots: 3, Queue: 4, ReasoningTokens: 5, TokensPerEvent: 6,
		Jitter: 0.5, Accuracy: 0.75, Seed: -7, Faults: map[string]float64{"cut.eof@3": 1, "empty": 0.25},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBadConfigFilesAreRefused(t *testing.T) {
	for src, want := range map[string]string{
		``:                                  "",
		`[]`:                                "object",
		`null`:                              "object",
		`{"slots": 1, "slots": 2}`:          "duplicate",
		`{"slot": 1}`:                       "slots",
		`{"slots": 0}`:                      "slots",
		`{"slots": 1.0}`:                    "slots",
		`{"jitter": 2}`:                     "jitter",
		`{"faults": {"ctu": 0.5}}`:          "faults",
		`{"faults": {"cut@3": 0.5}}`:        "has the share 1",
		`{"faults": {"cut": 1, "empty":1}}`: "add up",
		`{"schema": "anvil.plan/v1"}`:       "schema",
		`{} {}`:                             "",
	} {
		_, err := ParseConfig([]byte(src))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", src, err, want)
		}
	}
	_, err := ParseConfig([]byte(`{"slots": 0, "queue": -1, "jitter": 3, "x": 1}`))
	if n := len(strings.Split(err.Error(), "\n")); n != 4 {
		t.Errorf("%d lines, want one for each of 4 faults:\n%v", n, err)
	}
}

// The pattern of the schema and the table of faults must name the same.
func TestSchemaKnowsEveryFault(t *testing.T) {
	check := func(name string) error {
		return schemas.Check(ConfigSchema, map[string]any{"faults": map[string]any{name: 1}})
	}
	for outcome, variants := range faultVariants() {
		for _, name := range append([]string{outcome}, prefixed(outcome+".", variants)...) {
			for _, at := range []string{"", "@0", "@12"} {
				if err := check(name + at); err != nil {
					t.Errorf("%s: %v", name+at, err)
				}
			}
		}
	}
	for _, name := range []string{"ok", "client_abort", "cut.", "cut.no", "cut@", "cut@01", "cut@-1", "Cut", "cut.eof.eof"} {
		if check(name) == nil {
			t.Errorf("the schema takes %q", name)
		}
		if _, _, err := parseFault(name); err == nil {
			t.Errorf("the engine takes %q", name)
		}
	}
}

func prefixed(prefix string, names []string) (out []string) {
	for _, n := range names {
		out = append(out, prefix+n)
	}
	return out
}
