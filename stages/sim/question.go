package sim

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// What the engine can be asked. Everything else is answered with invented
// words. All rules read the last message of the user (the prompt, where there
// are no messages); facts are looked for in all messages.
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
// Facts: "one JSON object with exactly these keys: a_key, other_key" is
// answered with such an object, its keys in the order asked, on one line. The
// list ends with its line; keys are of lower-case letters, digits and
// underscores and may stand in quotes. The value of a key is read out of the
// prompt: the key, its underscores read as blanks, is looked for as the subject
// of a sentence "the <key> is <value>." or "was", "are", "were", letter case
// and line breaks aside. The first such sentence counts; its value ends at the
// first full stop, semicolon or question mark that a blank or the end follows.
// A value that is a number, thousands separated by commas or not, is answered
// as one, any other as a string; a key without a sentence is null.
var (
	markerRule   = regexp.MustCompile(`ANVIL_REQ_-?[0-9]+_[0-9]{5,}`)
	codeRule     = regexp.MustCompile(`(?i)\bexactly\s+([0-9]{1,5})\s+(?:numbered\s+)?code\s+words\b`)
	factsRule    = regexp.MustCompile(`(?i)\bone\s+JSON\s+object\s+with\s+exactly\s+these\s+keys:[ \t]*([^\r\n]+)`)
	keyRule      = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	plainNumber  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)
	commaNumber  = regexp.MustCompile(`^-?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]+)?$`)
	paragraphEnd = regexp.MustCompile(`\n[ \t\r]*\n`)
)

const (
	maxKeys      = 64
	maxCodeWords = 8192
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
	if markers := markerRule.FindAllString(last, -1); len(markers) > 0 {
		q.marker = markers[len(markers)-1]
	}
	q.words = codeWords(last)
	for _, key := range askedKeys(last) {
		q.facts = append(q.facts, fact{key, lookUp(all, key)})
	}
	return q
}

func codeWords(text string) []string {
	m := codeRule.FindStringSubmatchIndex(text)
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
	listed := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || strings.ContainsRune(" \t\r\n", r) })
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf("w%05d", i+1)
		if len(listed) >= n {
			words[i] = strings.TrimRight(listed[i], ".;")
		}
	}
	return words
}

func askedKeys(text string) (keys []string) {
	m := factsRule.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	for _, item := range strings.Split(m[1], ",") {
		key := strings.Trim(item, " \t.\"'`")
		if !keyRule.MatchString(key) || len(keys) == maxKeys {
			break
		}
		keys = append(keys, key)
	}
	return keys
}

// lookUp returns the JSON value that text states for key, or null.
func lookUp(text, key string) string {
	subject := strings.ReplaceAll(key, "_", `\s+`) // a key has no other special character
	rule, err := regexp.Compile(`(?is)\bthe\s+` + subject + `\s+(?:is|was|are|were)\s+(.{1,500}?)[.;?](?:\s|$)`)
	if err != nil {
		return "null"
	}
	m := rule.FindStringSubmatch(text)
	if m == nil {
		return "null"
	}
	return jsonValue(strings.Join(strings.Fields(m[1]), " "))
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
