// Package shape checks a jsontree value against one of anvil's embedded JSON
// Schemas. It knows the keywords that the schemas of records use and refuses to
// compile any other, so nothing is passed over in silence.
//
// It stands beside package schemas for three reasons: it validates a document
// where it lies, without a tree of maps (a gigabyte of rows in constant
// memory); it names every missing member by a pointer of its own; and it sees
// number text, so that 4.0 is no integer. The tests hold the two against each
// other on every mutation of real records.
package shape

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"anvil/schemas"
	"anvil/stages/internal/jsontree"
)

// A Schema is compiled. It is safe for concurrent use.
type Schema struct {
	all    []*Schema // $ref and allOf: all must accept
	never  bool      // the schema false
	kinds  []string
	enum   []string // source texts of the values; strings decoded, marked by a leading quote
	list   []any    // enum as it stands, for messages
	isEnum bool

	required   []string
	properties map[string]*Schema
	additional *Schema
	names      *Schema

	items              *Schema
	minItems, maxItems int

	minimum, maximum     *float64
	minLength, maxLength int
	pattern              *regexp.Regexp
	format               string
	unique               bool

	anyOf, oneOf  []*Schema
	cond, yes, no *Schema
	not           *Schema
}

// Compile returns the schema of an id, compiling at the first call. The error
// is a fault of the build.
var Compile = func() func(id schemas.ID) (*Schema, error) {
	var mu sync.Mutex
	done := map[schemas.ID]*Schema{}
	return func(id schemas.ID) (*Schema, error) {
		mu.Lock()
		defer mu.Unlock()
		if s, ok := done[id]; ok {
			return s, nil
		}
		c := compiler{files: map[string]any{}, refs: map[string]*Schema{}}
		s, err := c.ref(id.FileName(), "#")
		if err != nil {
			return nil, fmt.Errorf("schema %s: %w", id, err)
		}
		done[id] = s
		return s, nil
	}
}()

// Fragment returns the part of a schema behind a pointer such as
// "#/$defs/row".
func Fragment(id schemas.ID, pointer string) (*Schema, error) {
	c := compiler{files: map[string]any{}, refs: map[string]*Schema{}}
	return c.ref(id.FileName(), pointer)
}

type compiler struct {
	files map[string]any
	refs  map[string]*Schema // by file and pointer; also those being compiled
}

func (c *compiler) file(name string) (any, error) {
	if doc, ok := c.files[name]; ok {
		return doc, nil
	}
	src, err := schemas.Table(name)
	if err != nil {
		return nil, err
	}
	var doc any
	if err := json.Unmarshal(src, &doc); err != nil {
		return nil, err
	}
	c.files[name] = doc
	return doc, nil
}

// ref compiles "file#/pointer" as seen from a file.
func (c *compiler) ref(file, ref string) (*Schema, error) {
	name, pointer, _ := strings.Cut(ref, "#")
	if name != "" {
		file = name
	}
	key := file + "#" + pointer
	if s, ok := c.refs[key]; ok {
		return s, nil
	}
	at, err := c.file(file)
	if err != nil {
		return nil, err
	}
	for _, step := range strings.Split(pointer, "/")[1:] {
		object, ok := at.(map[string]any)
		if at = object[step]; !ok || at == nil {
			return nil, fmt.Errorf("%s leads nowhere", key)
		}
	}
	s := &Schema{}
	c.refs[key] = s
	return s, c.fill(s, file, at)
}

func (c *compiler) compile(file string, at any) (*Schema, error) {
	s := &Schema{}
	return s, c.fill(s, file, at)
}

func (c *compiler) list(file string, at any) ([]*Schema, error) {
	var out []*Schema
	for _, e := range at.([]any) {
		s, err := c.compile(file, e)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// ignored are keywords that state no rule.
var ignored = map[string]bool{
	"$schema": true, "title": true, "description": true, "default": true, "$defs": true, "examples": true, "$comment": true,
}

func (c *compiler) fill(s *Schema, file string, at any) (err error) {
	if b, ok := at.(bool); ok {
		s.never = !b
		return nil
	}
	s.minItems, s.minLength, s.maxItems, s.maxLength = 0, 0, -1, -1
	for key, v := range at.(map[string]any) {
		if ignored[key] || strings.HasPrefix(key, "x-anvil-") {
			continue
		}
		if err := c.keyword(s, file, key, v); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) keyword(s *Schema, file, key string, v any) (err error) {
	var more []*Schema
	switch key {
	case "$ref":
		var r *Schema
		r, err = c.ref(file, v.(string))
		s.all = append(s.all, r)
	case "allOf":
		more, err = c.list(file, v)
		s.all = append(s.all, more...)
	case "anyOf":
		s.anyOf, err = c.list(file, v)
	case "oneOf":
		s.oneOf, err = c.list(file, v)
	case "not":
		s.not, err = c.compile(file, v)
	case "if":
		s.cond, err = c.compile(file, v)
	case "then":
		s.yes, err = c.compile(file, v)
	case "else":
		s.no, err = c.compile(file, v)
	case "items":
		s.items, err = c.compile(file, v)
	case "additionalProperties":
		s.additional, err = c.compile(file, v)
	case "propertyNames":
		s.names, err = c.compile(file, v)
	case "properties":
		s.properties = map[string]*Schema{}
		for name, p := range v.(map[string]any) {
			if s.properties[name], err = c.compile(file, p); err != nil {
				return err
			}
		}
	case "pattern":
		s.pattern, err = regexp.Compile(v.(string))
	default:
		return s.plain(key, v)
	}
	return err
}

// plain sets the keywords that hold no schema.
func (s *Schema) plain(key string, v any) error {
	switch key {
	case "type":
		if t, ok := v.(string); ok {
			v = []any{t}
		}
		for _, t := range v.([]any) {
			s.kinds = append(s.kinds, t.(string))
		}
	case "const":
		return s.plain("enum", []any{v})
	case "enum":
		s.isEnum, s.list = true, v.([]any)
		for _, e := range s.list {
			text, err := enumText(e)
			if err != nil {
				return err
			}
			s.enum = append(s.enum, text)
		}
	case "required":
		for _, n := range v.([]any) {
			s.required = append(s.required, n.(string))
		}
	case "minimum":
		f := v.(float64)
		s.minimum = &f
	case "maximum":
		f := v.(float64)
		s.maximum = &f
	case "minLength":
		s.minLength = int(v.(float64))
	case "maxLength":
		s.maxLength = int(v.(float64))
	case "minItems":
		s.minItems = int(v.(float64))
	case "maxItems":
		s.maxItems = int(v.(float64))
	case "uniqueItems":
		s.unique = v.(bool)
	case "format":
		s.format = v.(string)
		if s.format != "date-time" {
			return fmt.Errorf("format %q is not known here", s.format)
		}
	default:
		return fmt.Errorf("keyword %q is not known here", key)
	}
	return nil
}

func enumText(e any) (string, error) {
	switch e := e.(type) {
	case string:
		return `"` + e, nil
	case nil, bool, float64:
		raw, err := json.Marshal(e)
		return string(raw), err
	}
	return "", fmt.Errorf("enum of a %T is not known here", e)
}

// valueText is what enumText gives for an equal value.
func valueText(v jsontree.Value) string {
	switch v.Kind() {
	case jsontree.String:
		return `"` + v.Str()
	case jsontree.Number:
		f, _ := v.Float()
		text, _ := enumText(f)
		return text
	default:
		return string(v.Raw())
	}
}
