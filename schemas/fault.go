package schemas

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// A Fault is one thing that is wrong with a document, in words for the person
// who wrote it.
type Fault struct {
	Pointer string // of the value; of an unknown key, the key's; of a missing key, its object's
	Key     bool   // the key at Pointer is at fault, not its value
	Message string
	Hint    string // how to put it right; may be empty
	Keyword string // of the schema's rule that the value breaks, such as "type"; "" where it breaks none
}

// WrongType tells whether the value is of none of the types that are wanted.
func (f Fault) WrongType() bool {
	return f.Keyword == "type" || f.Keyword == "oneOf" || f.Keyword == "anyOf"
}

// Faults checks doc, which Fill has filled, and returns everything that is
// wrong with it, sorted by pointer. Unlike Validate it names each unknown and
// each missing key, reports of a union only the member that was meant, and
// takes 1.0 for no integer.
func Faults(id ID, doc any) ([]Fault, error) {
	s, err := Compile(id)
	if err != nil {
		return nil, err
	}
	out, err := faultsOf(s, doc)
	if err != nil {
		return nil, fmt.Errorf("check against %s: %w", id, err)
	}
	return out, nil
}

func faultsOf(s *jsonschema.Schema, doc any) ([]Fault, error) {
	if allInRange(doc) && judge(s, doc) == accepted {
		return nil, nil
	}
	var out []Fault
	if err := ask(s, doc); err != nil {
		var ve *jsonschema.ValidationError
		var re *rangeError
		switch {
		case errors.As(err, &ve):
			out = appendFaults(out, ve, doc)
		case errors.As(err, &re):
			for _, v := range re.violations {
				out = append(out, Fault{Pointer: v.Pointer, Message: v.Message, Hint: outOfRangeHint})
			}
		default:
			return nil, err
		}
	}
	return sortFaults(onePerScalar(appendKeyFaults(out, []*jsonschema.Schema{s}, doc, ""), doc)), nil
}

// telling are keywords in the order in which they tell what is wrong with a
// value: of the wrong type it breaks other rules too.
var telling = []string{"type", "enum", "const", "oneOf", "anyOf", "format", "minLength", "maxLength", "pattern"}

// onePerScalar keeps of the rules that a text or a number breaks the one that
// tells most.
func onePerScalar(faults []Fault, doc any) []Fault {
	rank := func(f Fault) int {
		if i := slices.Index(telling, f.Keyword); i >= 0 {
			return i
		}
		return len(telling)
	}
	first := map[string]int{}
	for _, f := range faults {
		if n, ok := first[f.Pointer]; f.Keyword != "" && (!ok || rank(f) < n) {
			first[f.Pointer] = rank(f)
		}
	}
	return slices.DeleteFunc(faults, func(f Fault) bool {
		return f.Keyword != "" && rank(f) > first[f.Pointer] && isScalar(at(doc, f.Pointer))
	})
}

// appendKeyFaults adds unknown and missing keys, and numbers that an integer
// field holds in the form of a fraction.
func appendKeyFaults(out []Fault, given []*jsonschema.Schema, v any, pointer string) []Fault {
	known := applying(given, v)
	switch v := v.(type) {
	case map[string]any:
		for _, s := range known {
			for _, name := range s.Required {
				if _, ok := v[name]; !ok {
					out = append(out, Fault{Pointer: pointer, Message: fmt.Sprintf("missing key %q", name), Hint: describe(known, name)})
				}
			}
		}
		for _, name := range sortedKeys(v) {
			ss := property(known, name)
			at := Join(pointer, name)
			if len(ss) > 0 {
				out = appendKeyFaults(out, ss, v[name], at)
			} else if closed(known) && !undecided(given, known, v, name) {
				out = append(out, unknownKey(given, known, v, name, at, len(out) < maxHints))
			}
		}
	case []any:
		for i, e := range v {
			out = appendKeyFaults(out, item(known, i), e, Join(pointer, strconv.Itoa(i)))
		}
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") && wantsInteger(known) {
			out = append(out, Fault{Pointer: pointer, Message: notInteger, Hint: noFraction, Keyword: "type"})
		}
	}
	return out
}

func wantsInteger(known []*jsonschema.Schema) bool {
	return slices.ContainsFunc(known, func(s *jsonschema.Schema) bool {
		return slices.Contains(s.Types, "integer") && !slices.Contains(s.Types, "number")
	})
}

func closed(known []*jsonschema.Schema) bool {
	return slices.ContainsFunc(known, func(s *jsonschema.Schema) bool {
		u := s.UnevaluatedProperties
		return s.AdditionalProperties == false || u != nil && u.Always != nil && !*u.Always
	})
}

func describe(known []*jsonschema.Schema, name string) string {
	for _, p := range property(known, name) {
		if p.Description != "" {
			return p.Description
		}
		if p.Ref != nil && p.Ref.Description != "" {
			return p.Ref.Description
		}
	}
	return ""
}

