//go:build llamaserver

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"anvil/stages/record"
)

// The server's own counters: of tokens it made for answers that ended, and of
// prompt tokens that it did not find in its cache.
const (
	predictedCounter = "llamacpp:tokens_predicted_total"
	promptCounter    = "llamacpp:prompt_tokens_total"
)

// A speech is one model heard through one API.
type speech struct {
	model, api string
	grammar    string // holds the model to one answer
	want       func(t *testing.T, a *record.Attempt, said string)
}

// everySpeech is each model through each API of the server. Only chat APIs know
// of reasoning; a grammar reaches those two that pass it on.
func everySpeech() []speech {
	var all []speech
	for _, api := range []string{"openai-chat", "openai-responses", "anthropic-messages"} {
		all = append(all, speech{model: "tiny-script.gguf", api: api, want: scriptedAnswer(scriptedText, scriptedTokens)})
	}
	for _, api := range []string{"openai-completions", "llamacpp"} {
		// Every prompt ends in "the": the script goes on behind it.
		all = append(all, speech{model: "tiny-script.gguf", api: api, want: scriptedAnswer(strings.TrimPrefix(scriptedText, " the"), scriptedTokens-1)})
	}
	for _, api := range []string{"openai-chat", "openai-completions", "openai-responses", "anthropic-messages", "llamacpp"} {
		all = append(all, speech{model: "tiny.gguf", api: api, want: randomAnswer})
	}
	for _, api := range []string{"openai-chat", "openai-responses"} {
		all = append(all, speech{model: "tiny-think.gguf", api: api, grammar: thoughtGrammar, want: wantThoughtFirst})
	}
	for _, api := range []string{"openai-chat", "anthropic-messages"} {
		all = append(all, speech{model: "tiny-think.gguf", api: api, want: wantThoughtOnly})
	}
	for _, api := range []string{"openai-completions", "llamacpp"} {
		all = append(all, speech{model: "tiny-think.gguf", api: api, want: randomAnswer})
	}
	return all
}

// Each model through each API, alone, queueing a little and queueing a lot: the
// texts are what the models say, and the server counted what we counted.
func TestLlamaServerCountsWhatIsMeasured(t *testing.T) {
	servers := map[string]*llama{}
	for _, s := range everySpeech() {
		if servers[s.model] == nil {
			servers[s.model] = startLlama(t, s.model, 4)
		}
		name := fmt.Sprintf("%s %s grammar %v", s.model, s.api, s.grammar != "")
		t.Run(name, func(t *testing.T) { s.hear(t, servers[s.model]) })
	}
}

func (s speech) hear(t *testing.T, server *llama) {
	t.Helper()
	ws := t.TempDir()
	said := server.said(t, s)
	before := server.counters(t)
	anvil(t, exitOK, "--workspace", ws, "plan", "run", "../../testdata/llama-server/every-api.yaml",
		"--set", "base_url="+server.base(s.api), "--set", "api="+s.api, "--set", "grammar="+s.grammar)
	all := computedOf(t, document[struct{ Requests []record.Attempt }](t, ws, "scout/scout.json").Requests)
	for _, concurrency := range []int{1, 8, 32} {
		stage := fmt.Sprintf("measure[concurrency=%d]", concurrency)
		rows := attempts(t, ws, stage)
		for i := range rows {
			wantOrder(t, &rows[i])
			s.want(t, &rows[i], said[*rows[i].Item])
		}
		cell := computedOf(t, rows)
		wantMeasured(t, document[record.Measurement](t, ws, stage+"/measurement.json"), rows, cell, concurrency)
		all = all.plus(cell)
	}
	if got := between(before, server.counters(t)); got != all {
		t.Errorf("the server counted %+v, the attempts and the scout %+v", got, all)
	}
	wantVerified(t, ws)
}

// said asks the server itself, without a stream, and returns what it says to
// each item: reasoning, then content.
func (s *llama) said(t *testing.T, as speech) map[string]string {
	t.Helper()
	rows, err := os.ReadFile("../../testdata/llama-server/openings.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for l := range strings.Lines(string(rows)) {
		var row struct{ ID, Prompt string }
		if err := json.Unmarshal([]byte(l), &row); err != nil {
			t.Fatal(err)
		}
		out[row.ID] = s.answer(t, as, row.Prompt)
	}
	return out
}

