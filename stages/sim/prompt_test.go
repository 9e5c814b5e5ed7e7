package sim_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"anvil/stages/internal/prompt"
	"anvil/stages/sim"
)

// What anvil's own prompts ask for is what the engine understands: the answers
// pass the checks that the measurement makes.
func TestEngineObeysTheChecksOfThePrompts(t *testing.T) {
	server, err := sim.Listen(sim.Config{PrefillTokS: 1e6, DecodeTokS: 1e5, Slots: 8, Queue: 8, TokensPerEvent: 8, Accuracy: 1}, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	file, err := os.Open("../../testdata/datasets/quick.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var projection strings.Builder
	if err := prompt.Project("anvil", file, &projection); err != nil {
		t.Fatal(err)
	}
	for _, checks := range []prompt.Checks{{Canaries: true, Seed: 20260920}, {Canaries: true, Seed: -4, Words: 16}, {Words: 100}} {
		source, err := prompt.Dataset{Checks: checks}.Source(strings.NewReader(projection.String()))
		if err != nil {
			t.Fatal(err)
		}
		for i := range source.Len() {
			p := source.At(i)
			answer := complete(t, server.BaseURL(), p)
			if c := prompt.CheckCanary(p.Marker, answer, true); p.Marker != "" && !c.Passed {
				t.Errorf("%+v: %+v in %q", checks, c, answer)
			}
			if w := prompt.CheckWords(p.Words, true, p.Marker, answer, true); p.Words > 0 && !w.Passed {
				t.Errorf("%+v: %+v in %q", checks, w, answer)
			}
			if p.Words == 0 && !strings.HasPrefix(answer, p.Marker+" {") {
				t.Errorf("the question itself went unanswered: %q", answer)
			}
		}
	}
}

// complete returns the content of a whole answer to p.
func complete(t *testing.T, base string, p prompt.Prompt) string {
	t.Helper()
	messages := make([]json.RawMessage, len(p.Messages))
	for i, m := range p.Messages {
		messages[i] = m.Raw
	}
	body, err := json.Marshal(map[string]any{"messages": messages})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, base+"/chat/completions", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	var got struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := json.NewDecoder(bufio.NewReader(resp.Body)).Decode(&got); err != nil || len(got.Choices) != 1 {
		t.Fatal(fmt.Errorf("%d choices: %w", len(got.Choices), err))
	}
	return got.Choices[0].Message.Content
}
