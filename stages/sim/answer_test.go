package sim

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func ask(seed int64, text string, f fault) string {
	cfg := DefaultConfig()
	cfg.Seed = seed
	a := cfg.answer(task{question: readQuestion(text, text), prompt: 1, fault: f, limits: limits{maxTokens: 10000}})
	return strings.Join(a.content, "")
}

func TestMarkerBeginsTheAnswer(t *testing.T) {
	const first, second = "ANVIL_REQ_20260920_00003", "ANVIL_REQ_-5_123456"
	prompt := "An earlier one was " + first + ".\n\nBegin the answer with " + second + " and write no other marker of this kind."
	if got := ask(1, prompt, fault{}); !strings.HasPrefix(got, second+" ") || strings.Count(got, "ANVIL_REQ") != 1 {
		t.Errorf("got %q", got)
	}
	if got := ask(1, "ANVIL_REQ_7_123 is no marker", fault{}); strings.Contains(got, "ANVIL") {
		t.Errorf("got %q", got)
	}
	for variant, good := range map[string]func(string) bool{
		"missing": func(s string) bool { return !strings.Contains(s, "ANVIL") },
		"late":    func(s string) bool { return strings.Index(s, second) > 0 },
		"foreign": func(s string) bool { return strings.HasPrefix(s, "ANVIL_REQ_-5_123457 "+second+" ") },
	} {
		if got := ask(1, prompt, fault{"canary_failed", variant}); !good(got) {
			t.Errorf("%s: %q", variant, got)
		}
	}
}

func TestAForeignMarkerIsAnothers(t *testing.T) {
	for marker, want := range map[string]string{
		"ANVIL_REQ_1_00000":                         "ANVIL_REQ_1_00001",
		"ANVIL_REQ_1_00009":                         "ANVIL_REQ_1_00000",
		"ANVIL_REQ_1_99999999999999999999999999999": "ANVIL_REQ_1_99999999999999999999999999990",
	} {
		if got := foreignMarker(marker); got != want {
			t.Errorf("%s: %s, want %s", marker, got, want)
		}
	}
}

func TestCodeWordsAreWrittenExactly(t *testing.T) {
	for prompt, want := range map[string]string{
		"Then write exactly 3 numbered code words, in this order and nothing else: w00001 w00002 w00003": "w00001 w00002 w00003",
		"Write exactly 2 code words: amber, birch, and stop.":                                            "amber birch",
		"Write EXACTLY 2\ncode words:\n amber\n birch.":                                                  "amber birch",
		"Write exactly 3 code words of your own.\n\nNote: none":                                          "w00001 w00002 w00003",
	} {
		if got := ask(1, prompt, fault{}); got != want {
			t.Errorf("%q: got %q, want %q", prompt, got, want)
		}
		if got := ask(1, prompt, fault{"length_mismatch", "short"}); got != want[:strings.LastIndexByte(want, ' ')] {
			t.Errorf("%q, short: got %q", prompt, got)
		}
		if got := ask(1, prompt, fault{"length_mismatch", "long"}); got != "here they are "+want {
			t.Errorf("%q, long: got %q", prompt, got)
		}
	}
	both := "Begin with ANVIL_REQ_1_00002.\n\nThen write exactly 1 numbered code words, in this order and nothing else: w00001"
	for variant, want := range map[string]string{"": "w00001", "short": "none", "long": "here they are w00001"} {
		if got := ask(1, both, fault{map[bool]string{false: "length_mismatch"}[variant == ""], variant}); got != "ANVIL_REQ_1_00002 "+want {
			t.Errorf("with a marker, %q: %q", variant, got)
		}
	}
}

