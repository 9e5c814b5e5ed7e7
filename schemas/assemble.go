package schemas

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// An assembler puts the library's schemas together from the embedded files.
//
// The library's own compiler validates every schema against the meta-schema of
// its draft, which takes ten times as long as the rest and longer than whole
// commands. The embedded files do not change, so the tests do that: they compile
// every file with the library and hold each field of what it makes against what
// is made here. A keyword that is not known here is an error and so a failing
// test, never a rule that is passed over. Validation itself is the library's.
type assembler struct {
	done     map[string]*jsonschema.Schema // by location, so that cycles end
	patterns map[string]*regexp.Regexp
	blanks   map[string]*jsonschema.Schema // by their text
}

func newAssembler() *assembler {
	return &assembler{done: map[string]*jsonschema.Schema{}, patterns: map[string]*regexp.Regexp{}, blanks: map[string]*jsonschema.Schema{}}
}

// at assembles the schema at a location, "anvil:///file#/pointer".
func (a *assembler) at(location string) (*jsonschema.Schema, error) {
	if s, ok := a.done[location]; ok {
		return s, nil
	}
	return a.schema(location, raw(location))
}

func (a *assembler) schema(location string, doc any) (*jsonschema.Schema, error) {
	if s, ok := a.done[location]; ok {
		return s, nil
	}
	m, isMap := doc.(map[string]any)
	s, err := a.blank(m)
	if err != nil {
		return nil, err
	}
	s.Location = location
	a.done[location] = s
	if always, ok := doc.(bool); ok {
		s.Always, s.ContainsEval = &always, false
		return s, nil
	}
	if !isMap {
		return nil, fmt.Errorf("%s: no schema", location)
	}
	w := &writing{assembler: a, s: s}
	for keyword, v := range m {
		w.set(keyword, v)
	}
	if w.err == nil {
		w.err = extend(s, m)
	}
	return s, w.err
}

// blank returns a new schema that holds what only the library's compiler can
// set: the check of a format, and for enumerations that an error has a text,
// which is not theirs; see message.
func (a *assembler) blank(doc map[string]any) (*jsonschema.Schema, error) {
	says := map[string]any{}
	if format, ok := doc["format"].(string); ok {
		says["format"] = format
	}
	if doc["enum"] != nil {
		says["enum"] = []any{""}
	}
	src := string(AppendJSON(nil, says))
	b, ok := a.blanks[src]
	if !ok {
		c := jsonschema.NewCompiler()
		c.Draft = jsonschema.Draft2020
		c.AssertFormat = true
		c.Formats = formats
		if err := c.AddResource(base+"blank.json", strings.NewReader(src)); err != nil {
			return nil, err
		}
		var err error
		if b, err = c.Compile(base + "blank.json"); err != nil {
			return nil, err
		}
		a.blanks[src] = b
	}
	s := *b
	return &s, nil
}

// message is what a broken rule is called where people read the schema beside
// it: the validator's words, and of an enumeration its values.
func message(e *jsonschema.ValidationError) string {
	values := rawList(e.AbsoluteKeywordLocation)
	if lastToken(e.KeywordLocation) != "enum" || values == nil { // nil: the schema is a user's
		return e.Message
	}
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = literal(v)
	}
	return "value must be " + orList(words)
}

func (a *assembler) pattern(text string) (*regexp.Regexp, error) {
	if re, ok := a.patterns[text]; ok {
		return re, nil
	}
	re, err := regexp.Compile(text)
	a.patterns[text] = re
	return re, err
}

// A writing is one schema while its keywords are set.
type writing struct {
	*assembler
	s   *jsonschema.Schema
	err error // the first
}

func (w *writing) set(keyword string, v any) {
	s := w.s
	switch keyword {
	case "$schema", "$defs", "format", "x-anvil-id", "x-anvil-key", "x-anvil-file", "x-anvil-endpoint", "x-anvil-resolved", "x-anvil-like":
		// Said of the file, read where a reference leads, or set already.
	case "$comment":
		s.Comment = as[string](w, keyword, v)
	case "title":
		s.Title = as[string](w, keyword, v)
	case "description":
		s.Description = as[string](w, keyword, v)
	case "default":
		s.Default = v
	case "$ref":
		s.Ref = w.reference(as[string](w, keyword, v))
	case "type":
		if one, ok := v.(string); ok {
			s.Types = []string{one}
		} else {
			s.Types = w.texts(keyword, v)
		}
	case "const":
		s.Constant = []any{v}
	case "enum":
		s.Enum = as[[]any](w, keyword, v)
	default:
		if !w.setApplicator(keyword, v) && !w.setLimit(keyword, v) {
			w.fail(keyword, "not known")
		}
	}
}