func (s *llama) answer(t *testing.T, as speech, prompt string) string {
	t.Helper()
	ask := map[string]any{"temperature": 0, "max_tokens": 48, "grammar": as.grammar}
	path := "/v1/chat/completions"
	if as.api == "openai-completions" || as.api == "llamacpp" {
		path, ask["prompt"] = "/v1/completions", prompt
	} else {
		ask["messages"] = []map[string]string{{"role": "user", "content": prompt}}
	}
	body, err := json.Marshal(ask)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	raw, err := s.do(ctx, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	var a struct {
		Choices []struct {
			Text    string
			Message struct {
				Content   string
				Reasoning string `json:"reasoning_content"`
			}
		}
	}
	if err := json.Unmarshal(raw, &a); err != nil || len(a.Choices) != 1 {
		t.Fatalf("%s answered %s", path, raw)
	}
	return a.Choices[0].Text + a.Choices[0].Message.Reasoning + a.Choices[0].Message.Content
}

// Computed are tokens that an engine worked out: of prompts less what a cache held, and of answers.
type computed struct{ prompt, predicted int64 }

func (a computed) plus(b computed) computed {
	return computed{a.prompt + b.prompt, a.predicted + b.predicted}
}

func between(before, after map[string]float64) computed {
	return computed{int64(after[promptCounter] - before[promptCounter]), int64(after[predictedCounter] - before[predictedCounter])}
}

func computedOf(t *testing.T, rows []record.Attempt) (sum computed) {
	t.Helper()
	for _, a := range rows {
		if a.Usage.Input == nil || a.Usage.Cached == nil || a.Usage.Output == nil {
			t.Fatalf("request %d: usage %+v is incomplete", a.Index, a.Usage)
		}
		sum = sum.plus(computed{*a.Usage.Input - *a.Usage.Cached, *a.Usage.Output})
	}
	return sum
}

// wantMeasured holds one cell's own document against its attempts.
func wantMeasured(t *testing.T, m record.Measurement, rows []record.Attempt, cell computed, concurrency int) {
	t.Helper()
	outcomes := map[record.Outcome]int{}
	for _, a := range rows {
		outcomes[a.Outcome]++
	}
	planned := 0
	for o, n := range m.Accounting.Outcomes {
		planned += n
		if n != outcomes[o] {
			t.Errorf("concurrency %d: %d requests are %s in the accounting, %d in the attempts", concurrency, n, o, outcomes[o])
		}
	}
	if planned != len(rows) || m.Accounting.Planned != len(rows) || len(rows) != 40 {
		t.Errorf("concurrency %d: planned %d, outcomes of %d, %d attempts, want 40", concurrency, m.Accounting.Planned, planned, len(rows))
	}
	if got := between(readings(t, m.Counters.Before), readings(t, m.Counters.After)); got != cell {
		t.Errorf("concurrency %d: the counters of the measurement tell %+v, its attempts %+v", concurrency, got, cell)
	}
	if got := mostOpen(rows); got != concurrency {
		t.Errorf("concurrency %d: %d requests were open at once", concurrency, got)
	}
}

func readings(t *testing.T, of any) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	named, ok := of.(map[string]any)
	if !ok {
		t.Fatalf("counters are %v", of)
	}
	for name, v := range named {
		out[name], _ = v.(float64)
	}
	return out
}

// mostOpen is how many requests were open at once.
func mostOpen(rows []record.Attempt) (most int) {
	for _, a := range rows {
		open := 0
		for _, b := range rows {
			if *b.T.Start <= *a.T.Start && *a.T.Start < *b.T.End {
				open++
			}
		}
		most = max(most, open)
	}
	return most
}

// wantOrder holds the stamps of an answered request against each other.
func wantOrder(t *testing.T, a *record.Attempt) {
	t.Helper()
	stamps := []*int64{a.T.Due, a.T.Start, a.T.Sent, a.T.Written, a.T.Headers, a.T.FirstByte, a.T.FirstOutput, a.T.LastOutput, a.T.End}
	if slices.Contains(stamps, nil) || !slices.IsSortedFunc(stamps, func(x, y *int64) int { return int(*x - *y) }) {
		t.Errorf("request %d: stamps out of order: %+v", a.Index, a.T)
		return
	}
	last := int64(0)
	for _, gap := range a.Arrivals {
		last += gap
	}
	if last != *a.T.LastOutput || a.Arrivals[0] != *a.T.FirstOutput || len(a.Arrivals) != len(a.ArrivalKinds) || int64(len(a.Arrivals)) > *a.Usage.Output {
		t.Errorf("request %d: arrivals %v (%s) of %d tokens do not span %+v", a.Index, a.Arrivals, a.ArrivalKinds, *a.Usage.Output, a.T)
	}
}

func scriptedAnswer(text string, tokens int64) func(*testing.T, *record.Attempt, string) {
	return func(t *testing.T, a *record.Attempt, _ string) {
		t.Helper()
		wantScripted(t, a, text, tokens)
	}
}