func TestFactsAreReadOutOfThePrompt(t *testing.T) {
	text := `In metres, the span
length is 48.5. The deputy chief engineer was Ole Vik. The chief engineer was Ida "Io" Sommer; nobody else.
THE COST was 1,204,000. Was the Colour ever settled? The colour is grey.green. The empty thing was there.
The year is 007.`
	prompt := text + "\n\nAnswer with one JSON object with exactly these keys: span_length, \"chief_engineer\", cost, colour, year, missing\nSay nothing else."
	want := `{"span_length": 48.5, "chief_engineer": "Ida \"Io\" Sommer", "cost": 1204000, "colour": "grey.green", "year": "007", "missing": null}`
	if got := ask(1, prompt, fault{}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEqualPromptsGetEqualAnswers(t *testing.T) {
	if first, again := ask(1, "x", fault{}), ask(1, "x", fault{}); first != again {
		t.Error("one seed, two answers")
	}
	if ask(1, "x", fault{}) == ask(2, "x", fault{}) {
		t.Error("two seeds, one answer")
	}
}

func TestNaturalLengthsSpread(t *testing.T) {
	r := stream(1, "test", 0)
	var lengths []int
	sum := 0
	for range 4000 {
		n := naturalLength(r)
		lengths = append(lengths, n)
		sum += n
	}
	slices.Sort(lengths)
	if mean := float64(sum) / 4000; math.Abs(mean-96) > 2 || lengths[0] < 16 || lengths[3999] > 176 {
		t.Errorf("mean %v, %d to %d", mean, lengths[0], lengths[3999])
	}
}

// fields returns how many of the expected fields an answer has wrong.
func wrongFields(t *testing.T, row datasetRow, answer string) (wrong int) {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		t.Fatalf("%s: %q: %v", row.ID, answer, err)
	}
	if len(got) != len(row.Expected.Fields) {
		t.Errorf("%s: keys of %q", row.ID, answer)
	}
	for key, want := range row.Expected.Fields {
		if !cmp.Equal(got[key], want) {
			wrong++
		}
	}
	return wrong
}

func TestDatasetsAreAnsweredCorrectly(t *testing.T) {
	cfg := DefaultConfig()
	cfg.ReasoningTokens = 20
	inBubble(t, cfg, func(t *testing.T, c *client) {
		t.Helper()
		for _, name := range []string{"evidence-4k.jsonl", "quick.jsonl"} {
			for _, row := range readDataset(t, name) {
				r := c.mustPost(t, "/v1/chat/completions", map[string]any{"messages": row.Messages, "stream": true, "max_tokens": 4096})
				if wrong := wrongFields(t, row, r.content); wrong != 0 || r.finish != "stop" {
					t.Errorf("%s: %d fields wrong in %s", row.ID, wrong, r.content)
				}
			}
		}
	})
}

func TestAccuracyIsTheShareOfCorrectAnswers(t *testing.T) {
	row := readDataset(t, "quick.jsonl")[0]
	for _, accuracy := range []float64{0, 0.25, 0.5, 0.75, 0.9, 1} {
		t.Run(fmt.Sprint(accuracy), func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Accuracy, cfg.Seed, cfg.TokensPerEvent = accuracy, 9, 64
			inBubble(t, cfg, func(t *testing.T, c *client) {
				t.Helper()
				const n = 100
				right, first8 := 0, 0
				for i := range n {
					c.mustChat(t, "no question", map[string]any{"max_tokens": 1}) // has no part in the share
					r := c.mustPost(t, "/v1/chat/completions", map[string]any{"messages": row.Messages})
					switch wrong := wrongFields(t, row, r.content); wrong {
					case 0:
						right++
						if i < 8 {
							first8++
						}
					case 1:
					default:
						t.Errorf("%d fields wrong, want one at most", wrong)
					}
				}
				if got := float64(right) / n; math.Abs(got-accuracy) > 0.02 {
					t.Errorf("%v of %d are right, want %v", got, n, accuracy)
				}
				if math.Abs(float64(first8)-8*accuracy) > 1.5 {
					t.Errorf("%d of the first 8 are right, want about %v", first8, 8*accuracy)
				}
			})
		})
	}
}
