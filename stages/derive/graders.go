package derive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"anvil/schemas"
)

// A graderType is one member of the table of graders.
type graderType struct {
	name    string
	keys    map[string]any                             // the keys of its own with their defaults
	instead string                                     // key that stands instead of `from`; "": none does, and from has a default in keys
	subject func(GraderSpec) subject                   // nil: ofText
	build   func(GraderSpec, *builder) (grader, error) // reads the file behind a key by builder.file
}

// A subject is what a grader looks at. It decides what of an answer must be
// there, and whether `field` and `extract` mean anything.
type subject int

const (
	ofText    subject = iota // the field, after extraction
	ofAnswer                 // an answer, but none of its texts
	ofGraders                // what other graders say
)

func theAnswer(GraderSpec) subject    { return ofAnswer }
func otherGraders(GraderSpec) subject { return ofGraders }

func (t graderType) subjectOf(s GraderSpec) subject {
	if t.subject == nil {
		return ofText
	}
	return t.subject(s)
}

// graders is the table: a new type of grader is one file and one line here.
func graders() []graderType {
	tabled.once.Do(func() {
		tabled.types = []graderType{
			equalsGrader,
			containsGrader,
			startsWithGrader,
			regexGrader,
			choiceGrader,
			numberGrader,
			jsonGrader,
			evidenceFieldsGrader,
			toolCallGrader,
			finishReasonGrader,
			lengthGrader,
			wordsGrader,
			latencyGrader,
			allGrader(),
			anyGrader(),
			atLeastGrader(),
		}
	})
	return tabled.types
}

// tabled keeps the table, which cannot be a variable's first value: graders of
// graders look their members up in it.
var tabled struct {
	once  sync.Once
	types []graderType
}

// later are types that plans may name and this version does not have.
var later = []string{"exec", "judge"}

// A GraderSpec is one grader as the resolved plan has it.
type GraderSpec struct {
	ID      string   `json:"id"`
	Type    string   `json:"type"`
	Field   string   `json:"field"`
	Extract *Extract `json:"extract"`
	Not     bool     `json:"not"`
	Weight  float64  `json:"weight"`
	Tags    []string `json:"tags"`

	Value      json.RawMessage            `json:"value"`
	From       *string                    `json:"from"`
	IgnoreCase bool                       `json:"ignore_case"`
	Trim       bool                       `json:"trim"`
	Any        []string                   `json:"any"`
	All        []string                   `json:"all"`
	Pattern    string                     `json:"pattern"`
	Letters    string                     `json:"letters"`
	Abs        json.Number                `json:"abs"`
	Rel        json.Number                `json:"rel"`
	Units      []string                   `json:"units"`
	Schema     *string                    `json:"schema"`
	Pointers   map[string]json.RawMessage `json:"pointers"`
	Fields     []string                   `json:"fields"`
	Normalize  []string                   `json:"normalize"`
	Name       *string                    `json:"name"`
	Arguments  *string                    `json:"arguments"`
	MinF1      float64                    `json:"min_f1"`
	In         []string                   `json:"in"`
	Min        *float64                   `json:"min"`
	Max        *float64                   `json:"max"`
	Unit       string                     `json:"unit"`
	Requested  *int                       `json:"requested"`
	Metric     string                     `json:"metric"`
	AtMost     *float64                   `json:"at_most"`
	N          int                        `json:"n"`
	Of         []json.RawMessage          `json:"of"`
}

// commonKeys are the keys of every grader with their defaults.
func commonKeys() map[string]any {
	return map[string]any{
		"field": fieldContent, "extract": nil, "not": false, "weight": json.Number("1"), "tags": []any{},
	}
}

// A builder makes graders and notes which members of a row they point into.
// Without files, while a plan is read, it checks the rest of a grader alone.
type builder struct {
	members []string
	files   map[string][]byte // content by JSON pointer into with; nil: not at hand
	at      string            // of the grader being built
}

// fileKeys are the keys of graders that name a file.
var fileKeys = []string{"schema", "arguments"}

// file is the content behind a key of the grader being built; ok is false when
// no file is named, or none is at hand.
func (b *builder) file(key string) (src []byte, ok bool) {
	src, ok = b.files[b.at+"/"+key]
	return src, ok
}

func graderPointer(i int) string { return fmt.Sprintf("/graders/%d", i) }

// eachGrader visits a grader and those within it.
func eachGrader(v any, at string, visit func(m map[string]any, at string)) {
	m, ok := v.(map[string]any)
	if !ok {
		return
	}
	visit(m, at)
	of, _ := m["of"].([]any)
	for i, member := range of {
		eachGrader(member, fmt.Sprintf("%s/of/%d", at, i), visit)
	}
}

// GraderFiles returns where graders may name a file, as JSON pointers into the
// configuration, whether they do or not: what entered a key says so no more.
func GraderFiles(graders []json.RawMessage) []string {
	var out []string
	for i, raw := range graders {
		v, err := decodeNumbers(raw)
		if err != nil {
			continue
		}
		eachGrader(v, graderPointer(i), func(_ map[string]any, at string) {
			for _, key := range fileKeys {
				out = append(out, at+"/"+key)
			}
		})
	}
	return out
}

func (b *builder) need(pointer string) { b.members = append(b.members, member(pointer)) }

// literal reads `value` or `from`. A value that no answer can be equal to is a
// fault of the plan; check says more of each of its texts than that it is one.
func (b *builder) literal(s GraderSpec, check func(text string) error) (literalSource, error) {
	if len(s.Value) == 0 || string(s.Value) == "null" {
		return b.pointer(s.From)
	}
	v, err := decodeNumbers(s.Value)
	if err != nil {
		return literalSource{}, err
	}
	l := literalSource{value: v, given: true}
	texts, problem := l.texts(nil)
	if problem != nil {
		return l, &keyError{"value", problem.reason, "a literal, or a list of which any will do"}
	}
	for _, text := range texts {
		if err := check(text); err != nil {
			return l, &keyError{"value", err.Error(), ""}
		}
	}
	return l, nil
}