// setApplicator sets the keywords that hold further schemas.
func (w *writing) setApplicator(keyword string, v any) bool {
	s := w.s
	switch keyword {
	case "properties":
		s.Properties = w.schemasByName(keyword, v)
	case "additionalProperties":
		if allowed, ok := v.(bool); ok {
			s.AdditionalProperties = allowed
		} else {
			s.AdditionalProperties = w.child(keyword, v)
		}
	case "unevaluatedProperties":
		s.UnevaluatedProperties = w.child(keyword, v)
	case "propertyNames":
		s.PropertyNames = w.child(keyword, v)
	case "items":
		s.Items2020 = w.child(keyword, v)
	case "not":
		s.Not = w.child(keyword, v)
	case "if":
		s.If = w.child(keyword, v)
	case "then":
		s.Then = w.child(keyword, v)
	case "else":
		s.Else = w.child(keyword, v)
	case "allOf":
		s.AllOf = w.schemas(keyword, v)
	case "anyOf":
		s.AnyOf = w.schemas(keyword, v)
	case "oneOf":
		s.OneOf = w.schemas(keyword, v)
	default:
		return false
	}
	return true
}

// setLimit sets the keywords that bound a value.
func (w *writing) setLimit(keyword string, v any) bool {
	s := w.s
	switch keyword {
	case "required":
		s.Required = w.texts(keyword, v)
	case "minProperties":
		s.MinProperties = w.integer(keyword, v)
	case "minItems":
		s.MinItems = w.integer(keyword, v)
	case "maxItems":
		s.MaxItems = w.integer(keyword, v)
	case "uniqueItems":
		s.UniqueItems = as[bool](w, keyword, v)
	case "minLength":
		s.MinLength = w.integer(keyword, v)
	case "maxLength":
		s.MaxLength = w.integer(keyword, v)
	case "pattern":
		re, err := w.pattern(as[string](w, keyword, v))
		if err != nil {
			w.fail(keyword, err.Error())
		}
		s.Pattern = re
	case "minimum":
		s.Minimum = w.number(keyword, v)
	case "maximum":
		s.Maximum = w.number(keyword, v)
	case "exclusiveMinimum":
		s.ExclusiveMinimum = w.number(keyword, v)
	case "exclusiveMaximum":
		s.ExclusiveMaximum = w.number(keyword, v)
	default:
		return false
	}
	return true
}

func (w *writing) fail(keyword, why string) {
	if w.err == nil {
		w.err = fmt.Errorf("%s/%s: %s", w.s.Location, keyword, why)
	}
}

func as[T any](w *writing, keyword string, v any) T {
	t, ok := v.(T)
	if !ok {
		w.fail(keyword, fmt.Sprintf("not a value of this keyword: %v", v))
	}
	return t
}

func (w *writing) texts(keyword string, v any) []string {
	list := as[[]any](w, keyword, v)
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = as[string](w, keyword, e)
	}
	return out
}

func (w *writing) integer(keyword string, v any) int {
	n, err := strconv.Atoi(as[json.Number](w, keyword, v).String())
	if err != nil {
		w.fail(keyword, err.Error())
	}
	return n
}

func (w *writing) number(keyword string, v any) *big.Rat {
	r, ok := new(big.Rat).SetString(as[json.Number](w, keyword, v).String())
	if !ok {
		w.fail(keyword, "no number")
	}
	return r
}

func (w *writing) child(path string, doc any) *jsonschema.Schema {
	s, err := w.schema(w.s.Location+"/"+path, doc)
	if err != nil && w.err == nil {
		w.err = err
	}
	return s
}

func (w *writing) schemas(keyword string, v any) []*jsonschema.Schema {
	list := as[[]any](w, keyword, v)
	out := make([]*jsonschema.Schema, len(list))
	for i, e := range list {
		out[i] = w.child(keyword+"/"+strconv.Itoa(i), e)
	}
	return out
}

func (w *writing) schemasByName(keyword string, v any) map[string]*jsonschema.Schema {
	m := as[map[string]any](w, keyword, v)
	out := make(map[string]*jsonschema.Schema, len(m))
	for name, e := range m {
		out[name] = w.child(keyword+"/"+url.PathEscape(escape.Replace(name)), e)
	}
	return out
}

// reference follows "file#/pointer", "#/pointer" or "file".
func (w *writing) reference(ref string) *jsonschema.Schema {
	file, pointer, _ := strings.Cut(ref, "#")
	if file == "" {
		file, _, _ = strings.Cut(strings.TrimPrefix(w.s.Location, base), "#")
	}
	s, err := w.at(base + file + "#" + pointer)
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("%s/$ref: %w", w.s.Location, err)
	}
	return s
}
