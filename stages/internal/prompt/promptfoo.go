package prompt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// promptfoo reads a promptfoo configuration as JSON with inline prompts and
// tests: every prompt with the variables of every test in it. A list of tests
// alone, or one a line, has no prompt of its own: there the variable "prompt" is
// it, or the only variable.
func promptfoo(file io.Reader, row func(int, Row) error) error {
	raw, err := io.ReadAll(io.LimitReader(file, maxRow+1))
	if err != nil {
		return err
	}
	if len(raw) > maxRow {
		return fmt.Errorf("longer than %d bytes", maxRow)
	}
	config, err := promptfooConfig(raw)
	if err != nil {
		return err
	}
	for t, test := range config.Tests {
		for p, template := range config.prompts() {
			r, err := test.row(config.DefaultTest.Vars, template)
			if err != nil {
				return fmt.Errorf("tests[%d]: %w", t, err)
			}
			if r.ID = fmt.Sprintf("test-%d", t+1); len(config.Prompts) > 1 {
				r.ID = fmt.Sprintf("test-%d-prompt-%d", t+1, p+1)
			}
			if err := row(t+1, r); err != nil {
				return err
			}
		}
	}
	return nil
}

type promptfooFile struct {
	Prompts     promptfooPrompts `json:"prompts"`
	Tests       []promptfooTest  `json:"tests"`
	DefaultTest promptfooTest    `json:"defaultTest"` //nolint:tagliatelle // its name there
}

type promptfooTest struct {
	Vars map[string]any `json:"vars"`
}

// promptfooPrompts are one text or a list of texts and of objects that hold one.
type promptfooPrompts []string

// UnmarshalJSON reads all the forms; what is not inline is an error.
func (p *promptfooPrompts) UnmarshalJSON(b []byte) error {
	var items []json.RawMessage
	if json.Unmarshal(b, &items) != nil {
		items = []json.RawMessage{b}
	}
	for i, item := range items {
		var text string
		var named struct{ Raw string }
		if json.Unmarshal(item, &text) != nil {
			if err := json.Unmarshal(item, &named); err != nil || named.Raw == "" {
				return fmt.Errorf(`prompts[%d]: want a text, or an object with "raw"`, i)
			}
			text = named.Raw
		}
		if strings.HasPrefix(text, "file://") {
			return fmt.Errorf("prompts[%d]: %.200q: only inline prompts are read; write its text here", i, text)
		}
		*p = append(*p, text)
	}
	return nil
}

func (f promptfooFile) prompts() []string {
	if len(f.Prompts) == 0 {
		return []string{""}
	}
	return f.Prompts
}

func promptfooConfig(raw []byte) (f promptfooFile, err error) {
	raw = bytes.TrimSpace(bytes.TrimPrefix(raw, []byte("\ufeff")))
	switch {
	case len(raw) == 0:
		return f, errors.New("the dataset is empty")
	case raw[0] == '[':
		err = json.Unmarshal(raw, &f.Tests)
	case raw[0] == '{' && !json.Valid(raw):
		f.Tests, err = promptfooLines(raw)
	case raw[0] == '{':
		if err = json.Unmarshal(raw, &f); err == nil && f.Tests == nil {
			f.Tests, err = promptfooLines(raw)
		}
	default:
		err = errors.New("YAML and CSV are not read: write the configuration, or its tests, as JSON")
	}
	if err != nil {
		return f, fmt.Errorf("promptfoo: %w", readable(err))
	}
	return f, nil
}

func promptfooLines(raw []byte) (tests []promptfooTest, err error) {
	err = eachLine(bytes.NewReader(raw), func(n int, raw []byte) error {
		var t promptfooTest
		if err := strict(raw); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := json.Unmarshal(raw, &t); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		tests = append(tests, t)
		return nil
	})
	return tests, err
}

var promptfooVariable = regexp.MustCompile(`\{\{-?\s*([A-Za-z_][A-Za-z0-9_.]*)\s*-?\}\}`)

func (t promptfooTest) row(defaults map[string]any, template string) (r Row, err error) {
	vars := maps.Clone(defaults)
	if vars == nil {
		vars = map[string]any{}
	}
	maps.Copy(vars, t.Vars)
	if template == "" {
		template, err = onlyPrompt(vars)
	}
	if err != nil {
		return r, err
	}
	text := promptfooVariable.ReplaceAllStringFunc(template, func(match string) string {
		name := promptfooVariable.FindStringSubmatch(match)[1]
		value, ok := vars[name]
		if !ok {
			err = fmt.Errorf("prompt: no variable %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(vars)), ", "))
		}
		s, isText := value.(string)
		if !isText && ok {
			raw, _ := json.Marshal(value)
			s = string(raw)
		}
		return s
	})
	if err == nil && (strings.Contains(template, "{%") || strings.Contains(promptfooVariable.ReplaceAllString(template, ""), "{{")) {
		err = errors.New("prompt: of a template only {{ name }} is read, no filters or statements")
	}
	if r.Messages = lmEvalChat(text); r.Messages == nil {
		r.Prompt = &text
	}
	return r, err
}

// onlyPrompt is the template of tests that come without one.
func onlyPrompt(vars map[string]any) (string, error) {
	if _, ok := vars["prompt"]; ok {
		return "{{prompt}}", nil
	}
	if len(vars) == 1 {
		return "{{" + slices.Sorted(maps.Keys(vars))[0] + "}}", nil
	}
	return "", errors.New(`no prompt: a list of tests needs the variable "prompt", or one variable; else hand in the whole configuration with its prompts`)
}
