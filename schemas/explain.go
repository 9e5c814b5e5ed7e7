package schemas

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// explain puts one broken rule into words. What the rule wants is read from
// the schema itself, never from the validator's text.
func explain(e *jsonschema.ValidationError, keyword string, v any) Fault {
	want := raw(e.AbsoluteKeywordLocation)
	whole, _ := raw(strings.TrimSuffix(e.AbsoluteKeywordLocation, "/"+keyword)).(map[string]any)
	f := Fault{Pointer: instance(e), Message: e.Message, Keyword: keyword}
	if strings.Contains(e.KeywordLocation, "/propertyNames/") {
		f.Key, f.Keyword, f.Message = true, "", fmt.Sprintf("key must match %v", want)
		if what, ok := whole["description"].(string); ok {
			f.Message = "key must be " + what
		}
		return f
	}
	switch keyword {
	case "type":
		f.Message = "must be " + orList(typeWords(whole)) + ", not " + article(v)
		f.Hint = retype([]any{whole}, v)
		if _, ok := v.(json.Number); ok && slices.Contains(typesOf(whole), "integer") {
			f.Message, f.Hint = notInteger, noFraction
		}
	case "enum":
		f.Message, f.Hint = oneOfValues(want, v)
	case "const":
		f.Message = "must be " + literal(want)
	case "minimum":
		f.Message = fmt.Sprintf("must be >= %v", want)
	case "maximum":
		f.Message = fmt.Sprintf("must be <= %v", want)
	case "exclusiveMinimum":
		f.Message = fmt.Sprintf("must be > %v", want)
	case "exclusiveMaximum":
		f.Message = fmt.Sprintf("must be < %v", want)
	case "minLength":
		f.Message = "must not be empty"
		if literal(want) != "1" {
			f.Message = "must have at least " + count(want, "character")
		}
	case "maxLength":
		f.Message = "must have at most " + count(want, "character")
	case "minItems":
		f.Message = "must have at least " + count(want, "item")
	case "maxItems":
		f.Message = "must have at most " + count(want, "item")
	case "minProperties":
		f.Message = "must have at least " + count(want, "key")
		f.Hint, _ = whole["description"].(string)
	case "maxProperties":
		f.Message = "must have at most " + count(want, "key")
	case "uniqueItems":
		f.Message = "must not hold the same item twice"
	case "pattern":
		f.Message = fmt.Sprintf("must match %v", want)
		f.Hint, _ = whole["description"].(string)
	case "format":
		f.Message = "must be " + formatWord(want)
		if w, ok := wordOfFormat[fmt.Sprint(want)]; ok {
			f.Message, f.Hint = "must be "+w, exampleOfFormat[fmt.Sprint(want)]
		}
		if text, ok := v.(string); ok && want == "anvil-duration" && isNegative(text) {
			f.Message = "must not be negative"
		}
	}
	return f
}

// What an integer field says of a number with a fraction, 1.0 among them.
const (
	notInteger = "must be an integer"
	noFraction = "write it without a fraction"
)

func count(n any, noun string) string {
	if literal(n) == "1" {
		return "1 " + noun
	}
	return fmt.Sprintf("%v %ss", n, noun)
}

var (
	wordOfFormat = map[string]string{"anvil-duration": "a duration", "anvil-size": "a size"}

	exampleOfFormat = map[string]string{"anvil-duration": `for example "30s" or "5m"`, "anvil-size": `bytes, or for example "64KiB"`}
)

func isNegative(duration string) bool {
	d, err := time.ParseDuration(duration)
	return err == nil && d < 0
}

func formatWord(want any) string { return fmt.Sprintf("in the form %v", want) }