func anyText(string) error { return nil }

func (b *builder) pointer(from *string) (literalSource, error) {
	pointer := defaultFrom
	if from != nil {
		pointer = *from
	}
	if !validPointer(pointer) {
		return literalSource{}, &keyError{"from", fmt.Sprintf("%q is no JSON pointer", pointer), defaultFrom}
	}
	b.need(pointer)
	return literalSource{pointer: pointer}, nil
}

// grader builds one grader of the plan.
func (b *builder) grader(raw json.RawMessage, at string) (*wrapped, error) {
	v, err := decodeNumbers(raw)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("a grader is an object")
	}
	return b.graderOf(m, at)
}

// graderOf builds a grader from its plain values, and fills their defaults in place.
func (b *builder) graderOf(m map[string]any, at string) (*wrapped, error) {
	outer := b.at
	b.at = at
	defer func() { b.at = outer }()
	spec, t, err := decodeSpec(m)
	if err != nil {
		return nil, err
	}
	w := &wrapped{spec: spec, subject: t.subjectOf(spec)}
	if w.extract, err = newExtraction(spec.Extract); err != nil {
		return nil, err
	}
	if w.inner, err = t.build(spec, b); err != nil {
		return nil, err
	}
	return w, nil
}

// decodeSpec fills the defaults of a grader and reads it.
func decodeSpec(m map[string]any) (GraderSpec, graderType, error) {
	var spec GraderSpec
	t, err := fillGrader(m)
	if err != nil {
		return spec, t, err
	}
	settleFrom(t, m)
	if err := checkFrom(t, m); err != nil {
		return spec, t, err
	}
	dec := json.NewDecoder(bytes.NewReader(schemas.AppendJSON(nil, m)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&spec); err != nil {
		return spec, t, err
	}
	if !slices.Contains([]string{fieldContent, fieldReasoning, fieldToolCalls}, spec.Field) {
		return spec, t, fmt.Errorf("field: %q is none of content, reasoning, tool_calls", spec.Field)
	}
	if spec.Weight < 0 {
		return spec, t, errors.New("weight: must not be negative")
	}
	return spec, t, checkSubject(spec, t.subjectOf(spec))
}

// checkSubject refuses what would be left out of account without a word.
func checkSubject(s GraderSpec, of subject) error {
	what, hint := "looks at no text of the answer", "leave it out"
	switch {
	case of == ofText:
		return nil
	case of == ofGraders:
		what, hint = "looks at other graders alone", "write it in the graders of `of`"
	case s.Type == "length":
		what = "in tokens goes by the server's count"
	}
	message := fmt.Sprintf("means nothing here: %s %s", s.Type, what)
	if s.Extract != nil {
		return &keyError{"extract", message, hint}
	}
	calls := s.Type == "tool_call" && s.Field == fieldToolCalls // says what is so
	if s.Field != fieldContent && !calls {
		return &keyError{"field", message, hint}
	}
	return nil
}

// A keyError is a fault of one key of a grader; a slash leads to a key within.
type keyError struct{ key, message, hint string }

func (e *keyError) Error() string {
	return strings.ReplaceAll(e.key, "/", ".") + ": " + e.message
}

// fillGrader sets the defaults of one grader in place. Keys of another type
// that are null, as the defaults of a shared schema are, are taken away.
func fillGrader(m map[string]any) (graderType, error) {
	name, _ := m["type"].(string)
	t, err := graderTypeOf(name)
	if err != nil {
		return t, err
	}
	known := commonKeys()
	maps.Copy(known, t.keys)
	for key, value := range m {
		if _, ok := known[key]; ok || key == "id" || key == "type" {
			continue
		}
		if value != nil {
			return t, &keyError{key, fmt.Sprintf("a grader of type %s has no such key", name), suggest(key, sortedKeys(known))}
		}
		delete(m, key)
	}
	for key, value := range known {
		if m[key] != nil {
			continue
		}
		if list, ok := value.([]any); ok {
			value = slices.Clone(list) // the next grader gets its own
		}
		m[key] = value
	}
	return t, nil
}

func graderTypeOf(name string) (graderType, error) {
	all := graders()
	if i := slices.IndexFunc(all, func(t graderType) bool { return t.name == name }); i >= 0 {
		return all[i], nil
	}
	names := mapOf(all, func(t graderType) string { return t.name })
	if slices.Contains(later, name) {
		return graderType{}, &keyError{"type", fmt.Sprintf("graders of type %s come with a later version", name), "of this version: " + strings.Join(names, ", ")}
	}
	return graderType{}, &keyError{"type", fmt.Sprintf("unknown type of grader %q", name), suggest(name, names)}
}

// suggest is the hint for a name that is nearly one of the known ones.
func suggest(name string, known []string) string {
	if best, ok := schemas.Closest(name, known); ok {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "known: " + strings.Join(known, ", ")
}

// compilePattern compiles the pattern that stands at a key of a grader.
func compilePattern(key, pattern string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(pattern)
	if fault, ok := errors.AsType[*syntax.Error](err); ok {
		return nil, &keyError{key, fmt.Sprintf("%s: %q", fault.Code, fault.Expr), "RE2 has no look-around and no back-references; \\( is a plain bracket"}
	}
	return re, err
}

// marshalText is JSON without HTML escapes and without a final newline.
func marshalText(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
