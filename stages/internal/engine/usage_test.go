package engine

import (
	"fmt"
	"strings"
	"testing"
)

func TestUsageIsBelievedOrUnknown(t *testing.T) {
	long := text(strings.Repeat("x", 400))
	cont := func(out int) string {
		return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":5,"completion_tokens":%d}}`, out)
	}
	end := finish("stop")
	for name, tt := range map[string]struct {
		payloads []string
		want     string
	}{
		"an event of its own":      {[]string{text("a"), end, usageEvent("5", "2")}, "5/2/?/? final"},
		"in every event":           {[]string{cont(1), cont(4), end, usageEvent("5", "4")}, "5/4/?/? continuous"},
		"every event, no last":     {[]string{cont(1), cont(4), end}, "5/4/?/? continuous"},
		"zeros until the end":      {[]string{cont(0), cont(0), end, usageEvent("5", "2")}, "5/2/?/? final"},
		"zeros at the end":         {[]string{text("a"), end, usageEvent("0", "0")}, "?/?/?/? final (input tokens: zero for a prompt; output tokens: zero for an answer with output)"},
		"null":                     {[]string{text("a"), end, `{"choices":[],"usage":null}`}, "?/?/?/? none (the answer carries no usage)"},
		"null after counts":        {[]string{cont(1), end, `{"choices":[],"usage":null}`}, "5/1/?/? continuous"},
		"a number with a fraction": {[]string{text("a"), end, usageEvent("5", "2.5")}, "5/?/?/? final (output tokens: fractional)"},
		"a whole float":            {[]string{text("a"), end, usageEvent("5.0", "2.0")}, "5/2/?/? final"},
		"negative":                 {[]string{text("a"), end, usageEvent("-5", "-2")}, "?/?/?/? final (input tokens: negative; output tokens: negative)"},
		"negative fraction":        {[]string{text("a"), end, usageEvent("5", "-0.5")}, "5/?/?/? final (output tokens: negative)"},
		"1e30":                     {[]string{text("a"), end, usageEvent("1e30", "1e30")}, "?/?/?/? final (input tokens: absurd; output tokens: absurd)"},
		"beyond a float":           {[]string{text("a"), end, usageEvent("1e999", "2")}, "?/2/?/? final (input tokens: absurd)"},
		"beyond any prompt":        {[]string{text("a"), end, usageEvent("999999999999", "2")}, "?/2/?/? final (input tokens: absurd)"},
		"a string":                 {[]string{text("a"), end, usageEvent(`"5"`, `"2"`)}, "?/?/?/? final (input tokens: not a number; output tokens: not a number)"},
		"a list":                   {[]string{text("a"), end, usageEvent(`[5]`, `{}`)}, "?/?/?/? final (input tokens: not a number; output tokens: not a number)"},
		"true":                     {[]string{text("a"), end, usageEvent("5", "true")}, "5/?/?/? final (output tokens: not a number)"},
		"only one count":           {[]string{text("a"), end, `{"choices":[],"usage":{"prompt_tokens":5}}`}, "5/?/?/? final (output tokens: missing)"},
		"an empty object":          {[]string{text("a"), end, `{"choices":[],"usage":{}}`}, "?/?/?/? final (input tokens: missing; output tokens: missing)"},
		"a string for all":         {[]string{text("a"), end, `{"choices":[],"usage":"many"}`}, "?/?/?/? final (input tokens: not an object; output tokens: not an object)"},
		"above the cap":            {[]string{text("a"), end, usageEvent("5", "300")}, "5/?/?/? final (output tokens: more than was asked for and than the answer can hold)"},
		"a cap that was ignored":   {[]string{long, end, usageEvent("5", "300")}, "5/300/?/? final"},
		"details": {
			[]string{text("a"), end, `{"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":48},"completion_tokens_details":{"reasoning_tokens":7}}}`},
			"50/20/7/48 final",
		},
		"details null": {
			[]string{text("a"), end, `{"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":20,"prompt_tokens_details":null,"completion_tokens_details":null}}`},
			"50/20/?/? final",
		},
		"parts above their wholes": {
			[]string{text("a"), end, `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":48},"completion_tokens_details":{"reasoning_tokens":7}}}`},
			"5/2/?/? final (reasoning tokens: more than the output; cached tokens: more than the input)",
		},
		"no reasoning where there was": {
			[]string{delta(`"reasoning":"hm"`), text("a"), end, `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":0}}}`},
			"5/2/?/? final (reasoning tokens: zero for an answer that reasons)",
		},
		"a part below zero": {
			[]string{text("a"), end, `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":-5}}}`},
			"5/2/?/? final (reasoning tokens: negative)",
		},
		"other names": {
			[]string{text("a"), end, `{"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":20,"reasoning_tokens":7,"prompt_cache_hit_tokens":3}}`},
			"50/20/7/3 final",
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantUsage(t, answerOf(t, at(1, append(tt.payloads, done)...)), tt.want)
		})
	}
}

func TestUsageOfTwoChoicesMayBeTwiceTheCap(t *testing.T) {
	second := `{"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":"stop"}]}`
	wantUsage(t, answerOf(t, at(1, text("a"), second, finish("stop"), usageEvent("5", "512"), done)), "5/512/?/? final")
}