func oneOfValues(want any, v any) (message, hint string) {
	list, _ := want.([]any)
	words := make([]string, len(list))
	var texts []string
	for i, w := range list {
		words[i] = literal(w)
		if s, ok := w.(string); ok {
			texts = append(texts, s)
			words[i] = s
		}
	}
	message = "must be " + orList(words)
	if s, ok := v.(string); ok {
		if near, ok := Closest(s, texts); ok {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
	}
	return message, hint
}

func literal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

func orList(words []string) string {
	switch len(words) {
	case 0:
		return "something else"
	case 1:
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

var wordOfType = map[string]string{
	"null": "null", "boolean": "true or false", "string": "text", "integer": "an integer", "number": "a number",
	"object": "a mapping", "array": "a list",
}

func article(v any) string {
	if v == true || v == false {
		return literal(v)
	}
	return wordOfType[typeName(v)]
}

func typeWords(schema map[string]any) []string {
	var words []string
	for _, t := range typesOf(schema) {
		w := wordOfType[t]
		if f, ok := wordOfFormat[fmt.Sprint(schema["format"])]; ok && t == "string" {
			w = f
		}
		words = append(words, w)
	}
	// "null" reads best at the end.
	slices.SortStableFunc(words, func(a, b string) int {
		switch {
		case a == b:
			return 0
		case a == "null":
			return 1
		case b == "null":
			return -1
		}
		return 0
	})
	return words
}

func typesOf(schema map[string]any) []string {
	switch t := schema["type"].(type) {
	case string:
		return []string{t}
	case []any:
		var out []string
		for _, e := range t {
			out = append(out, fmt.Sprint(e))
		}
		return out
	}
	return nil
}

// retype says how to write v as one of the types that are wanted.
func retype(union []any, v any) string {
	var types []string
	for _, u := range union {
		m, _ := u.(map[string]any)
		if f, ok := exampleOfFormat[fmt.Sprint(m["format"])]; ok {
			return f
		}
		types = append(types, typesOf(m)...)
	}
	wants := func(t string) bool { return slices.Contains(types, t) }
	switch v := v.(type) {
	case json.Number, bool:
		if wants("string") {
			return fmt.Sprintf(`write "%v"`, v)
		}
	case string:
		switch {
		case (wants("integer") || wants("number")) && isNumber(v), wants("boolean") && (v == "true" || v == "false"):
			return "write " + v + " without quotes"
		case wants("boolean") && strings.EqualFold(v, "off"):
			return "write false"
		case wants("array") && plainWord.MatchString(v):
			return "write [" + v + "]"
		}
	}
	return ""
}

var plainWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*$`)

func isNumber(s string) bool {
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return false
	}
	var n json.Number
	return json.Unmarshal([]byte(s), &n) == nil
}

// resolvedMembers returns the members of the union at a location, each reference
// followed to what it leads to.
func resolvedMembers(location string, union []any) []any {
	home := location[:strings.IndexByte(location, '#')]
	out := make([]any, len(union))
	for i, u := range union {
		m, _ := u.(map[string]any)
		file := home // each reference is seen from there, whatever the last one led to
		for range 8 {
			ref, ok := m["$ref"].(string)
			if !ok {
				break
			}
			if name, _, _ := strings.Cut(ref, "#"); name != "" {
				file = base + name
			}
			_, fragment, _ := strings.Cut(ref, "#")
			next, _ := raw(file + "#" + fragment).(map[string]any)
			if next == nil {
				break
			}
			m = next
		}
		out[i] = m
	}
	return out
}

// names puts the members of a union into words.
func names(members []any) []string {
	var words []string
	for _, u := range members {
		m, _ := u.(map[string]any)
		words = append(words, word(m)...)
	}
	return slices.Compact(words)
}

func word(m map[string]any) []string {
	if c, ok := m["const"]; ok {
		return []string{literal(c)}
	}
	if e, ok := m["enum"].([]any); ok {
		var words []string
		for _, v := range e {
			words = append(words, literal(v))
		}
		return words
	}
	words := typeWords(m)
	if req, ok := m["required"].([]any); ok && len(words) == 1 && words[0] == "a mapping" {
		var keys []string
		for _, r := range req {
			keys = append(keys, fmt.Sprint(r))
		}
		words[0] += " with " + strings.Join(keys, ", ")
	}
	return words
}

// raw returns what stands in a schema file at an absolute location.
func raw(location string) any {
	file, pointer, ok := strings.Cut(location, "#")
	if !ok {
		return nil
	}
	name := strings.TrimPrefix(file, base)
	pointer, err := url.PathUnescape(pointer)
	if err != nil {
		return nil
	}
	return at(document(name), pointer)
}

func rawList(location string) []any {
	list, _ := raw(location).([]any)
	return list
}

var documents sync.Map // file name to parsed schema; they never change

func document(name string) any {
	if d, ok := documents.Load(name); ok {
		return d
	}
	src, err := files.ReadFile(name)
	if err != nil {
		return nil
	}
	dec := json.NewDecoder(strings.NewReader(string(src)))
	dec.UseNumber()
	var d any
	if err := dec.Decode(&d); err != nil {
		return nil
	}
	documents.Store(name, d)
	return d
}
