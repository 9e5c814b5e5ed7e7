package schemas

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// A verdict is what can be said of a value without the library, which takes
// apart what a value got wrong and pays for it when nothing is: thousands of
// stages are checked in every plan with a matrix, and nearly all are right.
//
// Only accepted ends a check; whatever else comes out, the library is asked and
// its answer counts. The tests hold the two against each other.
type verdict int

const (
	unsure   verdict = iota // not a keyword or a value that is judged here
	accepted                // the library accepts it, and no integer has a fraction
	refused                 // the library refuses it
)

// and is the verdict on a value that must meet both rules.
func (a verdict) and(b verdict) verdict {
	switch {
	case a == refused || b == refused:
		return refused
	case a == unsure || b == unsure:
		return unsure
	}
	return accepted
}

func (a verdict) not() verdict {
	switch a {
	case accepted:
		return refused
	case refused:
		return accepted
	default:
		return unsure
	}
}

func verdictOf(ok bool) verdict {
	if ok {
		return accepted
	}
	return refused
}

// judge gives the verdict of a compiled schema on a value.
func judge(s *jsonschema.Schema, v any) verdict {
	if s.Always != nil {
		return verdictOf(*s.Always)
	}
	if len(s.Types) > 0 && !hasType(s.Types, v) {
		return refused
	}
	out := accepted
	switch v := v.(type) {
	case nil, bool:
	case map[string]any:
		out = judgeObject(s, v)
	case []any:
		out = judgeList(s, v)
	case string:
		out = judgeText(s, v)
	case json.Number:
		out = judgeNumber(s, v)
	default:
		out = unsure
	}
	if out != accepted {
		return out
	}
	return judgeScalar(s, v).and(judgeCombined(s, v))
}

// judgeCombined asks the schemas that apply to the same value.
func judgeCombined(s *jsonschema.Schema, v any) verdict {
	out := accepted
	if s.Ref != nil {
		out = judge(s.Ref, v)
	}
	for _, t := range s.AllOf {
		if out == refused {
			return refused
		}
		out = out.and(judge(t, v))
	}
	if s.If != nil {
		out = out.and(judgeBranch(s, v))
	}
	if s.Not != nil {
		out = out.and(judge(s.Not, v).not())
	}
	if len(s.AnyOf) > 0 {
		out = out.and(judgeAny(s.AnyOf, v))
	}
	if len(s.OneOf) > 0 {
		out = out.and(judgeOne(s.OneOf, v))
	}
	return out
}

func judgeBranch(s *jsonschema.Schema, v any) verdict {
	branch := s.Else
	switch judge(s.If, v) {
	case unsure:
		return unsure
	case accepted:
		branch = s.Then
	case refused:
	}
	if branch == nil {
		return accepted
	}
	return judge(branch, v)
}

func judgeAny(union []*jsonschema.Schema, v any) verdict {
	out := refused
	for _, s := range union {
		switch judge(s, v) {
		case accepted:
			return accepted
		case unsure:
			out = unsure
		case refused:
		}
	}
	return out
}

func judgeOne(union []*jsonschema.Schema, v any) verdict {
	fits := 0
	for _, s := range union {
		switch judge(s, v) {
		case unsure:
			return unsure
		case accepted:
			fits++
		case refused:
		}
	}
	return verdictOf(fits == 1)
}

func judgeScalar(s *jsonschema.Schema, v any) verdict {
	if len(s.Constant) == 0 && len(s.Enum) == 0 {
		return accepted
	}
	if !isScalar(v) {
		return unsure
	}
	if len(s.Constant) > 0 && (!isScalar(s.Constant[0]) || !sameScalar(s.Constant[0], v)) {
		return refused
	}
	for _, e := range s.Enum {
		if isScalar(e) && sameScalar(e, v) {
			return accepted
		}
	}
	return verdictOf(len(s.Enum) == 0)
}

func judgeObject(s *jsonschema.Schema, m map[string]any) verdict {
	if s.MinProperties >= 0 && len(m) < s.MinProperties || s.MaxProperties >= 0 && len(m) > s.MaxProperties {
		return refused
	}
	if len(s.PatternProperties)+len(s.DependentRequired)+len(s.DependentSchemas) > 0 {
		return unsure
	}
	for _, name := range s.Required {
		if _, ok := m[name]; !ok {
			return refused
		}
	}
	out := accepted
	if s.AdditionalProperties == nil && s.PropertyNames == nil {
		for name, p := range s.Properties { // of a condition far fewer than m has keys
			if e, ok := m[name]; ok {
				if out = out.and(judge(p, e)); out == refused {
					return refused
				}
			}
		}
		return out.and(judgeUnevaluated(s, m))
	}
	for name, e := range m {
		if out = out.and(judgeKey(s, name, e)); out == refused {
			return refused
		}
	}
	return out.and(judgeUnevaluated(s, m))
}