// keysOf returns the keys that may be written: those that only a kind sets are
// left out.
func keysOf(known []*jsonschema.Schema) []string {
	var names []string
	for _, s := range known {
		for name, p := range s.Properties {
			if !MarksOf(p).Resolved {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// maxHints is how many faults of one document get advice, which costs more than
// finding them.
const maxHints = 1000

func unknownKey(given, known []*jsonschema.Schema, v map[string]any, name, pointer string, advise bool) Fault {
	f := Fault{Pointer: pointer, Key: true, Message: fmt.Sprintf("unknown key %q", name)}
	if !advise {
		return f
	}
	names := keysOf(known)
	if when := appliesWhen(given, v, name); when != "" {
		f.Message = fmt.Sprintf("key %q does not apply here", name)
		f.Hint = "it goes with " + when
	} else if near, ok := Closest(name, names); ok {
		f.Hint = fmt.Sprintf("did you mean %q?", near)
	} else if 0 < len(names) && len(names) <= 12 {
		f.Hint = "known: " + strings.Join(names, ", ")
	}
	return f
}

// appliesWhen names what an object lacks for a key to be known in it, such as
// "mode: open, arrival: constant, poisson or gamma"; "" for a key that no
// condition brings.
func appliesWhen(given []*jsonschema.Schema, v map[string]any, name string) string {
	values := map[string][]string{} // by the key that decides: what it may be
	all := conditions(nil, given, name)
	for _, c := range all {
		for _, k := range sortedKeys(c.Properties) {
			if p := c.Properties[k]; len(p.Constant) > 0 && !holds(c.Properties[k], v[k]) {
				values[k] = append(values[k], fmt.Sprint(p.Constant[0]))
			}
		}
	}
	// What only some conditions ask for, or what one of them finds, is not needed.
	maps.DeleteFunc(values, func(_ string, words []string) bool { return len(words) < len(all) })
	for k, words := range values {
		values[k] = distinct(words)
	}
	keys := sortedKeys(values)
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(len(values[a]), len(values[b])) })
	terms := make([]string, len(keys))
	for i, k := range keys {
		terms[i] = k + ": " + orList(values[k])
	}
	return strings.Join(terms, ", ")
}

// distinct returns the words in order, each once.
func distinct(words []string) []string {
	var out []string
	for _, w := range words {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// conditions appends every condition under which a key is known.
func conditions(out, given []*jsonschema.Schema, name string) []*jsonschema.Schema {
	for _, s := range given {
		if s.Ref != nil {
			out = conditions(out, []*jsonschema.Schema{s.Ref}, name)
		}
		if s.If != nil && s.Then != nil {
			if p, ok := s.Then.Properties[name]; ok && !MarksOf(p).Resolved {
				out = append(out, s.If)
			}
		}
		out = conditions(out, s.AllOf, name)
	}
	return out
}

// undecided tells whether what decides about a key is at fault itself: mode: close
// is one mistake, and the keys of mode: closed beside it are none; nor are they
// where a mode must stand and does not.
func undecided(given, known []*jsonschema.Schema, v map[string]any, name string) bool {
	for _, c := range conditions(nil, given, name) {
		for k := range c.Properties {
			have, ok := v[k]
			for _, s := range property(known, k) {
				if ok && !holds(s, have) {
					return true
				}
			}
			if !ok && slices.ContainsFunc(known, func(s *jsonschema.Schema) bool { return slices.Contains(s.Required, k) }) {
				return true
			}
		}
	}
	return false
}

// appendFaults adds what the validator found, each in our words.
func appendFaults(out []Fault, e *jsonschema.ValidationError, doc any) []Fault {
	switch keyword := lastToken(e.KeywordLocation); {
	case keyword == "oneOf" || keyword == "anyOf":
		return appendUnionFaults(out, e, doc)
	case len(e.Causes) > 0:
		for _, c := range e.Causes {
			out = appendFaults(out, c, doc)
		}
		return out
	case keyword == "required" || keyword == "additionalProperties" || strings.Contains(e.KeywordLocation, "/unevaluatedProperties"):
		return out // appendKeyFaults names each key
	default:
		return append(out, explain(e, keyword, at(doc, instance(e))))
	}
}

// instance is the pointer to the value at fault; the validator escapes it as
// part of a URL.
func instance(e *jsonschema.ValidationError) string {
	pointer, err := url.PathUnescape(e.InstanceLocation)
	if err != nil {
		return e.InstanceLocation
	}
	return pointer
}

// appendUnionFaults reports the faults of the member that the value resembles,
// or what the members are when it resembles none.
func appendUnionFaults(out []Fault, e *jsonschema.ValidationError, doc any) []Fault {
	v := at(doc, instance(e))
	for _, asides := range [][]string{{"type", "const", "enum", "required"}, {"type", "const", "enum"}} {
		var meant []*jsonschema.ValidationError
		for _, c := range e.Causes {
			if !aside(c, e.InstanceLocation, asides) {
				meant = append(meant, c)
			}
		}
		if len(meant) == 1 {
			return appendFaults(out, meant[0], doc)
		}
	}
	members := resolvedMembers(e.AbsoluteKeywordLocation, rawList(e.AbsoluteKeywordLocation))
	f := Fault{Pointer: instance(e), Message: "must be " + orList(names(members)), Keyword: lastToken(e.KeywordLocation)}
	f.Hint = retype(members, v)
	return append(out, f)
}

// aside tells whether a member of a union fails already by one of the keywords
// on the value itself, or by a constant below it: it was not meant.
func aside(e *jsonschema.ValidationError, value string, keywords []string) bool {
	if len(e.Causes) == 0 {
		keyword := lastToken(e.KeywordLocation)
		if e.InstanceLocation != value {
			return keyword == "const"
		}
		return slices.Contains(keywords, keyword)
	}
	return slices.ContainsFunc(e.Causes, func(c *jsonschema.ValidationError) bool { return aside(c, value, keywords) })
}

func lastToken(pointer string) string { return pointer[strings.LastIndexByte(pointer, '/')+1:] }

// at returns the value at a pointer, nil where there is none.
func at(doc any, pointer string) any {
	for _, t := range Split(pointer) {
		switch v := doc.(type) {
		case map[string]any:
			doc = v[t]
		case []any:
			i, err := strconv.Atoi(t)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			doc = v[i]
		default:
			return nil
		}
	}
	return doc
}
