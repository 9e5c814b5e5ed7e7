package sim

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// What the engine can be asked. Everything else is answered with invented
// words. All rules read the last message of the user (the prompt, where there
// are no messages); facts are looked for in all messages. Letter case matters
// in markers alone, and a blank is any run of white space.
//
// Marker: a prompt that holds ANVIL_REQ_<number>_<5 digits or more> is answered
// with that marker first; of several the last counts.
//
// Code words: "exactly N code words" or "exactly N numbered code words" is
// answered with the N words that follow the next colon, separated by blanks or
// commas, each less a full stop or comma at its end, joined by single spaces.
// Where fewer follow, the words are w00001, w00002 and so on. The colon counts
// only in the same paragraph.
//
// Facts: "JSON object with exactly these keys: a_key, other_key" is answered
// with such an object, its keys in the order asked, on one line. The list ends
// with its line; keys are of lower-case letters, digits and underscores and may
// stand in quotes. The value of a key is read out of the prompt: the key, its
// underscores read as blanks, is looked for as the subject of a sentence "the
// <key> is <value>." or "was", "are", "were". The first such sentence counts;
// its value ends at the first full stop, semicolon or question mark that a
// blank or the end follows. A value that is a number, thousands separated by
// commas or not, is answered as one, any other as a string; a key without a
// sentence is null.
//
// Prompts are long and an engine that lingers over them would be late: each
// rule looks for a plain word first, and its expression starts there.
var (
	markerRule   = regexp.MustCompile(`ANVIL_REQ_-?[0-9]+_[0-9]{5,}`)
	codeRule     = regexp.MustCompile(`^exactly\s+([0-9]{1,5})\s+(?:numbered\s+)?code\s+words\b`)
	factsRule    = regexp.MustCompile(`^json\s+object\s+with\s+exactly\s+these\s+keys:[ \t]*([^\r\n]+)`)
	keyRule      = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	plainNumber  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)
	commaNumber  = regexp.MustCompile(`^-?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]+)?$`)
	paragraphEnd = regexp.MustCompile(`\n[ \t\r]*\n`)
)

const (
	maxKeys      = 64
	maxCodeWords = 8192
	maxValue     = 500 // bytes
)

// A question is what a prompt asks of the rules above.
type question struct {
	marker string
	words  []string // code words
	facts  []fact
}

// A fact is one key of the object that is asked for, with its value as JSON.
type fact struct{ key, value string }

// readQuestion applies the rules: last is what the user said last, all is the
// whole prompt.
func readQuestion(all, last string) question {
	var q question
	if strings.Contains(last, "ANVIL_REQ_") {
		if markers := markerRule.FindAllString(last, -1); len(markers) > 0 {
			q.marker = markers[len(markers)-1]
		}
	}
	lower := lowerASCII(last)
	q.words = codeWords(last, lower)
	keys := askedKeys(last, lower)
	if len(keys) == 0 {
		return q
	}
	flat := strings.Join(strings.Fields(all), " ")
	lower = lowerASCII(flat)
	for _, key := range keys {
		q.facts = append(q.facts, fact{key, lookUp(flat, lower, key)})
	}
	return q
}

// lowerASCII keeps the position of every byte, which strings.ToLower does not.
func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// find returns the match of a rule at the first place where word stands and
// the rule applies; positions count from the start of text.
func find(text, word string, rule *regexp.Regexp) []int {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return nil
		}
		from += i
		if m := rule.FindStringSubmatchIndex(text[from:]); m != nil {
			for k := range m {
				m[k] += from
			}
			return m
		}
		from += len(word)
	}
}

func codeWords(text, lower string) []string {
	m := find(lower, "exactly", codeRule)
	if m == nil {
		return nil
	}
	n, err := strconv.Atoi(text[m[2]:m[3]])
	if err != nil || n > maxCodeWords {
		return nil
	}
	rest := text[m[1]:]
	if end := paragraphEnd.FindStringIndex(rest); end != nil {
		rest = rest[:end[0]]
	}
	_, list, _ := strings.Cut(rest, ":")
	listed := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf("w%05d", i+1)
		if len(listed) >= n {
			words[i] = strings.TrimRight(listed[i], ".;")
		}
	}
	return words
}

func askedKeys(text, lower string) (keys []string) {
	m := find(lower, "json", factsRule)
	if m == nil {
		return nil
	}
	for item := range strings.SplitSeq(text[m[2]:m[3]], ",") {
		key := strings.Trim(item, " \t.\"'`")
		if !keyRule.MatchString(key) || len(keys) == maxKeys {
			break
		}
		keys = append(keys, key)
	}
	return keys
}

// lookUp returns the JSON value that a text states for key, or null. The text
// has single spaces; lower is the same in lower case.
func lookUp(flat, lower, key string) string {
	subject := "the " + strings.ReplaceAll(key, "_", " ") + " "
	for from := 0; ; {
		i := strings.Index(lower[from:], subject)
		if i < 0 {
			return "null"
		}
		start := from + i
		from = start + len(subject)
		if start > 0 && isWordByte(lower[start-1]) {
			continue
		}
		verb, _, _ := strings.Cut(lower[from:min(len(lower), from+5)], " ")
		switch verb {
		case "is", "was", "are", "were":
			if value := sentenceEnd(flat[min(len(flat), from+len(verb)+1):]); value != "" {
				return jsonValue(value)
			}
		}
	}
}

func isWordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// sentenceEnd returns what stands before the end of the sentence; "" where
// none comes soon enough.
func sentenceEnd(text string) string {
	for i := 0; i < len(text) && i <= maxValue; i++ {
		if strings.IndexByte(".;?", text[i]) >= 0 && (i+1 == len(text) || text[i+1] == ' ') {
			return text[:i]
		}
	}
	return ""
}

func jsonValue(value string) string {
	switch {
	case plainNumber.MatchString(value):
		return value
	case commaNumber.MatchString(value):
		return strings.ReplaceAll(value, ",", "")
	}
	return quote(value)
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // a string always marshals
		return `""`
	}
	return string(b)
}