func judgeKey(s *jsonschema.Schema, name string, v any) verdict {
	out := accepted
	if p, ok := s.Properties[name]; ok {
		out = judge(p, v)
	} else if allowed, ok := s.AdditionalProperties.(bool); ok {
		out = verdictOf(allowed)
	} else if extra, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		out = judge(extra, v)
	}
	if s.PropertyNames != nil {
		out = out.and(judge(s.PropertyNames, name))
	}
	return out
}

// judgeUnevaluated knows unevaluatedProperties in its usual form, false.
func judgeUnevaluated(s *jsonschema.Schema, m map[string]any) verdict {
	u := s.UnevaluatedProperties
	if u == nil {
		return accepted
	}
	if u.Always == nil {
		return unsure
	}
	if *u.Always {
		return accepted
	}
	in, sure := inPlace(nil, s, m)
	for name := range m {
		if slices.ContainsFunc(in, func(t *jsonschema.Schema) bool { return t != s && t.UnevaluatedProperties != nil || evaluates(t, name) }) {
			continue
		}
		if !sure {
			return unsure
		}
		return refused
	}
	return accepted
}

// inPlace appends s and the schemas that apply to an object in its place; sure
// says that these are all.
func inPlace(out []*jsonschema.Schema, s *jsonschema.Schema, m map[string]any) (_ []*jsonschema.Schema, sure bool) {
	out, sure = append(out, s), len(s.AnyOf)+len(s.OneOf) == 0 && s.Not == nil
	add := func(t *jsonschema.Schema) {
		if t != nil {
			all := false
			out, all = inPlace(out, t, m)
			sure = sure && all
		}
	}
	add(s.Ref)
	for _, t := range s.AllOf {
		add(t)
	}
	if s.If == nil {
		return out, sure
	}
	switch judge(s.If, m) {
	case unsure:
		sure = false
	case accepted:
		add(s.If)
		add(s.Then)
	case refused:
		add(s.Else)
	}
	return out, sure
}

// evaluates tells whether a schema itself says something of a key.
func evaluates(s *jsonschema.Schema, name string) bool {
	_, ok := s.Properties[name]
	return ok || s.AdditionalProperties != nil
}

func judgeList(s *jsonschema.Schema, list []any) verdict {
	if s.MinItems >= 0 && len(list) < s.MinItems || s.MaxItems >= 0 && len(list) > s.MaxItems {
		return refused
	}
	if len(s.PrefixItems) > 0 || s.Contains != nil || s.UnevaluatedItems != nil {
		return unsure
	}
	out := accepted
	if s.UniqueItems && len(list) > 1 {
		out = judgeUnique(list)
	}
	if s.Items2020 == nil {
		return out
	}
	for _, e := range list {
		if out = out.and(judge(s.Items2020, e)); out == refused {
			return refused
		}
	}
	return out
}

func judgeUnique(list []any) verdict {
	seen := make(map[string]bool, len(list))
	for _, e := range list {
		text, ok := e.(string)
		if !ok {
			return unsure
		}
		if seen[text] {
			return refused
		}
		seen[text] = true
	}
	return accepted
}

func judgeText(s *jsonschema.Schema, text string) verdict {
	if n := utf8.RuneCountInString(text); s.MinLength >= 0 && n < s.MinLength || s.MaxLength >= 0 && n > s.MaxLength {
		return refused
	}
	if s.Pattern != nil && !s.Pattern.MatchString(text) {
		return refused
	}
	if s.ContentEncoding+s.ContentMediaType != "" {
		return unsure
	}
	if s.Format == "" {
		return accepted
	}
	own, ok := formats[s.Format]
	if !ok {
		return unsure
	}
	return verdictOf(own(text))
}

func judgeNumber(s *jsonschema.Schema, n json.Number) verdict {
	if strings.ContainsAny(string(n), "eE") || s.MultipleOf != nil || strings.Contains(string(n), ".") && wantsInteger([]*jsonschema.Schema{s}) {
		return unsure
	}
	if s.Minimum == nil && s.Maximum == nil && s.ExclusiveMinimum == nil && s.ExclusiveMaximum == nil {
		return accepted
	}
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return unsure
	}
	return verdictOf((s.Minimum == nil || r.Cmp(s.Minimum) >= 0) && (s.Maximum == nil || r.Cmp(s.Maximum) <= 0) &&
		(s.ExclusiveMinimum == nil || r.Cmp(s.ExclusiveMinimum) > 0) && (s.ExclusiveMaximum == nil || r.Cmp(s.ExclusiveMaximum) < 0))
}
