package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Request is one prompt and how it is to be answered.
type Request struct {
	Messages  []Message // where empty, Prompt is the one message of the user
	Prompt    string
	MaxTokens int
	Sampling  Sampling
	Logprobs  bool // of the answer's tokens, where the API has them
}

// A Message is one turn. Raw, when set, is the message exactly as a data set has
// it and goes out as it is where the API takes messages; Text is its text.
type Message struct {
	Role string          `json:"role"`
	Text string          `json:"content"`
	Raw  json.RawMessage `json:"-"`
}

// Sampling is measure's "sampling" as it is resolved; null is not sent.
type Sampling struct {
	Temperature     *float64 `json:"temperature"`
	TopP            *float64 `json:"top_p"`
	Seed            *int64   `json:"seed"`
	Stop            Stops    `json:"stop"`
	MinTokens       *int     `json:"min_tokens"`
	IgnoreEOS       *bool    `json:"ignore_eos"`
	ReasoningEffort *string  `json:"reasoning_effort"`
	Thinking        string   `json:"thinking"` // default, enabled or disabled
}

// Stops are the strings that end an answer: one string or a list of them.
type Stops []string

// UnmarshalJSON accepts null, a string and a list of strings.
func (s *Stops) UnmarshalJSON(b []byte) error {
	var one *string
	if json.Unmarshal(b, &one) == nil {
		*s = nil
		if one != nil {
			*s = Stops{*one}
		}
		return nil
	}
	var many []string
	if err := json.Unmarshal(b, &many); err != nil {
		return fmt.Errorf("stop: want a string or a list of strings: %w", err)
	}
	*s = many
	return nil
}

// messages returns what a chat API takes.
func (r Request) messages() []any {
	if len(r.Messages) == 0 {
		return []any{Fields{"role": "user", "content": r.Prompt}}
	}
	list := make([]any, len(r.Messages))
	for i, m := range r.Messages {
		if m.Raw != nil {
			list[i] = m.Raw
			continue
		}
		list[i] = Fields{"role": m.Role, "content": m.Text}
	}
	return list
}

// prompt returns what an API without messages takes: their texts, a blank line
// between two.
func (r Request) prompt() string {
	if len(r.Messages) == 0 {
		return r.Prompt
	}
	texts := make([]string, len(r.Messages))
	for i, m := range r.Messages {
		texts[i] = m.Text
	}
	return strings.Join(texts, "\n\n")
}

// unsent lists the switches that are set and not among those an API knows.
func (s Sampling) unsent(known ...string) []string {
	all := []struct {
		name string
		set  bool
	}{
		{"temperature", s.Temperature != nil},
		{"top_p", s.TopP != nil},
		{"seed", s.Seed != nil},
		{"stop", s.Stop != nil},
		{"min_tokens", s.MinTokens != nil},
		{"ignore_eos", s.IgnoreEOS != nil},
		{"reasoning_effort", s.ReasoningEffort != nil},
		{"thinking", s.Thinking == "enabled" || s.Thinking == "disabled"},
	}
	var names []string
	for _, a := range all {
		if a.set && !slices.Contains(known, a.name) {
			names = append(names, a.name)
		}
	}
	return names
}

// Fields are the members of a request's body.
type Fields map[string]any

// set adds a member unless its value is absent.
func set[T any](f Fields, name string, v *T) {
	if v != nil {
		f[name] = *v
	}
}

// merge puts extra_body on top: objects into objects, everything else replaces.
func (f Fields) merge(extra json.RawMessage) Fields {
	if len(extra) == 0 {
		return f
	}
	var over map[string]any
	d := json.NewDecoder(bytes.NewReader(extra))
	d.UseNumber() // numbers go out as they were written
	if d.Decode(&over) != nil {
		return f
	}
	return mergeObjects(f, over)
}

func mergeObjects(into Fields, over map[string]any) Fields {
	for name, v := range over {
		object, isObject := v.(map[string]any)
		below, ok := into[name].(Fields)
		if isObject && ok {
			into[name] = mergeObjects(below, object)
			continue
		}
		into[name] = v
	}
	return into
}

// encode writes the members sorted by name, so that equal requests are equal
// bytes, and leaves <, > and & as they are.
func (f Fields) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(f); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