func wantScripted(t *testing.T, a *record.Attempt, text string, tokens int64) {
	t.Helper()
	if a.Outcome != record.OutcomeOK || a.Text == nil || *a.Text != text || *a.Reasoning != "" || a.Usage.Output == nil || *a.Usage.Output != tokens {
		t.Errorf("request %d: got %s %q with usage %+v, want the scripted answer of %d tokens", a.Index, a.Outcome, textOf(a), a.Usage, tokens)
	}
	if !a.DoneMarker || len(a.FinishReasons) != 1 || !slices.Contains(natural, a.FinishReasons[0]) {
		t.Errorf("request %d: finish reasons %v, end mark %v", a.Index, a.FinishReasons, a.DoneMarker)
	}
}

// The words in which the APIs say that a model came to its end, and that it
// was cut at the cap.
var (
	natural = []string{"stop", "end_turn", "eos", "completed"}
	capped  = []string{"length", "max_tokens", "limit", "incomplete"}
)

func textOf(a *record.Attempt) string {
	if a.Text == nil {
		return ""
	}
	return *a.Text
}

// randomAnswer is the text that the server says without a stream; all of it is
// content.
func randomAnswer(t *testing.T, a *record.Attempt, said string) {
	t.Helper()
	if !a.Outcome.Success() || textOf(a) != said || *a.Reasoning != "" || strings.Trim(a.ArrivalKinds, "c") != "" {
		t.Errorf("request %d: %s %q, want %q; reasoning %q, kinds %s", a.Index, a.Outcome, textOf(a), said, *a.Reasoning, a.ArrivalKinds)
	}
	wantFinish(t, a)
}

// wantFinish holds outcome, finish reason and count against each other. The
// server calls a capped answer of the responses API completed.
func wantFinish(t *testing.T, a *record.Attempt) {
	t.Helper()
	if len(a.FinishReasons) != 1 {
		t.Errorf("request %d: finish reasons %v", a.Index, a.FinishReasons)
		return
	}
	reason, atCap := a.FinishReasons[0], *a.Usage.Output == 48
	switch {
	case slices.Contains(capped, reason) && a.Outcome == record.OutcomeTruncated && atCap:
	case slices.Contains(natural, reason) && a.Outcome == record.OutcomeOK && (!atCap || reason == "completed"):
	default:
		t.Errorf("request %d: %s with finish reason %q after %d tokens", a.Index, a.Outcome, reason, *a.Usage.Output)
	}
}

// The template of the thinking model opens the thought; the grammar closes it.
const (
	thoughtGrammar = `root ::= " is river" "</think>" "seven green model"`
	thought        = " is river"
	afterThought   = "seven green model"
)

// wantThoughtFirst holds that a thought is output, and no content.
func wantThoughtFirst(t *testing.T, a *record.Attempt, said string) {
	t.Helper()
	if a.Outcome != record.OutcomeOK || textOf(a) != afterThought || *a.Reasoning != thought || said != thought+afterThought {
		t.Errorf("request %d: got %s, %q after the thought %q", a.Index, a.Outcome, textOf(a), *a.Reasoning)
	}
	if k := strings.TrimLeft(a.ArrivalKinds, "r"); k == "" || k == a.ArrivalKinds || strings.Trim(k, "c") != "" {
		t.Errorf("request %d: outputs %s, want reasoning and then content", a.Index, a.ArrivalKinds)
	}
	content := a.Arrivals[0]
	for i := range a.Arrivals[1:] {
		content += a.Arrivals[i+1]
		if a.ArrivalKinds[i+1] == 'c' {
			break
		}
	}
	if a.T.FirstContent == nil || *a.T.FirstContent != content || *a.T.FirstOutput > content {
		t.Errorf("request %d: first output %d, first content %v, want %d", a.Index, *a.T.FirstOutput, a.T.FirstContent, content)
	}
	wantFinish(t, a)
}

// wantThoughtOnly holds that the cap came within the thought: output, but
// nothing that a reader sees, and so no time to it.
func wantThoughtOnly(t *testing.T, a *record.Attempt, said string) {
	t.Helper()
	if textOf(a) != "" || *a.Reasoning != said || said == "" || strings.Trim(a.ArrivalKinds, "r") != "" || a.T.FirstContent != nil {
		t.Errorf("request %d: %q after the thought %q, want %q; kinds %s, first content %v", a.Index, textOf(a), *a.Reasoning, said, a.ArrivalKinds, a.T.FirstContent)
	}
	wantFinish(t, a)
}
